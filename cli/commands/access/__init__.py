"""hedwig-admin access."""
