"""A deployment as programs reach it: its store, its hubs and their admin endpoints, its ledgers, and topic owners."""
