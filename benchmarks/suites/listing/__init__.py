"""The suite `listing`: commands of hedwig-admin over whole stores."""
