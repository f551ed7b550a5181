"""What the columns of the tables hold, for code that compares rows."""

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
    """Return the names of the columns that hold a record: all except its key, its version and its backend."""
    known = (*key_columns(table), *provenance_columns())
    return tuple(name for name in arrow_schema(table).names if name not in known)


def fingerprint(frame: DataFrame, columns: Sequence[str]) -> Column:
    """Return 64 bits (bigint) that tell rows of different content apart, also null from empty.

    xxhash64 passes over nulls, so a value before a null looks like a null before that value. So the hash also includes
    whether each value is null, and the length of each list.
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
