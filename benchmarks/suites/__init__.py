"""The suites, one folder for each."""
