"""The bookies of a cluster: which there are, where entries go, and the connections to them."""
