"""The suite `pipeline`: Spark jobs over whole stores."""
