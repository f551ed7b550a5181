"""hedwig-admin message, ledger, publish and subscribe."""
