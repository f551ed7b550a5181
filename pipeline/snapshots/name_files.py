"""Files of names, one topic or subscription a line, as frames of the tables. hedwig-admin loads such files too."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.errors import InvalidArgumentError
from hedwig.names import as_subscriber, as_topic, parse_column, show_name
from hedwig.pipeline.frames.spark_types import spark_schema
from hedwig.pipeline.frames.tables import Table

__all__ = ["subscriptions_of", "topics_needed", "topics_of"]

_TOPIC: Final = pa.schema([("topic", pa.binary())])
_PAIR: Final = pa.schema([("topic", pa.binary()), ("subscriber", pa.binary())])
_SHOWN: Final = 100
"""How many bytes of a line that cannot be loaded the error shows."""


def topics_of(spark: SparkSession, path: str) -> DataFrame:
    """Return the topics in the files at `path`, each once: column topic (binary).

    A line is a topic, and ends with LF or CR LF. A byte may be written `\\xNN`, and a backslash is doubled. Anything
    after a tab is ignored. For a line that names no topic, reading the frame fails with InvalidArgumentError.
    """
    return _lines(spark, path).mapInArrow(_topics, "topic binary").distinct()


def subscriptions_of(spark: SparkSession, path: str) -> DataFrame:
    """Return the subscriptions in the files at `path`, each once. They have consumed nothing.

    A line is a topic, a tab, and a subscriber up to the next tab, written as in `topics_of`. The columns are those of
    the table, without version and backend.
    """
    pairs = _lines(spark, path).mapInArrow(_pairs, "topic binary, subscriber binary").distinct()
    schema = spark_schema(Table.SUBSCRIPTIONS)
    nothing = F.lit(None)
    preferences = F.struct(
        F.array().alias("options"),
        nothing.alias("message_bound"),
        nothing.alias("message_filter"),
        nothing.alias("message_window_size"),
    )
    state = F.struct(F.struct(F.lit(0).alias("local"), F.array().alias("remote")).alias("consumed"))
    return pairs.select(
        "topic",
        "subscriber",
        preferences.cast(schema["preferences"].dataType).alias("preferences"),
        state.cast(schema["state"].dataType).alias("state"),
    )


def topics_needed(topics: DataFrame | None, subscriptions: DataFrame | None) -> DataFrame:
    """Return `topics` and those that `subscriptions` need, each once: column topic (binary)."""
    named = [frame.select("topic") for frame in (topics, subscriptions) if frame is not None]
    assert named, "there are topics or subscriptions"
    return named[0].distinct() if len(named) == 1 else named[0].unionByName(named[1]).distinct()


def _lines(spark: SparkSession, path: str) -> DataFrame:
    # Spark keeps text byte for byte, whether or not it is UTF-8. By default it would also end a line at a CR, which may
    # be part of a name.
    return spark.read.text(path, lineSep="\n").select(F.col("value").cast("binary").alias("line"))


def _topics(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names = [_names(line, with_subscriber=False)[0] for line in batch.column("line").to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(names, pa.binary())], schema=_TOPIC)


def _pairs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names = [_names(line, with_subscriber=True) for line in batch.column("line").to_pylist()]
        topics, subscribers = ([pair[index] for pair in names] for index in (0, 1))
        yield pa.RecordBatch.from_arrays(
            [pa.array(topics, pa.binary()), pa.array(subscribers, pa.binary())], schema=_PAIR
        )


def _names(line: bytes, *, with_subscriber: bool) -> tuple[bytes, bytes]:
    columns = line.removesuffix(b"\r").split(b"\t", 2)
    try:
        topic = as_topic(parse_column(columns[0]))
        if not with_subscriber:
            return topic, b""
        if len(columns) == 1:
            raise InvalidArgumentError("there is no second column: a subscription is a topic, a tab, a subscriber")
        return topic, as_subscriber(parse_column(columns[1]))
    except InvalidArgumentError as exc:
        shown = show_name(line[:_SHOWN])
        raise InvalidArgumentError(f"the line {shown!r} cannot be loaded: {exc}; correct it, then load again") from exc
