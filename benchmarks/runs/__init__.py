"""Runs: results as files, their figures, and resuming a run that was ended."""
