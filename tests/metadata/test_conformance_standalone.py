"""Prove that a store knows its one standalone hub, and that no start count is ever given twice."""

from hedwig.metadata.testing.suite.standalone import *  # noqa: F403
