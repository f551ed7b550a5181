"""Reading the tables of a store as frames, and writing frames into them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from hedwig.exit_codes import ExitCode
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.folder import Folder
from hedwig.pipeline.frames.policies import Policy
from hedwig.pipeline.frames.schemas import UNREADABLE, all_columns, key_columns
from hedwig.pipeline.frames.spark_types import spark_field
from hedwig.pipeline.frames.tables import OnCorrupt, Table
from hedwig.pipeline.source.apply import ApplyConfig
from hedwig.pipeline.source.datasource import HedwigDataSource, Share
from hedwig.pipeline.source.shares import frame_of_shares, shares_in
from hedwig.pipeline.source.statistics import Statistics
from hedwig.pipeline.source.writing import apply_rows, tasks_to_write

__all__ = [
    "TableToCopy",
    "apply_config",
    "read_table",
    "read_table_to_copy",
    "read_tables_of",
    "read_unreadable",
    "write_table",
]

_DONE: Final = "_SUCCESS"
"""The file that Spark adds to a folder once all of it is written."""


class TableToCopy(NamedTuple):
    """A table of a store as a frame, and about how many rows it has; 0 if not known."""

    frame: DataFrame
    rows: int


def read_table(spark: SparkSession, url: str, table: Table, options: Mapping[str, str]) -> DataFrame:
    """Return a table of the store at `url`. Every action on the frame reads it anew."""
    return spark.read.format("hedwig").options(url=url, table=table.value, **options).load()


def read_table_to_copy(spark: SparkSession, url: str, table: Table, options: Mapping[str, str]) -> TableToCopy:
    """Return `read_table` with the columns on request, for a caller that copies the rows and reports what they lack.

    If `options` say to pass over unreadable records, the frame has a row for each of them. All columns may be null.

    This call plans what tasks read. Otherwise Spark would start processes to ask the data source. If a store lists its
    topics to plan, it lists them only once, however often the frame is read. Its later topics are not in the frame.

    Raises: as `plan`.
    """
    schema = StructType([spark_field(field.with_nullable(True)) for field in all_columns(table)])
    reader = HedwigDataSource({"url": url, "table": table.value, **options}).reader(schema)
    shares = reader.partitions()
    rows = sum(share.keys.rows for share in shares if isinstance(share, Share))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in shares_in(batches):
            yield from reader.read(share)

    return TableToCopy(frame_of_shares(spark, shares).mapInArrow(read, schema), rows)


def read_unreadable(spark: SparkSession, url: str, tables: Iterable[Table], options: Mapping[str, str]) -> DataFrame:
    """Return the records of `tables` in the store at `url` that cannot be read, one row each.

    Columns: table (string), topic, subscriber (binary, null where the table has none), why (string).
    """
    unreadable = spark.createDataFrame([], "table string, topic binary, subscriber binary, why string")
    for table in tables:
        frame, _ = read_table_to_copy(spark, url, table, {**options, "onCorrupt": OnCorrupt.SKIP.value})
        subscriber = F.col("subscriber") if "subscriber" in key_columns(table) else F.lit(None).cast("binary")
        broken = frame.where(F.col(UNREADABLE.name).isNotNull())
        unreadable = unreadable.unionByName(
            broken.select(
                F.lit(table.value).alias("table"),
                "topic",
                subscriber.alias("subscriber"),
                F.col(UNREADABLE.name).alias("why"),
            )
        )
    return unreadable


def write_table(frame: DataFrame, config: ApplyConfig, rows: int | None) -> Statistics:
    """Write a frame into a table of a store, in one action, and return what became of its rows.

    Args: rows - how many rows the frame has; None if not known, then Spark chooses the number of tasks.
    """
    processors = frame.sparkSession.sparkContext.defaultParallelism
    partitions = None if rows is None else tasks_to_write(rows, processors)
    return Statistics.of_rows(apply_rows(frame, config, partitions=partitions).collect())


def apply_config(url: str, table: Table, options: Mapping[str, Any]) -> ApplyConfig:
    """Return how to write a table of the store at `url`. `options` are fields of `ApplyConfig`.

    Raises: ConfigurationError, InvalidArgumentError - the options exclude each other, or one is out of range.
    """
    chosen = dict(options)
    policy = Policy(chosen.pop("policy", Policy.CREATE))
    if table is Table.TOPICS:
        policy = Policy.CREATE  # Such a row says only that a topic exists, so it can only be created.
    return ApplyConfig(url=url, table=table, policy=policy, **chosen)


def read_tables_of(spark: SparkSession, directory: str) -> dict[Table, DataFrame]:
    """Return the tables in the Parquet folders of `directory` that have a table's name, in the order of writing.

    Raises: JobError - there is none, or one is unfinished.
    """
    # Ledgers before topics: a topic that exists already is the same for a row of topics, and a conflict for ledgers.
    order = (Table.LEDGERS, Table.TOPICS, Table.SUBSCRIPTIONS, Table.OWNERS)
    folder = Folder(spark, directory)
    if folder.is_unfinished:
        raise JobError(
            f"{directory} is a snapshot that was not finished: the job that wrote it was killed, or still runs"
        )
    paths = {table: f"{directory}/{table}" for table in order if (folder / table).exists()}
    for table, path in paths.items():
        if not (folder / table / _DONE).exists():
            raise JobError(
                f"{path} has no {_DONE}, which Spark leaves when all is written: the job that wrote it did not "
                f"finish. If another program wrote all of it, make an empty file {path}/{_DONE}"
            )
    if not paths:
        raise JobError(
            f"{directory} has no folder that is named {', '.join(order)}: name what generate, snapshot or a job of "
            "yours has made",
            ExitCode.NOT_FOUND,
        )
    return {table: spark.read.parquet(path) for table, path in paths.items()}
