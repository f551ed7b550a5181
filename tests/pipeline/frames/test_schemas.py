"""Prove that records survive the way into Arrow batches and back, and that other rows are refused with a reason."""

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from hedwig.errors import InvalidArgumentError
from hedwig.metadata import RecordKey
from hedwig.metadata.bulk.comparison import plain_record
from hedwig.metadata.testing import samples
from hedwig.model import SubscriberId, Topic
from hedwig.pipeline.frames.input_rows import rows_of
from hedwig.pipeline.frames.schemas import arrow_schema, batch_of
from hedwig.pipeline.frames.spark_types import spark_schema
from hedwig.pipeline.frames.tables import Table
from hedwig.versions import Version, Versioned

NAMES: Final = st.binary(min_size=1, max_size=8)
RECORDS: Final[dict[Table, st.SearchStrategy[Any]]] = {
    Table.OWNERS: samples.hubs,
    Table.LEDGERS: samples.ledger_ranges,
    Table.SUBSCRIPTIONS: samples.subscriptions,
}
EXTREMES: Final = [
    *((Table.OWNERS, record) for record in samples.EXTREME_HUBS.values()),
    *((Table.LEDGERS, record) for record in samples.EXTREME_RANGES.values()),
    *((Table.SUBSCRIPTIONS, record) for record in samples.EXTREME_SUBSCRIPTIONS.values()),
]


def key_of(table: Table, topic: bytes, subscriber: bytes = b"reader") -> RecordKey:
    return RecordKey(Topic(topic), SubscriberId(subscriber) if table.kind.has_subscriber else None)


def versioned(record: Any, version: bytes = b"v1") -> Versioned[Any]:
    return Versioned(record, Version(version))


@given(st.sampled_from(list(RECORDS)).flatmap(lambda table: st.tuples(st.just(table), st.lists(RECORDS[table]))), NAMES)
def test_records_come_back_as_they_were(sample: tuple[Table, list[Any]], name: bytes) -> None:
    table, records = sample
    keys = [key_of(table, name + b"%d" % number, name) for number in range(len(records))]
    batch = batch_of(table, "sqlite", [(key, versioned(record)) for key, record in zip(keys, records, strict=True)])
    assert batch.schema == arrow_schema(table)
    rows = rows_of(table, batch)
    assert [row.error for row in rows] == [None] * len(records)
    assert [row.key for row in rows] == keys
    assert [row.record for row in rows] == [plain_record(record) for record in records]
    assert {row.version for row in rows} <= {Version(b"v1")}


@pytest.mark.parametrize(("table", "record"), EXTREMES)
def test_extreme_records_come_back_as_they_were(table: Table, record: Any) -> None:
    (row,) = rows_of(table, batch_of(table, "hbase", [(key_of(table, b"\xff\x00"), versioned(record))]))
    assert row.error is None
    assert row.record == plain_record(record)


def test_topics_tell_how_many_ledgers_they_have_and_are_written_without_any() -> None:
    batch = batch_of(Table.TOPICS, "zookeeper", [(key_of(Table.TOPICS, b"t"), versioned(samples.ranges(3)))])
    assert batch.to_pylist() == [{"topic": b"t", "ledgers": 2, "version": b"v1", "backend": "zookeeper"}]
    (row,) = rows_of(Table.TOPICS, batch)
    assert row.record.ranges == ()


@pytest.mark.parametrize("table", Table)
def test_spark_takes_the_batches_as_they_are(table: Table) -> None:
    assert to_arrow_schema(spark_schema(table)).equals(arrow_schema(table))


def test_some_columns_in_any_order() -> None:
    key, record = key_of(Table.SUBSCRIPTIONS, b"t"), versioned(samples.subscription(1))
    batch = batch_of(Table.SUBSCRIPTIONS, "sqlite", [(key, record)], ("state", "topic"))
    assert batch.schema.names == ["state", "topic"]
    assert batch.to_pylist() == [{"state": {"consumed": {"local": Decimal(1), "remote": []}}, "topic": b"t"}]


def test_options_stand_in_the_order_of_their_names() -> None:
    record = samples.EXTREME_SUBSCRIPTIONS["many options"]
    batch = batch_of(Table.SUBSCRIPTIONS, "sqlite", [(key_of(Table.SUBSCRIPTIONS, b"t"), versioned(record))])
    names = [option["name"] for option in batch.to_pylist()[0]["preferences"]["options"]]
    assert names == sorted(names)


