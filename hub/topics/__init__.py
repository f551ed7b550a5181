"""The topics of a hub: how each is acquired, served, balanced and released."""
