"""Counts and checksums of tables, independent of the order and the partitions of their rows.

Each row gives 64 bits (`columns.fingerprint`). A checksum is their sum and their exclusive or. The sum detects a row
that is there twice, the exclusive or a pair of errors that cancel out. A checksum finds damage and loss, not forgery.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from hedwig.pipeline.frames.columns import fingerprint, value_columns
from hedwig.pipeline.frames.schemas import arrow_schema, key_columns
from hedwig.pipeline.frames.tables import Table

__all__ = ["Checksum", "checksum_columns", "checksum_of", "content_columns"]

_LOW: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Checksum:
    """How many rows there are, and their checksum; `text` is 48 hexadecimal digits."""

    rows: int
    text: str

    @classmethod
    def of(cls, row: Row) -> Self:
        """Return the checksum in a row of the aggregates of `checksum_columns`."""
        low, high, mixed = (int(row[name] or 0) for name in ("low", "high", "mixed"))
        total = (low + (high << 32)) % (1 << 128)
        return cls(int(row["rows"]), f"{total:032x}{mixed % (1 << 64):016x}")

    @staticmethod
    def is_text(text: object) -> bool:
        """Say whether this can be the text of a checksum."""
        return isinstance(text, str) and re.fullmatch("[0-9a-f]{48}", text) is not None


def content_columns(table: Table) -> tuple[str, ...]:
    """Return the columns that are equal in all stores with equal records: all except version and backend."""
    return (*key_columns(table), *value_columns(table))


def checksum_columns(frame: DataFrame, columns: Sequence[str]) -> list[Column]:
    """Return aggregates over `frame`, also for `DataFrame.observe`. `Checksum.of` reads the row that they make."""
    bits = fingerprint(frame, columns)
    return [
        F.count(F.lit(1)).alias("rows"),
        F.sum(bits.bitwiseAND(F.lit(_LOW))).alias("low"),
        F.sum(F.shiftrightunsigned(bits, 32)).alias("high"),
        F.bit_xor(bits).alias("mixed"),
    ]


def checksum_of(table: Table, frame: DataFrame, *, content_only: bool = False) -> Checksum:
    """Read all rows of a table, and return their checksum.

    Args: table - which one; frame - its rows; content_only - leave out version and backend.
    """
    columns = content_columns(table) if content_only else arrow_schema(table).names
    row = frame.agg(*checksum_columns(frame, columns)).first()
    assert row is not None, "an aggregate has a row"
    return Checksum.of(row)
