"""Prove that any sequence of operations of two clients comes to what a dict says."""

from hedwig.metadata.testing.suite.stateful import *  # noqa: F403
