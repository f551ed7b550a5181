"""Prove what differs between two frames, and that the differences add up."""

from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hedwig.pipeline.frames.checksum import Checksum, checksum_of
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.diff import diff
from tests.pipeline.support.frames import ledgers, seq_id, subscriptions, table_of


def _preferences(**given: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "options": [],
        "message_bound": None,
        "message_filter": None,
        "message_window_size": None,
    }
    return {**nothing, **given}


def test_rows_are_added_removed_and_changed_and_versions_do_not_count(spark: SparkSession) -> None:
    before = ledgers(spark, {b"same": [(1, 1, 9)], b"changed": [(2, 1, None)], b"removed": [], b"\xff": []})
    after = ledgers(spark, {b"\xff": [], b"added": [], b"changed": [(2, 1, 5)], b"same": [(1, 1, 9)]})
    after = after.withColumn("backend", F.lit("hbase"))
    rows = {bytes(row["topic"]): row for row in diff(Table.LEDGERS, before, after).collect()}
    assert {topic: row["change"] for topic, row in rows.items()} == {
        b"changed": "changed",
        b"removed": "removed",
        b"added": "added",
    }
    assert rows[b"changed"]["what"] == ["ranges"]
    assert rows[b"changed"]["before"]["ranges"][0]["end"] is None
    assert rows[b"changed"]["after"]["ranges"][0]["end"]["local"] == Decimal(5)
    assert rows[b"added"]["before"] is None
    assert rows[b"removed"]["after"] is None


def test_subscriptions_are_told_by_both_names_and_in_what_they_differ(spark: SparkSession) -> None:
    one = [(b"t", b"a", None, None), (b"t", b"b", _preferences(), {"consumed": seq_id(1)})]
    other = [(b"t", b"a", _preferences(), None), (b"t", b"b", _preferences(), {"consumed": seq_id(2)})]
    frames = [table_of(spark, Table.SUBSCRIPTIONS, rows) for rows in (one, other)]
    differing = {bytes(row["subscriber"]): row["what"] for row in diff(Table.SUBSCRIPTIONS, *frames).collect()}
    assert differing == {b"a": ["preferences"], b"b": ["state"]}
    assert diff(Table.SUBSCRIPTIONS, frames[0], frames[0]).count() == 0


def test_checksums_do_not_depend_on_order_and_tell_a_row_that_is_there_twice(spark: SparkSession) -> None:
    consumed = {(b"t%d" % number, b"s"): number for number in range(100)}
    frame = subscriptions(spark, consumed)
    whole = checksum_of(Table.SUBSCRIPTIONS, frame)
    assert whole.rows == 100
    assert Checksum.is_text(whole.text)
    assert checksum_of(Table.SUBSCRIPTIONS, frame.orderBy(F.desc("topic")).repartition(5)) == whole
    assert checksum_of(Table.SUBSCRIPTIONS, frame.union(frame)).text != whole.text
    assert checksum_of(Table.SUBSCRIPTIONS, frame.limit(0)) == Checksum(0, "0" * 48)


def test_checksums_of_contents_leave_out_where_rows_come_from(spark: SparkSession) -> None:
    frame = subscriptions(spark, {(b"t", b"s"): 1})
    moved = frame.withColumn("backend", F.lit("hbase")).withColumn("version", F.lit(b"other"))
    one, other = (checksum_of(Table.SUBSCRIPTIONS, each, content_only=True) for each in (frame, moved))
    assert one == other
    assert checksum_of(Table.SUBSCRIPTIONS, frame) != checksum_of(Table.SUBSCRIPTIONS, moved)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # A hash that skips nulls would take each of these pairs as equal.
        (_preferences(message_bound=5), _preferences(message_window_size=5)),
        (_preferences(), None),
        (_preferences(options=[{"name": "", "value": b""}]), _preferences()),
        (
            _preferences(options=[{"name": "a", "value": b"bc"}]),
            _preferences(options=[{"name": "ab", "value": b"c"}]),
        ),
    ],
)
def test_checksums_tell_nulls_and_lists_apart(spark: SparkSession, one: Any, other: Any) -> None:
    frames = [table_of(spark, Table.SUBSCRIPTIONS, [(b"t", b"s", given, None)]) for given in (one, other)]
    assert checksum_of(Table.SUBSCRIPTIONS, frames[0]) != checksum_of(Table.SUBSCRIPTIONS, frames[1])
