"""The job `migrate`: all metadata from one store to another, without a snapshot in between."""

import click

from pipeline.command import Job, JobCommand, pass_job
from pipeline.jobs.options import ScanWish, WriteWish, scan_options, write_options

__all__ = ["command"]


@click.command(
    "migrate", cls=JobCommand, example="hedwig-pipeline migrate sqlite:///./hedwig.db sqlite:///./moved.db"
)
@click.argument("source")
@click.argument("target")
@click.option("--with-owners", is_flag=True, help="Owners too: only for hubs that keep their epochs.")
@scan_options
@write_options
@pass_job
def command(job: Job, source: str, target: str, with_owners: bool, scan: ScanWish, write: WriteWish) -> None:
    """Copy all metadata from the store SOURCE to the store TARGET, and prove that both hold the same.

    Stop the hubs before: hedwig-admin metadata migrate is for those that go on. SOURCE is read once, while it is
    copied; then TARGET is read, and what both add up to is compared. It may be run again after it was ended.
    """
    from pipeline.copying import Passing, check_equal, stored_checksums, write_tables
    from pipeline.reaching import check_reachable
    from pipeline.snapshot import SNAPSHOT_TABLES
    from pipeline.store_tables import place_text, read_table
    from pipeline.tables import Table

    for url in (source, target):
        check_reachable(url)
    if source == target:
        raise click.UsageError("SOURCE and TARGET are the same store")
    tables = [table for table in SNAPSHOT_TABLES if with_owners or table is not Table.OWNERS]
    with job.session() as spark:
        passing = Passing()
        frames = {table: passing.watch(table, read_table(spark, source, table, scan.options)) for table in tables}
        written = write_tables(job, spark, frames, target, write)
        with job.progress(spark, "comparing"):
            found = stored_checksums(spark, target, tables, scan.options)
        check_equal(passing.checksums(), found, place_text(source), place_text(target))
    job.write({"from": place_text(source), "to": place_text(target), **written, "verified": True})
