"""TLS of a hub's listeners."""
