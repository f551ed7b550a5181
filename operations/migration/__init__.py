"""A migration of a store that hubs use: its plan, its run, its hubs."""
