"""A backend as somebody else might write it, and its probe. Its test copies both out of the tree."""