def batch_from(table: Table, *rows: dict[str, Any]) -> pa.RecordBatch:
    """Return rows as another program may make them: nullable, missing values null."""
    schema = pa.schema([pa.field(field.name, field.type) for field in arrow_schema(table)])
    return pa.RecordBatch.from_pylist(list(rows), pa.schema([_nullable(field) for field in schema]))


def _nullable(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _nullable_type(field.type))


def _nullable_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_nullable(kind.field(index)) for index in range(kind.num_fields)])
    return pa.list_(_nullable(kind.value_field)) if pa.types.is_list(kind) else kind


GOOD_OWNER: Final = {"topic": b"good", "host": "h", "port": 1, "epoch": Decimal(7)}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"topic": None}, "topic is null"),
        ({"topic": b""}, "1 to 8192 bytes"),
        ({"topic": b"x" * 8193}, "1 to 8192 bytes"),
        ({"host": None}, "host is null"),
        ({"port": None}, "port is null"),
        ({"port": 70_000}, "port is 0 to 65535"),
        ({"ssl_port": -1}, "TLS port"),
        ({"epoch": None}, "epoch is null"),
        ({"epoch": Decimal(-1)}, "epoch is 0 to"),
        ({"epoch": Decimal(2**64)}, "epoch is 0 to"),
    ],
)
def test_row_that_is_no_owner_says_why(wrong: dict[str, Any], why: str) -> None:
    good, bad, good_too = rows_of(Table.OWNERS, batch_from(Table.OWNERS, GOOD_OWNER, GOOD_OWNER | wrong, GOOD_OWNER))
    assert good == good_too
    assert good.error is None
    assert good.record.epoch == 7
    assert why in str(bad.error)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"subscriber": None}, "subscriber is null"),
        ({"state": {"consumed": None}}, "consumed is null"),
        ({"state": {"consumed": {"local": None, "remote": []}}}, "local is null"),
        ({"state": {"consumed": {"local": 1, "remote": [None]}}}, "entry of remote is null"),
        ({"state": {"consumed": {"local": 1, "remote": [{"region": None, "seq_id": 1}]}}}, "region is null"),
        ({"preferences": {"options": [{"name": None, "value": b""}]}}, "name is null"),
        ({"preferences": {"options": [{"name": "n", "value": None}]}}, "value is null"),
        ({"preferences": {"options": [None]}}, "an option is null"),
        ({"preferences": {"options": [{"name": "n", "value": b"1"}, {"name": "n", "value": b"2"}]}}, "'n' twice"),
        ({"preferences": {"options": [], "message_bound": -1}}, "message bound"),
        ({"preferences": {"options": [], "message_window_size": 2**40}}, "window size"),
    ],
)
def test_row_that_is_no_subscription_says_why(wrong: dict[str, Any], why: str) -> None:
    row = {"topic": b"t", "subscriber": b"s"}
    good, bad = rows_of(Table.SUBSCRIPTIONS, batch_from(Table.SUBSCRIPTIONS, row, row | wrong))
    assert good.error is None
    assert why in str(bad.error)


def test_row_of_ledgers_with_an_empty_place_says_why() -> None:
    rows = [{"topic": b"t", "ranges": ranges} for ranges in (None, [None], [{"ledger_id": None}], [{"ledger_id": 4}])]
    none, hole, nameless, good = rows_of(Table.LEDGERS, batch_from(Table.LEDGERS, *rows))
    assert "ranges is null" in str(none.error)
    assert "ledger range is null" in str(hole.error)
    assert "ledger_id is null" in str(nameless.error)
    assert good.error is None
    assert good.record.ranges[0].ledger_id == 4


def test_missing_column_is_named() -> None:
    batch = batch_from(Table.OWNERS, GOOD_OWNER)
    with pytest.raises(InvalidArgumentError, match="rows of owners need the column 'epoch'"):
        rows_of(Table.OWNERS, batch.drop_columns(["epoch"]))
    (row,) = rows_of(Table.OWNERS, batch.drop_columns(["ssl_port", "version", "backend"]))
    assert row.error is None
    assert row.version is None
