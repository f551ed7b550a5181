"""Connections of clients: how they are accepted, bounded and read, and the channel that each becomes."""
