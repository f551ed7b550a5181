"""The servers that `dev` starts, one module for each kind."""
