"""Records as znodes: their paths and their bytes, as the original has them."""
