"""Writing a DataFrame with a report of what became of its rows, which a data source's writer cannot return."""

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

_PLACE: Final = "_place"
"""A column, since an expression would be reckoned anew in each comparison of a sort."""
_ROWS_PER_TASK: Final = 250_000
"""About half a minute of work: so often something is heard of it, and no more is done again when a task is lost."""
_ROWS_PER_TASK_MIN: Final = 5_000
"""Less than a second of work, for which no other task is worth its start."""


def check_writable(frame: DataFrame, config: ApplyConfig) -> ApplyConfig:
    """Find out before any task begins whether `frame` can be written; return `config` with the URL that tasks use.

    Raises: InvalidArgumentError - the frame has not the columns of the table; ConfigurationError - the policy is
        OVERWRITE, and tasks of the session may run twice at once, or the store is a file that tasks on other
        machines do not find; as `prepare`.
    """
    config = replace(config, url=session_url(frame.sparkSession, config.url))
    check_frame(config.table, frame.schema, with_versions=config.policy is Policy.REPLACE)
    check_policy(config.policy, speculating=is_speculating(frame.sparkSession))
    prepare(config)
    return config


def tasks_to_write(rows: int, processors: int) -> int:
    """Return how many tasks are to write so many rows: each processor has something to do, where that is worth it.

    Left to itself Spark goes by bytes, and has 1.4 of 10 million subscriptions written by one task.
    """
    wanted = max(processors, math.ceil(rows / _ROWS_PER_TASK))
    return max(1, min(wanted, math.ceil(rows / _ROWS_PER_TASK_MIN)))


def apply_rows(frame: DataFrame, config: ApplyConfig, *, partitions: int | None = None) -> DataFrame:
    """Return a frame that writes the rows of `frame` when it is collected, which must happen once.

    A second action would write everything again; nothing is applied twice, but everything is asked for twice. The one
    action runs what `frame` stands for twice: Spark takes a sample of its rows first, by which it shares them out. So a
    frame that reads a live store reads it twice, and the rows that come the second time are written: where that matters
    write it to Parquet first, or cache it, as the jobs do.

    Args: partitions - how many tasks write; as many as Spark thinks right if it is not given.
    Returns: a row for each task with STATISTICS_SCHEMA; `Statistics.of_rows` adds them up.
    Raises: as `check_writable`.
    """
    config = check_writable(frame, config)
    # What a row is compared with travels only where it is.
    unused = () if config.policy is Policy.REPLACE else provenance_columns()
    placed = frame.drop(*unused).withColumn(_PLACE, _place_in(config))
    # So a task writes to one end of the store, and finds it in memory.
    order = (_PLACE, *key_columns(config.table))
    shared = placed.repartitionByRange(partitions, *order) if partitions else placed.repartitionByRange(*order)
    schema = StructType([spark_field(field) for field in STATISTICS_SCHEMA])
    return shared.sortWithinPartitions(*order).drop(_PLACE).mapInArrow(partial(_apply, config), schema)


def _place_in(config: ApplyConfig) -> Column:
    """Return an expression that, with the key behind it, sorts rows about as the store keeps them."""
    if MetadataUrl.parse(config.url).scheme.startswith("hbase"):
        # As metadata.hbase.keys: the hash of the topic stands in front.
        return F.substring(F.sha2(F.col("topic"), 256), 1, 4)
    return F.lit("")


def _apply(config: ApplyConfig, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield apply(batches, config).batch()
