"""Counts and checksums of tables, whatever the order and the partitions of their rows.

Each row gives 64 bits (`columns.fingerprint`); a checksum is their sum and their exclusive or. The sum tells a row that
is there twice, the other one a pair of errors that cancel out. It is to find damage and loss, not forgery.
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
    """How many rows there are, and what they add up to; `text` is 48 hexadecimal digits."""

    rows: int
    text: str

    @classmethod
    def of(cls, row: Row) -> Self:
        """Read the row that `checksum_columns` gave."""
        low, high, mixed = (int(row[name] or 0) for name in ("low", "high", "mixed"))
        total = (low + (high << 32)) % (1 << 128)
        return cls(int(row["rows"]), f"{total:032x}{mixed % (1 << 64):016x}")

    @staticmethod
    def is_text(text: object) -> bool:
        """Say whether this can be the text of a checksum."""
        return isinstance(text, str) and re.fullmatch("[0-9a-f]{48}", text) is not None


def content_columns(table: Table) -> tuple[str, ...]:
    """Return the columns that are the same in every store that holds the same records: all but where they come from."""
    return (*key_columns(table), *value_columns(table))


def checksum_columns(frame: DataFrame, columns: Sequence[str]) -> list[Column]:
    """Return aggregates over `frame`, or to be observed while it passes: a row from which `Checksum.of` reads."""
    bits = fingerprint(frame, columns)
    return [
        F.count(F.lit(1)).alias("rows"),
        F.sum(bits.bitwiseAND(F.lit(_LOW))).alias("low"),
        F.sum(F.shiftrightunsigned(bits, 32)).alias("high"),
        F.bit_xor(bits).alias("mixed"),
    ]


def checksum_of(table: Table, frame: DataFrame, *, content_only: bool = False) -> Checksum:
    """Read all rows of a table, and return their checksum; `content_only`: but for where they come from."""
    columns = content_columns(table) if content_only else arrow_schema(table).names
    found = frame.agg(*checksum_columns(frame, columns)).first()
    assert found is not None, "an aggregate has a row"
    return Checksum.of(found)
