"""Prove every row of the tables of versions and outcomes, for every manager and every form of its calls."""

from hedwig.metadata.testing.suite.truth_table import *  # noqa: F403
