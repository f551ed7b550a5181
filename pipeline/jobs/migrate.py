"""The job `migrate`: all metadata from one store to another."""

import tempfile
from contextlib import ExitStack

import click

from pipeline.command import Job, JobCommand, pass_job
from pipeline.jobs.options import ScanWish, WriteWish, scan_options, write_options

__all__ = ["command"]


@click.command("migrate", cls=JobCommand, example="hedwig-pipeline migrate sqlite:///./hedwig.db sqlite:///./moved.db")
@click.argument("source")
@click.argument("target")
@click.option(
    "--through",
    metavar="DIR",
    help="Where the snapshot on the way goes, which then stays; on a cluster, where all of it can reach.  [default: a "
    "temporary folder of this machine]",
)
@click.option("--with-owners", is_flag=True, help="Owners too: only for hubs that keep their epochs.")
@scan_options
@write_options
@pass_job
def command(
    job: Job, source: str, target: str, through: str | None, with_owners: bool, scan: ScanWish, write: WriteWish
) -> None:
    """Copy all metadata from the store SOURCE to the store TARGET, and prove that TARGET holds the same.

    Stop the hubs before: hedwig-admin metadata migrate is for those that go on. SOURCE is read once, into a snapshot
    from which TARGET is written and with which it is compared. The job may be run again after it was ended.
    """
    from pipeline.copying import restore
    from pipeline.reaching import check_reachable, check_readable, existing
    from pipeline.snapshot import SNAPSHOT_TABLES, read_snapshot, write_snapshot
    from pipeline.store_tables import read_table
    from pipeline.tables import Table

    if source == target:
        raise click.UsageError("SOURCE and TARGET are the same store")
    check_readable(source)
    check_reachable(target)
    tables = [table for table in SNAPSHOT_TABLES if with_owners or table is not Table.OWNERS]
    with ExitStack() as stack:
        spark = stack.enter_context(job.session())
        if through is None:
            if not str(spark.sparkContext.master).startswith("local"):
                raise click.UsageError("on a cluster name a folder that all of it can reach: --through DIR")
            through = f"{stack.enter_context(tempfile.TemporaryDirectory(prefix='hedwig-migrate-'))}/snapshot"
        with job.progress(spark, "reading"):
            frames = {table: read_table(spark, existing(source), table, scan.options) for table in tables}
            write_snapshot(spark, frames, through, source=source, prefix=scan.prefix)
        written = restore(job, spark, read_snapshot(spark, through), target, tables, write)
    job.write({"from": source, "to": target, **written.figures()})
    written.check()
