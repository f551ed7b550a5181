"""hedwig-admin console."""
