"""The suites, one room for each."""
