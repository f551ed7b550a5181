"""Prove that a topic exists in a store exactly while a manager has a record of it, whichever client wrote that."""

from hedwig.metadata.testing.suite.existence import *  # noqa: F403
