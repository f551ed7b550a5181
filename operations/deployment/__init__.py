"""A deployment as programs reach it: its store, its hubs, their admin endpoints, its ledgers, and who owns a topic."""
