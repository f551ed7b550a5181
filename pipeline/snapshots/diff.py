"""What differs between two frames of the same table: the rows that were added, removed or changed."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hedwig.pipeline.frames.columns import value_columns
from hedwig.pipeline.frames.schemas import key_columns
from hedwig.pipeline.frames.tables import Table

__all__ = ["diff"]


def diff(table: Table, before: DataFrame, after: DataFrame) -> DataFrame:
    """Return a row for each record that is not the same on both sides; versions and backends do not count.

    Columns: `change` (added, removed or changed); the key of the table (binary); `what` (array<string>: the columns in
    which a changed record differs, and all of them for an added or removed one); `before` and `after`, each a struct of
    the record's columns, null on the side that does not have the record. Each side must have a key only once.
    """
    keys, values = key_columns(table), value_columns(table)
    one = before.select(*keys, F.struct(*values).alias("before"))
    other = after.select(*keys, F.struct(*values).alias("after"))
    joined = one.join(other, on=list(keys), how="full_outer")
    differing = F.array_compact(F.array(*[F.when(~_same(name), F.lit(name)) for name in values]))
    change = (
        F.when(F.col("before").isNull(), F.lit("added"))
        .when(F.col("after").isNull(), F.lit("removed"))
        .otherwise(F.lit("changed"))
    )
    is_other = ~F.col("before").eqNullSafe(F.col("after"))
    return joined.where(is_other).select(
        change.alias("change"), *keys, differing.alias("what"), F.col("before"), F.col("after")
    )


def _same(name: str) -> Column:
    there = F.col("before").isNotNull() & F.col("after").isNotNull()
    return there & F.col(f"before.{name}").eqNullSafe(F.col(f"after.{name}"))
