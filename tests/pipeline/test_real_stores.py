"""Spark over real HBase and ZooKeeper: rows that a session moves between stores arrive whole, and are listed once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from hedwig.metadata.contract.url import zookeeper_address
from hedwig.metadata.testing.bulk_contents import fill
from hedwig.metadata.testing.subject import Subject
from hedwig.metadata.zookeeper.reads.listing import Listing
from hedwig.model import Topic
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots import store_snapshot
from hedwig.pipeline.snapshots.manifest import Manifest
from hedwig.pipeline.snapshots.snapshot import SNAPSHOT_TABLES, write_snapshot
from tests.metadata.support.backends import BACKENDS, BackendRow, Surroundings
from tests.pipeline.conftest import Run
from tests.pipeline.support.stores import check_pauses, new_store, records, with_store
from tests.support.servers import RunningServers

ROWS = {row.label: row for row in BACKENDS if row.label in ("hbase", "hbase+thrift", "zookeeper")}


@pytest.fixture(
    params=[
        pytest.param(row, id=label, marks=pytest.mark.full if label == "hbase+thrift" else ())
        for label, row in ROWS.items()
    ]
)
def subject(request: pytest.FixtureRequest, servers: RunningServers, tmp_path: Path) -> Iterator[Subject]:
    """An empty store on each kind of servers in turn."""
    row: BackendRow = request.param
    with row.subject(Surroundings(servers, tmp_path)).formatted() as subject:
        yield subject


def test_tables_go_there_and_come_back(spark: SparkSession, subject: Subject, tmp_path: Path) -> None:
    source, target = new_store(tmp_path, "source"), new_store(tmp_path, "target")
    with_store(source, fill)
    for table in (Table.LEDGERS, Table.SUBSCRIPTIONS, Table.OWNERS):
        for one, other in ((source, subject.url), (subject.url, target)):
            frame = (
                spark.read.format("hedwig")
                .options(url=one, table=table.value, rowsPerPartition=50, fetchRows=30)
                .load()
            )
            frame.write.format("hedwig").options(url=other, table=table.value, connections=2).mode("append").save()
        expected = {key: stored.value for key, stored in records(source, table).items()}
        assert {key: stored.value for key, stored in records(subject.url, table).items()} == expected
        assert {key: stored.value for key, stored in records(target, table).items()} == expected


def test_a_reader_may_be_kept_waiting_for_longer_than_the_store_may_take(subject: Subject) -> None:
    with_store(subject.url, fill)
    # Servers on a busy machine may need seconds for an answer.
    check_pauses(subject.url, 1, timeout_s=5.0)


@pytest.mark.parametrize("subject", [ROWS["zookeeper"]], ids=["zookeeper"], indirect=True)
def test_a_snapshot_lists_zookeeper_once_for_each_table(
    run: Run, subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_store(subject.url, fill)
    stored = _counts(subject.url)
    listed: list[str] = []
    original, write = Listing.counted_topics, write_snapshot

    def listing(self: Listing, prefix: bytes | None, start_after: Topic | None) -> Any:
        listed.extend(self._record_names)
        return original(self, prefix, start_after)

    def write_later(*frames: Any, **how: Any) -> Manifest:
        # A task or another process, which this test cannot count, would find these rows if it listed the topics again.
        with_store(subject.url, lambda store: fill(store, (b"later/%d" % number for number in range(3))))
        return write(*frames, **how)

    monkeypatch.setattr(Listing, "counted_topics", listing)
    monkeypatch.setattr(store_snapshot, "write_snapshot", write_later)
    taken = run("snapshot", subject.url, tmp_path / "snapshot", "--rows-per-partition", 20)
    assert sorted(listed) == ["hub", "ledgers", "subscribers"]
    assert taken["tables"] == stored
    assert all(number > stored[table] for table, number in _counts(subject.url).items())


@pytest.mark.parametrize("subject", [ROWS["zookeeper"]], ids=["zookeeper"], indirect=True)
def test_an_owner_that_vanishes_with_its_hub_is_nobody_elses_to_judge_or_copy(
    run: Run, subject: Subject, tmp_path: Path
) -> None:
    """Hubs of the original make such owner records by default."""
    with_store(subject.url, fill)
    stored = len(records(subject.url, Table.OWNERS))
    hosts, path = zookeeper_address(subject.url)
    hub = KazooClient(hosts)
    hub.start()
    try:
        hub.create(f"{path}/topics/of the original/hub", b"10.0.0.1:4080:9876", ephemeral=True, makepath=True)
        taken = run("snapshot", subject.url, tmp_path / "snapshot")
    finally:
        hub.stop()
        hub.close()
    assert taken["tables"]["owners"] == stored


def _counts(url: str) -> dict[str, int]:
    """Return the number of records in each table of a snapshot."""
    return {table.value: len(records(url, table)) for table in SNAPSHOT_TABLES}
