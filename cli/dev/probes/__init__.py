"""Probes: whether a server that was started answers."""
