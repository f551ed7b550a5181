"""Runs: results as files, their figures, and going on where a run was ended."""
