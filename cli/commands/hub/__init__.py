"""hedwig-admin hub, and top."""
