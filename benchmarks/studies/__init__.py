"""Studies of one question each, run by hand."""
