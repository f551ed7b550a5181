"""hedwig-admin subscription."""
