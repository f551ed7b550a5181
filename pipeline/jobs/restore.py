"""The job `restore`: write a snapshot back into a store."""

import click

from hedwig.pipeline.command import Job, JobCommand, pass_job
from hedwig.pipeline.jobs.options import folder_name, timeout_option, write_options
from hedwig.pipeline.source.job_options import WriteOptions

__all__ = ["command"]


@click.command("restore", cls=JobCommand, example="hedwig-pipeline restore ./snapshot sqlite:///./restored.db")
@click.argument("directory", callback=folder_name)
@click.argument("url")
@click.option("--with-owners", is_flag=True, help="Owners too: only for hubs that keep their epochs.")
@click.option("--no-verify", is_flag=True, help="Do not read the store afterwards and compare it with the snapshot.")
@write_options
@timeout_option
@pass_job
def command(
    job: Job, directory: str, url: str, with_owners: bool, no_verify: bool, write: WriteOptions, timeout_s: int
) -> None:
    """Write the snapshot in DIRECTORY into the store at URL, which must be formatted.

    The job first checks the snapshot against its manifest, so a damaged one changes nothing. The same restore may be
    run again: a record that is there already counts as the same.
    """
    from hedwig.pipeline.frames.tables import Table
    from hedwig.pipeline.snapshots.copying import restore
    from hedwig.pipeline.snapshots.preflight import check_reachable
    from hedwig.pipeline.snapshots.provenance import check_origin
    from hedwig.pipeline.snapshots.snapshot import SNAPSHOT_TABLES, read_snapshot
    from hedwig.pipeline.source.shared_stores import session_url

    check_reachable(url, timeout_s)
    write = write.within(timeout_s)
    with job.session() as spark:
        target = session_url(spark, url)
        snapshot = read_snapshot(spark, directory)
        check_origin(write.policy, snapshot.manifest.source, target)
        if with_owners and Table.OWNERS not in snapshot.frames:
            raise click.UsageError(
                f"the snapshot {directory} was taken without owners: leave out --with-owners, or take another one"
            )
        job.warn(snapshot.manifest.warning)
        wanted = [table for table in SNAPSHOT_TABLES if with_owners or table is not Table.OWNERS]
        tables = [table for table in wanted if table in snapshot.frames]
        with job.progress(spark, "checking the snapshot"):
            snapshot.verify(tables)
        written = restore(job, spark, snapshot, url, tables, write, verify=not no_verify)
    job.write({"snapshot": directory, "store": url, **written.figures(), **snapshot.manifest.losses})
    written.check()
