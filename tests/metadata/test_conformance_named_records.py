"""Prove that the named records of a store are changed by compare-and-set only, and listed."""

from hedwig.metadata.testing.suite.named_records import *  # noqa: F403
