"""The options of a hub: one checked record, its keys, and the file that holds it."""
