"""The commands of hedwig-admin, one package for each group."""
