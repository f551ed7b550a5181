"""Prove that a store finds the subscriptions of a subscriber."""

from hedwig.metadata.testing.suite.by_subscriber import *  # noqa: F403
