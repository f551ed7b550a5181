"""What the columns of the tables hold, for code that compares rows."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.pipeline.frames.schemas import ADDED_COLUMNS, arrow_schema, key_columns, provenance_columns
from hedwig.pipeline.frames.tables import Table

__all__ = ["UINT64", "fingerprint", "is_virtual", "log_of", "value_columns"]

UINT64: Final = "decimal(20,0)"
"""Any number of 64 bits without a sign."""


_FIRST_VIRTUAL: Final = virtual_id(0, 1) - 1
_BEHIND_VIRTUAL: Final = 2 * _FIRST_VIRTUAL
_SLOT_BITS: Final = 32


def is_virtual(ledger_id: Column) -> Column:
    """Say whether a ledger is one in a shared log."""
    return (ledger_id >= F.lit(_FIRST_VIRTUAL)) & (ledger_id < F.lit(Decimal(_BEHIND_VIRTUAL)))


def log_of(ledger_id: Column) -> Column:
    """Return the number (bigint) of the log of a virtual ledger; null for any other ledger."""
    within = F.when(is_virtual(ledger_id), ledger_id - F.lit(_FIRST_VIRTUAL))
    return F.shiftright(within.cast("bigint"), _SLOT_BITS)


def value_columns(table: Table) -> tuple[str, ...]:
    """Return the names of the columns that hold a record: all except its key, its version and its backend."""
    known = (*key_columns(table), *provenance_columns())
    return tuple(name for name in arrow_schema(table).names if name not in known)


def fingerprint(frame: DataFrame, columns: Sequence[str]) -> Column:
    """Return 64 bits (bigint) that tell rows of different content apart, also null from empty.

    xxhash64 passes over nulls, so a value before a null looks like a null before that value. So the hash also includes
    whether each value is null, and the length of each list. It does not for columns that earlier releases did not have:
    null there is as if there were no such column, so that their checksums hold.
    """
    parts: list[Column] = []
    for field in frame.select(*columns).schema.fields:
        value = F.col(f"`{field.name}`")
        parts += [value] if field.name in ADDED_COLUMNS else _parts(value, field.dataType)
    return F.xxhash64(*parts)


def _parts(value: Column, kind: DataType) -> list[Column]:
    match kind:
        case StructType():
            inner = [part for field in kind.fields for part in _parts(value.getField(field.name), field.dataType)]
            return [value.isNull(), *inner]
        case ArrayType(elementType=element):
            return [F.size(value), F.transform(value, lambda item: F.xxhash64(*_parts(item, element)))]
        case _:
            return [value.isNull(), value]
