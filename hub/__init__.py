"""The server of Hedwig."""
