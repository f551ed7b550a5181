"""Code that the tests of this folder share."""
