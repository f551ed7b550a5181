"""Prove that any sequence of operations of two clients gives the results of a dict."""

from hedwig.metadata.testing.suite.stateful import *  # noqa: F403
