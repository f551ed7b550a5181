"""Prove that tables read for a copy hold what the data source reads, in tasks that the job itself planned."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from hedwig.errors import ConfigurationError, CorruptRecordError, LayoutMissingError
from hedwig.pipeline.errors import from_spark
from hedwig.pipeline.frames.schemas import UNKNOWN_FIELDS, UNREADABLE
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.source import datasource
from hedwig.pipeline.source.plan import ScanConfig, plan
from hedwig.pipeline.source.store_tables import read_table, read_table_to_copy
from tests.pipeline.support.stores import break_one, records


@pytest.mark.parametrize("table", Table)
def test_they_hold_what_the_data_source_reads(spark: SparkSession, filled: str, table: Table) -> None:
    frame, rows = read_table_to_copy(spark, filled, table, {"rowsPerPartition": "20", "fetchRows": "7"})
    shares = plan(ScanConfig(url=filled, table=table, rows_per_partition=20))
    assert rows == pytest.approx(frame.count(), abs=len(shares))
    assert frame.rdd.getNumPartitions() == len(shares) > 1
    assert all(field.nullable for field in frame.schema)
    plain = frame.drop(UNKNOWN_FIELDS.name, UNREADABLE.name)
    read = read_table(spark, filled, table, {})
    assert plain.columns == read.columns
    assertDataFrameEqual(plain, read, ignoreNullable=True)


def test_what_is_wrong_with_the_store_is_told_before_anything_is_read(
    spark: SparkSession, tmp_path: Path, filled: str
) -> None:
    with pytest.raises(LayoutMissingError, match="there is no metadata store at"):
        read_table_to_copy(spark, f"sqlite://{tmp_path}/none.db", Table.TOPICS, {})
    with pytest.raises(ConfigurationError, match="has no option"):
        read_table_to_copy(spark, filled, Table.TOPICS, {"rows": "1"})


def test_what_goes_wrong_in_a_task_comes_as_what_it_was(spark: SparkSession, filled: str) -> None:
    break_one(filled, Table.LEDGERS, next(iter(records(filled, Table.LEDGERS))))
    with pytest.raises(PySparkException) as caught:
        read_table_to_copy(spark, filled, Table.LEDGERS, {}).frame.count()
    assert isinstance(from_spark(caught.value), CorruptRecordError)


def test_a_task_is_sent_its_own_share_and_no_other(
    spark: SparkSession, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds however many names the shares list."""
    config = ScanConfig(url=filled, table=Table.SUBSCRIPTIONS, rows_per_partition=200)
    planned = plan(config)
    # Smaller than what Spark turns into a broadcast, which this test would not see.
    names = 900_000 // len(planned)
    planned = [replace(keys, listed=os.urandom(names)) for keys in planned]
    monkeypatch.setattr(datasource, "plan", lambda _: planned)
    frame, rows = read_table_to_copy(spark, filled, Table.SUBSCRIPTIONS, {})
    assert rows == sum(keys.rows for keys in planned) > 0
    assert frame.count() == len(records(filled, Table.SUBSCRIPTIONS))
    tasks = frame._jdf.rdd()
    sizes = [_sent_bytes(spark, partition) for partition in tasks.partitions()]
    assert len(sizes) == len(planned) > 2
    assert names < min(sizes)
    assert max(sizes) < 1.5 * names
    # The part that all of them share.
    assert _sent_bytes(spark, tasks) < 450_000


def _sent_bytes(spark: SparkSession, what: Any) -> int:
    """Return the serialized size of a Java object."""
    java: Any = spark._jvm
    sent = java.java.io.ByteArrayOutputStream()
    java.java.io.ObjectOutputStream(sent).writeObject(what)
    return int(sent.size())
