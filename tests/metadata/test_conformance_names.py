"""Prove that any bytes are a name, that no name leaks into another, and that the limits of length hold."""

from hedwig.metadata.testing.suite.names import *  # noqa: F403

THROUGH_THE_GATEWAY = ("test_any_bytes_name_a_topic", "test_topic_names_are_given_back_as_bytes")
