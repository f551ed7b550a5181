"""Small tables for tests: rows as a person writes them, with the columns of the table."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hedwig.pipeline.frames.spark_types import spark_schema
from hedwig.pipeline.frames.tables import Table

__all__ = ["ledgers", "owners", "seq_id", "subscriptions", "table_of"]


def table_of(spark: SparkSession, table: Table, rows: Sequence[Sequence[Any]], backend: str = "sqlite") -> DataFrame:
    """Return rows of `table`, each without its version and backend, which are made up."""
    whole = [(*row, bytes([1, number % 256]), backend) for number, row in enumerate(rows)]
    return spark.createDataFrame(whole, spark_schema(table))


def seq_id(local: int) -> dict[str, Any]:
    """Return the position of a message."""
    return {"local": Decimal(local), "remote": []}


def ledgers(spark: SparkSession, topics: dict[bytes, Sequence[tuple[int, int | None, int | None]]]) -> DataFrame:
    """Return topics with their ranges: (ledger id, start, end)."""

    def held(ledger_id: int, start: int | None, end: int | None) -> dict[str, Any]:
        first = None if start is None else Decimal(start)
        return {"ledger_id": Decimal(ledger_id), "start": first, "end": None if end is None else seq_id(end)}

    rows = [(topic, [held(*each) for each in ranges]) for topic, ranges in topics.items()]
    return table_of(spark, Table.LEDGERS, rows)


def subscriptions(spark: SparkSession, consumed: dict[tuple[bytes, bytes], int]) -> DataFrame:
    """Return subscriptions without preferences, by topic and subscriber, with their consume pointers."""
    rows = [(topic, name, None, {"consumed": seq_id(local)}) for (topic, name), local in consumed.items()]
    return table_of(spark, Table.SUBSCRIPTIONS, rows)


def owners(spark: SparkSession, hubs: dict[bytes, tuple[str, int]]) -> DataFrame:
    """Return owner records: topic to host and epoch, port 4080 without TLS."""
    rows = [(topic, host, 4080, None, Decimal(epoch), None) for topic, (host, epoch) in hubs.items()]
    return table_of(spark, Table.OWNERS, rows)
