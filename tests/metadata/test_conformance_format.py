"""Prove that the format of a store is raised for all clients, and lowered only while it has no shared log."""

from hedwig.metadata.testing.suite.format import *  # noqa: F403
