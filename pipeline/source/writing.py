"""Writing a DataFrame, with a report of what became of its rows. The writer of a data source cannot return that."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from hedwig.metadata import MetadataUrl
from hedwig.pipeline.frames.policies import Policy
from hedwig.pipeline.frames.schemas import key_columns, provenance_columns
from hedwig.pipeline.frames.spark_types import check_frame, spark_field
from hedwig.pipeline.source.apply import ApplyConfig, apply, prepare
from hedwig.pipeline.source.shared_stores import session_url
from hedwig.pipeline.source.speculation import check_policy, is_speculating
from hedwig.pipeline.source.statistics import STATISTICS_SCHEMA

__all__ = ["apply_rows", "check_writable", "tasks_to_write"]

_SORT_KEY: Final = "_sort_key"
"""A column, since a sort would evaluate an expression anew in each comparison."""
_ROWS_PER_TASK: Final = 250_000
"""About half a minute of work. Progress advances with each task, and a lost task repeats no more than that."""
_ROWS_PER_TASK_MIN: Final = 5_000
"""Less than a second of work, which is not worth the start of another task."""


def check_writable(frame: DataFrame, config: ApplyConfig) -> ApplyConfig:
    """Check before any task begins that `frame` can be written; return `config` with the URL that tasks use.

    Raises: InvalidArgumentError - the columns of the frame are not those of the table; ConfigurationError - the policy
        is OVERWRITE, and tasks may run twice at once, or tasks on other machines do not find the file of the store; as
        `prepare`.
    """
    config = replace(config, url=session_url(frame.sparkSession, config.url))
    check_frame(config.table, frame.schema, with_versions=config.policy is Policy.REPLACE)
    check_policy(config.policy, speculating=is_speculating(frame.sparkSession))
    prepare(config)
    return config


def tasks_to_write(rows: int, processors: int) -> int:
    """Return how many tasks to write `rows` rows with: enough for every processor, if the rows are worth the start.

    By default Spark goes by bytes, and has one task write 1.4 of 10 million subscriptions.
    """
    wanted = max(processors, math.ceil(rows / _ROWS_PER_TASK))
    return max(1, min(wanted, math.ceil(rows / _ROWS_PER_TASK_MIN)))


def apply_rows(frame: DataFrame, config: ApplyConfig, *, partitions: int | None = None) -> DataFrame:
    """Return a frame that writes the rows of `frame` when it is collected, which must happen once.

    A second action would send every write again; the store would apply nothing twice. The one action runs the query of
    `frame` twice: Spark first takes a sample of the rows, to share them out. So a frame that reads a live store reads
    it twice, and the rows of the second read are written. Where that matters, write the frame to Parquet first, or
    cache it, as the jobs do.

    The new frame has one row for each task, with STATISTICS_SCHEMA; `Statistics.of_rows` sums them.

    Args: partitions - how many tasks write; by default Spark chooses.
    Raises: as `check_writable`.
    """
    config = check_writable(frame, config)
    # Version and backend travel to the tasks only where the policy compares them.
    unused = () if config.policy is Policy.REPLACE else provenance_columns()
    keyed = frame.drop(*unused).withColumn(_SORT_KEY, _sort_key(config))
    # With this order a task writes to one part of the store, which the store has in memory.
    order = (_SORT_KEY, *key_columns(config.table))
    shared = keyed.repartitionByRange(partitions, *order) if partitions else keyed.repartitionByRange(*order)
    schema = StructType([spark_field(field) for field in STATISTICS_SCHEMA])
    return shared.sortWithinPartitions(*order).drop(_SORT_KEY).mapInArrow(partial(_apply, config), schema)


def _sort_key(config: ApplyConfig) -> Column:
    """Return an expression that, followed by the key, sorts rows about as the store keeps them."""
    if MetadataUrl.parse(config.url).scheme.startswith("hbase"):
        # As in metadata.hbase.keys, the hash of the topic comes first.
        return F.substring(F.sha2(F.col("topic"), 256), 1, 4)
    return F.lit("")


def _apply(config: ApplyConfig, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield apply(batches, config).batch()
