"""The marks of tests that run with both kinds of metadata that a cluster can have."""

from typing import Final

import pytest

__all__ = ["on_both", "on_hbase", "on_zookeeper_first"]

on_both: Final = pytest.mark.parametrize("deployment", ["zookeeper", "hbase"], indirect=True)
on_hbase: Final = pytest.mark.parametrize("deployment", ["hbase"], indirect=True)
on_zookeeper_first: Final = pytest.mark.parametrize(
    "deployment", ["zookeeper", pytest.param("hbase", marks=pytest.mark.full)], indirect=True
)
"""The hub does the same with either store of the metadata, so the test runs with HBase in long runs only."""
