"""What the columns of the tables hold, for whoever compares rows."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from hedwig.pipeline.frames.schemas import arrow_schema, key_columns, provenance_columns
from hedwig.pipeline.frames.tables import Table

__all__ = ["UINT64", "fingerprint", "value_columns"]

UINT64: Final = "decimal(20,0)"
"""Any number of 64 bits without a sign."""


def value_columns(table: Table) -> tuple[str, ...]:
    """Return the names of the columns that say what a record holds: neither its key nor where the row comes from."""
    known = (*key_columns(table), *provenance_columns())
    return tuple(name for name in arrow_schema(table).names if name not in known)


def fingerprint(frame: DataFrame, columns: Sequence[str]) -> Column:
    """Return 64 bits (bigint) that tell rows of different content apart: null from empty, and lists by their lengths.

    xxhash64 passes over nulls, so that a value beside a null looks like a null beside the value. Wherever a null may
    be, whether one is there goes into the hash too; and so does the length of each list.
    """
    schema = frame.select(*columns).schema
    parts = [part for field in schema.fields for part in _parts(F.col(f"`{field.name}`"), field.dataType)]
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
