"""The tables of a store as frames, and frames into the tables of a store."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hedwig.exit_codes import ExitCode
from pipeline.apply import ApplyConfig
from pipeline.errors import JobError
from pipeline.folder import Folder
from pipeline.policies import Policy
from pipeline.statistics import Statistics
from pipeline.tables import Table
from pipeline.writing import apply_rows

__all__ = ["read_table", "read_tables_of", "write_table"]


def read_table(spark: SparkSession, url: str, table: Table, options: Mapping[str, str]) -> DataFrame:
    """Return a table of the store at `url`. It is read anew by every action on the frame."""
    return spark.read.format("hedwig").options(url=url, table=table.value, **options).load()


def write_table(frame: DataFrame, url: str, table: Table, options: Mapping[str, Any]) -> Statistics:
    """Write a frame into a table of the store at `url`, in one action; return what became of its rows.

    Args: options - fields of `ApplyConfig`.
    """
    chosen = dict(options)
    policy = Policy(chosen.pop("policy", Policy.CREATE))
    if table is Table.TOPICS:
        policy = Policy.CREATE  # They say that a topic exists, and there is no other way to have that so.
    config = ApplyConfig(url=url, table=table, policy=policy, **chosen)
    return Statistics.of_rows(apply_rows(frame, config).collect())


def read_tables_of(spark: SparkSession, directory: str) -> dict[Table, DataFrame]:
    """Return the tables in the folders of `directory`, Parquet each, that are named like them; in the order of writing.

    Raises: JobError - there is none.
    """
    order = (Table.TOPICS, Table.LEDGERS, Table.SUBSCRIPTIONS, Table.OWNERS)
    places = {table: f"{directory}/{table}" for table in order if Folder(spark, f"{directory}/{table}").exists()}
    if not places:
        raise JobError(
            f"{directory} has no folder that is named {', '.join(order)}: name what generate, snapshot or a job of "
            "yours has made",
            ExitCode.NOT_FOUND,
        )
    return {table: spark.read.parquet(place) for table, place in places.items()}
