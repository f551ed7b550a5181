"""The columns of the tables as Spark's types."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from hedwig.errors import InvalidArgumentError
from hedwig.pipeline.frames.schemas import UNREADABLE, all_columns, arrow_schema, key_columns, optional_columns
from hedwig.pipeline.frames.tables import Table

__all__ = ["asked_schema", "check_frame", "spark_field", "spark_schema", "spark_type"]

_SIMPLE = {
    pa.binary(): BinaryType(),
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.bool_(): BooleanType(),
}


def spark_type(kind: pa.DataType) -> DataType:
    """Return Spark's type for one of Arrow's that the tables use."""
    if isinstance(kind, pa.StructType):
        return StructType([spark_field(kind.field(index)) for index in range(kind.num_fields)])
    if isinstance(kind, pa.ListType):
        return ArrayType(spark_type(kind.value_type), kind.value_field.nullable)
    if isinstance(kind, pa.Decimal128Type):
        return DecimalType(kind.precision, kind.scale)
    return _SIMPLE[kind]


def spark_field(field: pa.Field) -> StructField:
    """Return a column of Spark for one of Arrow."""
    return StructField(field.name, spark_type(field.type), field.nullable)


def spark_schema(table: Table) -> StructType:
    """Return the columns of `table`."""
    return StructType([spark_field(field) for field in arrow_schema(table)])


def asked_schema(table: Table, schema: StructType) -> pa.Schema:
    """Return the columns that a query requests: all or some of the table's, and those on request.

    Each is as nullable as the query declares it, since Spark refuses a batch whose schema differs in that.

    Raises: InvalidArgumentError - there is no such column, or it is of another type; or the query declares a column
        that may be null as never null.
    """
    known = {field.name: field for field in all_columns(table)}
    _check_columns(table, schema, [spark_field(field) for field in known.values()])
    needed = (*key_columns(table), "backend") if UNREADABLE.name in schema.names else schema.names
    for field in schema:
        if field.name not in needed and not field.nullable:
            raise InvalidArgumentError(
                f"the column {field.name!r} is null where {UNREADABLE.name!r} says why: leave out NOT NULL"
            )
        if _promises_more(field, spark_field(known[field.name])):
            raise InvalidArgumentError(
                f"the column {field.name!r} of the table {table}, or something in it, may be null: leave out NOT NULL"
            )
    return pa.schema([known[field.name].with_nullable(field.nullable) for field in schema])


def check_frame(table: Table, schema: StructType, *, with_versions: bool) -> None:
    """Check the columns of a frame that is to be written to `table`; the order does not matter.

    Args: with_versions - rows must say where they come from.
    Raises: InvalidArgumentError - a column is missing, not the table's, or of another type; the text says what to do.
    """
    _check_columns(table, schema, list(spark_schema(table)))
    needed = [field.name for field in arrow_schema(table) if with_versions or field.name not in optional_columns(table)]
    missing = [name for name in needed if name not in schema.names]
    if missing:
        raise InvalidArgumentError(
            f"the frame has no column {_listed(missing)}; rows of {table} are written from {_listed(needed)}"
        )


def _check_columns(table: Table, schema: StructType, columns: Sequence[StructField]) -> None:
    known = {field.name: field.dataType for field in columns}
    for field in schema:
        if field.name not in known:
            raise InvalidArgumentError(
                f"the table {table} has no column {field.name!r}: drop it; there are {_listed(list(known))}"
            )
        wanted, given = known[field.name], field.dataType
        if _plain(given) != _plain(wanted):
            raise InvalidArgumentError(
                f"the column {field.name!r} of the table {table} is {wanted.simpleString()}, not "
                f"{given.simpleString()}: cast it"
            )


def _promises_more(asked: StructField, ours: StructField) -> bool:
    """Say whether a query declares a column, or something in it, as never null although it may be null."""
    return (ours.nullable and not asked.nullable) or _holds_fewer(asked.dataType, ours.dataType)


def _holds_fewer(asked: DataType, ours: DataType) -> bool:
    match asked, ours:
        case StructType(), StructType():
            return any(_promises_more(one, other) for one, other in zip(asked, ours, strict=True))
        case ArrayType(), ArrayType():
            return (ours.containsNull and not asked.containsNull) or _holds_fewer(asked.elementType, ours.elementType)
        case _:
            return False


def _plain(kind: DataType) -> DataType:
    """Return the type with everything nullable, to compare types only: the rows themselves show nulls."""
    match kind:
        case StructType():
            return StructType([StructField(field.name, _plain(field.dataType)) for field in kind])
        case ArrayType():
            return ArrayType(_plain(kind.elementType))
        case _:
            return kind


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
