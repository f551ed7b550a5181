"""The marks of tests that run with both kinds of metadata, or of ledgers, that a cluster can have."""

from typing import Final

import pytest

__all__ = ["on_both", "on_both_ledgers", "on_each_kind", "on_hbase", "on_per_topic", "on_zookeeper_first"]

on_both: Final = pytest.mark.parametrize("deployment", ["zookeeper", "hbase"], indirect=True)
on_hbase: Final = pytest.mark.parametrize("deployment", ["hbase"], indirect=True)
on_zookeeper_first: Final = pytest.mark.parametrize(
    "deployment", ["zookeeper", pytest.param("hbase", marks=pytest.mark.full)], indirect=True
)
"""The hub does the same with either store of the metadata, so the test runs with HBase in long runs only."""

on_both_ledgers: Final = pytest.mark.parametrize("ledgers", ["per-topic", "shared"], indirect=True)
on_per_topic: Final = pytest.mark.parametrize("ledgers", ["per-topic"], indirect=True)
on_each_kind: Final = pytest.mark.parametrize(
    ("deployment", "ledgers"),
    [("zookeeper", "shared"), ("hbase", "shared"), ("zookeeper", "per-topic")],
    indirect=True,
)
"""With each kind of metadata, and each kind of ledgers, but not each with each."""
