"""hedwig-admin metadata."""
