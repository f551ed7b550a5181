"""The commands of hedwig-admin, one room for each group."""
