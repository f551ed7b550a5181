"""The job `diff`: what differs between two snapshots, two stores, or one of each."""

from typing import TYPE_CHECKING

import click

from hedwig.exit_codes import ExitCode
from pipeline.command import Job, JobCommand, pass_job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.tables import Table

__all__ = ["command"]


@click.command("diff", cls=JobCommand, example="hedwig-pipeline diff ./snapshot sqlite:///./hedwig.db")
@click.argument("before")
@click.argument("after")
@click.option("--with-owners", is_flag=True, help="Compare owners too.")
@click.option(
    "--into", "directory", metavar="DIR", help="Write all differences there as Parquet, a folder for each table."
)
@click.option("--show", type=click.IntRange(0), default=10, show_default=True, help="How many differences to tell.")
@pass_job
@click.pass_context
def command(
    ctx: click.Context, job: Job, before: str, after: str, with_owners: bool, directory: str | None, show: int
) -> None:
    """Compare BEFORE with AFTER, each the folder of a snapshot or the URL of a store: all but versions.

    Ends with 0 if both hold the same, and with 1 if not. Each side is read once; a store that changes meanwhile is no
    one moment.
    """
    from pipeline.differences import Differences
    from pipeline.reaching import check_readable, is_store
    from pipeline.tables import Table

    for place in (before, after):
        if is_store(place):
            check_readable(place)
    with job.session() as spark:
        one, other = _frames(spark, before), _frames(spark, after)
        both = [table for table in one if table in other and (with_owners or table is not Table.OWNERS)]
        found = Differences(spark, directory, show)
        with job.progress(spark, "comparing"), found:
            for table in both:
                found.compare(table, one[table], other[table])
    job.write({"before": before, "after": after, **found.result()})
    if found.count:
        ctx.exit(ExitCode.FAILED)


def _frames(spark: "SparkSession", place: str) -> "Mapping[Table, DataFrame]":
    from pipeline.reaching import existing, is_store
    from pipeline.snapshot import SNAPSHOT_TABLES, read_snapshot
    from pipeline.store_tables import read_table

    if is_store(place):
        return {table: read_table(spark, existing(place), table, {}) for table in SNAPSHOT_TABLES}
    snapshot = read_snapshot(spark, place)
    snapshot.verify()
    return snapshot.frames
