"""Prove that jobs check their arguments before Spark starts: impossible sources are refused, others left alone."""

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.errors import ConfigurationError, LayoutMissingError
from hedwig.exit_codes import ExitCode
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.preflight import check_folder, check_readable, check_source
from hedwig.pipeline.source.plan import ScanConfig, plan
from tests.pipeline.support.stores import new_store
from tests.support.servers import RunningServers


@pytest.mark.parametrize("source", ["./a", "/a b/ä", "hdfs://n/a", "s3a://b/a-1", "file:///a", "hbase://zk/h", "a:b"])
def test_places_that_may_be_are_left_alone(source: str) -> None:
    check_source(source, {})


@pytest.mark.parametrize("source", ["sqllite:///x", "hbse://zk/h", "mysql://host/x"])
def test_schemes_that_nobody_knows_are_told(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(ConfigurationError, match="is neither a metadata backend"):
        check_source(source, {})
    scheme = source.partition(":")[0]
    check_source(source, {f"spark.hadoop.fs.{scheme}.impl": "example.FileSystem"})


def test_a_cluster_may_have_file_systems_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    check_source("tachyonfs://host/x", {})
    with pytest.raises(ConfigurationError, match="'zookeper' is neither"):
        check_source("zookeper://host/x", {})


@pytest.mark.parametrize("character", list("[]{}*?\\"))
def test_names_that_spark_would_not_find_again_are_told(character: str) -> None:
    with pytest.raises(ConfigurationError, match="which Spark takes for a pattern"):
        check_folder(f"/a/b{character}c")


def test_where_nothing_is_the_url_may_be_wrong(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/mistyped.db"
    with pytest.raises(JobError, match="there is no metadata") as caught:
        check_readable(url)
    assert str(caught.value) == f"there is no metadata at {url}: see that the URL is right"
    assert caught.value.code is ExitCode.NOT_FOUND


def test_a_store_without_one_of_its_tables_is_told_what_to_do(tmp_path: Path) -> None:
    url = new_store(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("DROP TABLE subscriptions")
    with pytest.raises(LayoutMissingError, match="has no table subscriptions; make it with:") as caught:
        check_readable(url)
    assert str(caught.value).endswith(f"hedwig-admin metadata format --metadata '{url}'")


def test_what_an_older_release_has_left_is_told_what_to_do(servers: RunningServers) -> None:
    hosts, root = servers.address("zookeeper"), f"/hedwig/{uuid.uuid4().hex}"
    url = f"zookeeper://{hosts}{root}"
    raw = KazooClient(hosts)
    raw.start(30)
    try:
        raw.create(f"{root}/topics/news", makepath=True)
    finally:
        raw.stop()
        raw.close()
    advice = "Start a hub of its release 4.2 or 4.3 there"
    with pytest.raises(LayoutMissingError, match=advice):
        check_readable(url)
    with pytest.raises(LayoutMissingError, match=advice):
        plan(ScanConfig(url=url, table=Table.TOPICS))
