"""Prove that a topic exists for a store while any manager has a record of it, whoever wrote that, and no longer."""

from hedwig.metadata.testing.suite.existence import *  # noqa: F403
