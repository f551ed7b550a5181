"""The job `load`: write topics and subscriptions from files into a store."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hedwig.pipeline.command import Job, JobCommand, pass_job
from hedwig.pipeline.jobs.options import folder_name, timeout_option, write_options
from hedwig.pipeline.source.job_options import WriteOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from hedwig.metadata.logs.record import LogRecord
    from hedwig.pipeline.frames.tables import Table

__all__ = ["command"]


@click.command(
    "load",
    cls=JobCommand,
    example="hedwig-pipeline load sqlite:///./hedwig.db --topics topics.tsv.gz --subscriptions subscriptions.tsv.gz",
)
@click.argument("url")
@click.option(
    "--from",
    "directory",
    metavar="DIR",
    callback=folder_name,
    help="Folders of Parquet files named by their table, as generate makes.",
)
@click.option("--topics", metavar="FILE", help="Lines that begin with a topic; text after a tab is ignored.")
@click.option("--subscriptions", metavar="FILE", help="Lines of a topic, a tab and a subscriber.")
@click.option("--with-owners", is_flag=True, help="Owners too, which DIR has to have.")
@write_options
@timeout_option
@pass_job
def command(
    job: Job,
    url: str,
    directory: str | None,
    topics: str | None,
    subscriptions: str | None,
    with_owners: bool,
    write: WriteOptions,
    timeout_s: int,
) -> None:
    """Load topics and subscriptions into the store at URL, which must be formatted.

    FILE may be compressed, a folder, or a pattern; names stand in it as they are, byte for byte. Topics that
    subscriptions need and that do not exist are made. The same load may be run again.
    """
    from hedwig.pipeline.frames.tables import Table
    from hedwig.pipeline.snapshots.copying import write_tables
    from hedwig.pipeline.snapshots.name_files import subscriptions_of, topics_needed, topics_of
    from hedwig.pipeline.snapshots.preflight import check_reachable
    from hedwig.pipeline.source.shared_stores import session_url

    if directory is not None and (topics or subscriptions):
        raise click.UsageError("give either --from, or --topics and --subscriptions")
    if directory is None and not (topics or subscriptions):
        raise click.UsageError("give --from DIR, or --topics FILE, --subscriptions FILE or both")
    if with_owners and directory is None:
        raise click.UsageError("files of names have no owners: leave out --with-owners, or give --from DIR")
    check_reachable(url, timeout_s)
    write = write.within(timeout_s)
    with job.session() as spark:
        target = session_url(spark, url)
        rows = logs = None
        if directory is not None:
            frames, rows, logs = _given(job, spark, directory, _Options(target, write.policy, with_owners))
        else:
            frames = {}
            named = topics_of(spark, topics) if topics else None
            pairs = subscriptions_of(spark, subscriptions) if subscriptions else None
            frames[Table.TOPICS] = topics_needed(named, pairs)
            if pairs is not None:
                frames[Table.SUBSCRIPTIONS] = pairs
        written = write_tables(job, spark, frames, url, write, rows, logs)
    job.write({"store": url, **written.figures()})
    written.check()


@dataclass(frozen=True, slots=True)
class _Options:
    """Where the rows of a folder are written, by which policy, and whether owners are among them."""

    target: str
    policy: str
    with_owners: bool


def _given(
    job: Job, spark: "SparkSession", directory: str, options: _Options
) -> "tuple[dict[Table, DataFrame], Mapping[Table, int] | None, Sequence[LogRecord] | None]":
    """Return the tables in a folder, and if it has a manifest the row count of each, and the shared logs."""
    from hedwig.pipeline.errors import JobError
    from hedwig.pipeline.frames.tables import Table
    from hedwig.pipeline.snapshots.provenance import check_origin
    from hedwig.pipeline.snapshots.snapshot import is_snapshot, read_snapshot
    from hedwig.pipeline.source.store_tables import read_tables_of

    rows = logs = None
    if is_snapshot(spark, directory):
        snapshot = read_snapshot(spark, directory)
        beside = [table for table in Table if table not in snapshot.frames and (snapshot.folder / table).exists()]
        if beside:
            raise JobError(
                f"{directory} has {', '.join(beside)} beside the snapshot that its manifest describes: load them from "
                "a folder of their own"
            )
        check_origin(options.policy, snapshot.manifest.source, options.target)
        job.warn(snapshot.manifest.warning)
        frames = {
            table: frame for table, frame in snapshot.frames.items() if options.with_owners or table is not Table.OWNERS
        }
        with job.progress(spark, "checking the snapshot"):
            snapshot.verify(list(frames))
        rows = {table: snapshot.manifest.tables[table].rows for table in frames}
        logs = snapshot.logs
    else:
        frames = read_tables_of(spark, directory)
        if not options.with_owners:
            frames.pop(Table.OWNERS, None)
    if options.with_owners and Table.OWNERS not in frames:
        raise click.UsageError(f"{directory} has no owners: leave out --with-owners")
    return frames, rows, logs
