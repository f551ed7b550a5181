"""Prove that every task of a session finds a store, or that the store is refused before a task begins."""

from pathlib import Path

import pytest

from hedwig.errors import ConfigurationError, LayoutMissingError
from hedwig.metadata import KeyRange
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.source.apply import ApplyConfig, apply, prepare
from hedwig.pipeline.source.plan import ScanConfig
from hedwig.pipeline.source.scan import scan
from hedwig.pipeline.source.shared_stores import url_for_tasks


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///./hedwig.db", "sqlite:///data/a%20b/hedwig.db"),
        ("sqlite:///./x/a%20b%3F.db?create=false", "sqlite:///data/a%20b/x/a%20b%3F.db?create=false"),
        ("sqlite:////absolute/hedwig.db", "sqlite:////absolute/hedwig.db"),
        ("hbase://host:2181/hedwig", "hbase://host:2181/hedwig"),
    ],
)
def test_relative_paths_are_made_absolute(url: str, expected: str) -> None:
    for master in ("local", "local[*]", "local[2,3]", None):
        assert url_for_tasks(url, master=master, directory="/data/a b") == expected


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_a_file_is_refused_on_a_cluster(master: str) -> None:
    for url in ("sqlite:////absolute/hedwig.db", "sqlite:///./hedwig.db"):
        with pytest.raises(ConfigurationError, match="is a file of one machine"):
            url_for_tasks(url, master=master, directory="/")
    assert url_for_tasks("zookeeper://host/hedwig", master=master, directory="/") == "zookeeper://host/hedwig"


def test_a_store_in_memory_is_refused_everywhere() -> None:
    with pytest.raises(ConfigurationError, match="a store in memory"):
        url_for_tasks("sqlite://", master="local[2]", directory="/")


def test_only_the_driver_makes_a_store(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/store.db"
    config = ApplyConfig(url=url, table=Table.OWNERS)
    for task in (
        lambda: apply([], config),
        lambda: list(scan(ScanConfig(url=url, table=Table.OWNERS), KeyRange(kind=OWNERSHIP.name))),
    ):
        with pytest.raises(LayoutMissingError):
            task()
        assert not (tmp_path / "store.db").exists()
    prepare(config)
    assert apply([], config).rows == 0
