"""Prove that changes of many clients to one record all take effect, each once, on every manager."""

from hedwig.metadata.testing.suite.change import *  # noqa: F403
