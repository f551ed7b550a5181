"""Connections of clients: how the hub accepts, bounds and reads them, and the channel of each."""
