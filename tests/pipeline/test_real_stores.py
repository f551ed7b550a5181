"""The data source over real HBase and ZooKeeper: what one session moves from store to store arrives whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.tables import Table
from tests.metadata.bulk_contents import fill
from tests.metadata.place import BACKENDS, BackendRow, Place, Surroundings
from tests.pipeline.stores import check_pauses, new_store, records, with_store
from tests.servers import RunningServers

ROWS = {row.label: row for row in BACKENDS if row.label in ("hbase", "hbase+thrift", "zookeeper")}


@pytest.fixture(params=list(ROWS.values()), ids=list(ROWS))
def place(request: pytest.FixtureRequest, servers: RunningServers, tmp_path: Path) -> Iterator[Place]:
    """An empty store on each kind of servers in turn."""
    row: BackendRow = request.param
    with row.place(Surroundings(servers, tmp_path)).formatted() as place:
        yield place


def test_tables_go_there_and_come_back(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    source, target = new_store(tmp_path, "source"), new_store(tmp_path, "target")
    with_store(source, fill)
    for table in (Table.LEDGERS, Table.SUBSCRIPTIONS, Table.OWNERS):
        for one, other in ((source, place.url), (place.url, target)):
            frame = (
                spark.read.format("hedwig")
                .options(url=one, table=table.value, rowsPerPartition=50, fetchRows=30)
                .load()
            )
            frame.write.format("hedwig").options(url=other, table=table.value, connections=2).mode("append").save()
        expected = {key: found.value for key, found in records(source, table).items()}
        assert {key: found.value for key, found in records(place.url, table).items()} == expected
        assert {key: found.value for key, found in records(target, table).items()} == expected


def test_a_reader_may_be_kept_waiting_for_longer_than_the_store_may_take(place: Place) -> None:
    with_store(place.url, fill)
    check_pauses(place.url, 1)
