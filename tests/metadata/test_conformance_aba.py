"""Prove that a record deleted and created again is never taken for the one before it, and that no creation vanishes."""

from hedwig.metadata.testing.suite.aba import *  # noqa: F403

THROUGH_THE_GATEWAY = ("test_created_again_by_somebody_else_is_told_from_ones_own",)
