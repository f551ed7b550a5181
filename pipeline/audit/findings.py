"""What is wrong with the records of a store, as frames: the findings of `metadata check`, over millions of topics.

All frames of findings have the same columns: `kind` (the words of `metadata check`), `topic` and `subscriber` (binary),
`ledger_id` (decimal(20,0)), `hub` (host:port:sslport and its epoch) and `what`, in words. A column that does not apply
is null.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hedwig.metadata.bulk.findings import FindingKind
from hedwig.metadata.records.ranges import RangeFault, range_defects
from hedwig.pipeline.frames.columns import UINT64, is_virtual
from hedwig.pipeline.frames.input_rows import rows_of
from hedwig.pipeline.frames.tables import Table

__all__ = [
    "SHARED_LEDGER",
    "broken_ranges",
    "hub_name",
    "lone_subscriptions",
    "missing_ledgers",
    "orphan_ledgers",
    "shared_ledgers",
    "stale_owners",
    "unindexed",
    "unreadable_records",
]

SHARED_LEDGER: Final = "shared-ledger"
"""Two topics name the same ledger, but only one of them can have written it. A check of single topics cannot see it."""

_FAULTS: Final = {
    RangeFault.OVERLAP: FindingKind.RANGE_OVERLAP,
    RangeFault.GAP: FindingKind.RANGE_GAP,
    RangeFault.OPEN: FindingKind.RANGE_GAP,
}
_DEFECTS: Final = pa.schema(
    [("kind", pa.string()), ("topic", pa.binary()), ("ledger_id", pa.decimal128(20, 0)), ("what", pa.string())]
)


def stale_owners(owners: DataFrame, living: DataFrame) -> DataFrame:
    """Return a finding for each owner record that names none of the `living` hubs.

    Args: living - columns host, port, ssl_port and epoch, as in the table of owners.
    """
    marked = (
        living.select("host", "port", "ssl_port", F.col("epoch").cast(UINT64).alias("epoch")).distinct().alias("hub")
    )
    record = owners.alias("record")
    same = [F.col(f"record.{name}").eqNullSafe(F.col(f"hub.{name}")) for name in ("host", "port", "ssl_port", "epoch")]
    dead = record.join(F.broadcast(marked), on=same[0] & same[1] & same[2] & same[3], how="left_anti")
    what = F.concat(F.lit("its owner "), hub_name(), F.lit(" is not alive"))
    return _findings(dead, FindingKind.DEAD_OWNER, what, hub=hub_name())


def lone_subscriptions(subscriptions: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return a finding for each subscription whose topic does not exist."""
    lone = subscriptions.join(ledgers.select("topic"), on="topic", how="left_anti")
    consumed = F.coalesce(F.col("state.consumed.local"), F.lit(0)).cast("string")
    what = F.concat(F.lit("its topic has no persistence record; its consume pointer is "), consumed)
    return _findings(lone, FindingKind.LONE_SUBSCRIPTION, what, subscriber=F.col("subscriber"))


def broken_ranges(ledgers: DataFrame) -> DataFrame:
    """Return a finding for each point at which the ranges of a topic overlap or leave messages out."""
    # A single range cannot overlap or leave a gap. Nearly all topics have only one.
    several = ledgers.where(F.size("ranges") > 1).select("topic", "ranges")
    defects = several.mapInArrow(_defects, "kind string, topic binary, ledger_id decimal(20,0), what string")
    return _findings(defects, None, F.col("what"), ledger_id=F.col("ledger_id"))


def shared_ledgers(ledgers: DataFrame) -> DataFrame:
    """Return a finding for each topic that names a ledger which another topic names too."""
    named = _named_ledgers(ledgers).select("topic", "ledger_id").distinct()
    shared = named.groupBy("ledger_id").agg(F.count(F.lit(1)).alias("topics")).where(F.col("topics") > 1)
    named_twice = named.join(shared, on="ledger_id", how="inner")
    others = (F.col("topics") - 1).cast("string")
    what = F.concat(F.lit("ledger "), F.col("ledger_id").cast("string"), F.lit(" is named by "), others, F.lit(" more"))
    return _findings(named_twice, SHARED_LEDGER, what, ledger_id=F.col("ledger_id"))


