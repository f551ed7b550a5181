"""A deployment as commands reach it: its hubs, their admin endpoints, its ledgers, and who owns a topic."""
