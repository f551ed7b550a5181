"""A backend as a third party might write it, and its probe. Its test copies both out of the tree."""
