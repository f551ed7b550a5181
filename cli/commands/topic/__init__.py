"""hedwig-admin topic."""
