"""The job `snapshot`: write the metadata of a store as Parquet."""

import click

from hedwig.pipeline.command import Job, JobCommand, pass_job
from hedwig.pipeline.jobs.options import folder_name, scan_options, timeout_option
from hedwig.pipeline.source.job_options import ScanOptions

__all__ = ["command"]


@click.command("snapshot", cls=JobCommand, example="hedwig-pipeline snapshot sqlite:///./hedwig.db ./snapshot")
@click.argument("url")
@click.argument("directory", callback=folder_name)
@click.option("--without-owners", is_flag=True, help="Leave out who owns which topic; restore does not need it.")
@scan_options
@timeout_option
@pass_job
def command(job: Job, url: str, directory: str, without_owners: bool, scan: ScanOptions, timeout_s: int) -> None:
    """Write what the store at URL holds into DIRECTORY, a folder of Parquet files for each table.

    Each table is read once, part by part: a record is there as it was at some moment between start and end. Stop the
    hubs where it must be one moment. A folder without manifest.json is no whole snapshot.
    """
    from hedwig.pipeline.frames.tables import Table
    from hedwig.pipeline.snapshots.preflight import check_readable
    from hedwig.pipeline.snapshots.snapshot import SNAPSHOT_TABLES
    from hedwig.pipeline.snapshots.store_snapshot import take_snapshot
    from hedwig.pipeline.source.shared_stores import session_url

    check_readable(url, timeout_s)
    tables = [table for table in SNAPSHOT_TABLES if not (without_owners and table is Table.OWNERS)]
    with job.session() as spark:
        source = session_url(spark, url)
        manifest = take_snapshot(job, spark, source, tables, directory, scan.within(timeout_s), "rows")
    job.warn(manifest.warning)
    job.write({"snapshot": directory, "source": url, **manifest.figures(job.seconds)})
