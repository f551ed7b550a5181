"""The bookies of a cluster: their registry, the choice of bookies for a ledger, and the connections to them."""