def missing_ledgers(ledgers: DataFrame, existing: DataFrame) -> DataFrame:
    """Return a finding for each ledger on record that may hold messages and is not among the `existing`.

    Ledgers in shared logs are none of the ledgers that exist by themselves. `metadata check` looks for what they lack.

    The findings include ledgers that were deleted after the records were read. Audit again before acting on one.

    Args: existing - column ledger_id, a row for each ledger that exists, or existed in the first of two listings.
    """
    held = _named_ledgers(ledgers).where(~_is_emptied(F.col("range")) & ~is_virtual(F.col("ledger_id")))
    missing = held.join(existing.select(F.col("ledger_id").cast(UINT64)), on="ledger_id", how="left_anti")
    what = F.concat(F.lit("ledger "), F.col("ledger_id").cast("string"), F.lit(" is on record, and does not exist"))
    return _findings(missing, FindingKind.MISSING_LEDGER, what, ledger_id=F.col("ledger_id"))


def orphan_ledgers(ledgers: DataFrame, existing: DataFrame) -> DataFrame:
    """Return a finding for each existing ledger to which no topic refers.

    Args: existing - the ledgers of this deployment that are old enough to be on record; columns ledger_id and topic
        (binary, null if its maker did not record it).
    """
    named = _named_ledgers(ledgers).select("ledger_id")
    orphans = existing.select(F.col("ledger_id").cast(UINT64), "topic").join(named, on="ledger_id", how="left_anti")
    what = F.concat(F.lit("no topic refers to ledger "), F.col("ledger_id").cast("string"))
    return _findings(orphans, FindingKind.ORPHAN_LEDGER, what, ledger_id=F.col("ledger_id"))


def unreadable_records(unreadable: DataFrame) -> DataFrame:
    """Return a finding for each record that cannot be read.

    Args: unreadable - columns topic, subscriber and why, as of `store_tables.read_unreadable`.
    """
    return _findings(unreadable, FindingKind.UNREADABLE_RECORD, F.col("why"), subscriber=F.col("subscriber"))


def unindexed(subscriptions: DataFrame) -> DataFrame:
    """Return a finding for each subscription that the index of subscribers lacks.

    Args: subscriptions - columns topic and subscriber, as of `index_entries.unindexed_subscriptions`.
    """
    what = F.lit("the index of subscribers has no entry for it")
    return _findings(subscriptions, FindingKind.UNINDEXED_SUBSCRIPTION, what, subscriber=F.col("subscriber"))


def hub_name() -> Column:
    """Return the hub of an owner record as people read it: `host:port:sslport epoch N`."""
    port, ssl_port = F.col("port").cast("string"), F.coalesce(F.col("ssl_port"), F.lit(-1)).cast("string")
    address = F.concat_ws(":", F.col("host"), port, ssl_port)
    return F.concat(address, F.lit(" epoch "), F.col("epoch").cast("string"))


def _findings(
    frame: DataFrame,
    kind: str | None,
    what: Column,
    *,
    subscriber: Column | None = None,
    ledger_id: Column | None = None,
    hub: Column | None = None,
) -> DataFrame:
    """Return findings with all columns. If `kind` is None, the frame must have that column."""
    nothing = F.lit(None)
    return frame.select(
        F.col("kind") if kind is None else F.lit(str(kind)).alias("kind"),
        F.col("topic"),
        (nothing if subscriber is None else subscriber).cast("binary").alias("subscriber"),
        (nothing if ledger_id is None else ledger_id).cast(UINT64).alias("ledger_id"),
        (nothing if hub is None else hub).cast("string").alias("hub"),
        what.alias("what"),
    )


def _named_ledgers(ledgers: DataFrame) -> DataFrame:
    return ledgers.select("topic", F.explode("ranges").alias("range")).select(
        "topic", F.col("range.ledger_id").alias("ledger_id"), "range"
    )


def _is_emptied(held: Column) -> Column:
    """Say whether a range holds no messages any more: its start is after its end."""
    return F.coalesce(held["start"] > held["end"]["local"], F.lit(False))


def _defects(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [
            {
                "kind": str(_FAULTS[defect.fault]),
                "topic": row.key.topic,
                "ledger_id": defect.ledger_id,
                "what": defect.text,
            }
            for row in rows_of(Table.LEDGERS, batch)
            if row.key is not None and row.error is None
            for defect in range_defects(row.record)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=_DEFECTS)
