"""Prove that a store knows its one standalone hub, and that no start count repeats."""

from hedwig.metadata.testing.suite.standalone import *  # noqa: F403
