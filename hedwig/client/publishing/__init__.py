"""Publishing: what is sent again, and in which order."""
