"""Tables that are read to be copied hold what the data source reads, in tasks that were planned beside the job."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from hedwig.errors import ConfigurationError, CorruptRecordError, LayoutMissingError
from pipeline import datasource
from pipeline.errors import from_spark
from pipeline.plan import ScanConfig, plan
from pipeline.schemas import UNKNOWN_FIELDS, UNREADABLE
from pipeline.store_tables import read_table, read_table_to_copy
from pipeline.tables import Table
from tests.pipeline.stores import break_one, records


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


@pytest.mark.parametrize("is_listed", [True, False])
def test_shares_that_list_what_is_in_them_are_not_sent_to_each_task(
    spark: SparkSession, filled: str, monkeypatch: pytest.MonkeyPatch, is_listed: bool
) -> None:
    """Whatever the store: it is the plan that tells."""
    shares = [replace(keys, listed=b"names" if is_listed else None) for keys in plan(_config(filled))]
    monkeypatch.setattr(datasource, "plan", lambda _: shares)
    frame, rows = read_table_to_copy(spark, filled, Table.TOPICS, {"rowsPerPartition": "20"})
    assert rows == sum(keys.rows for keys in shares) > 0
    explained = frame._jdf.queryExecution().analyzed().toString()
    assert ("MapInArrow" in explained) != is_listed
    # The data source plans anew, in a process of its own.
    assert frame.count() == read_table(spark, filled, Table.TOPICS, {}).count()


def _config(url: str) -> ScanConfig:
    return ScanConfig(url=url, table=Table.TOPICS, rows_per_partition=20)
