"""hedwig-admin check."""
