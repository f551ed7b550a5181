"""The command line: hedwig-admin."""
