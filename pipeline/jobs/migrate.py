"""The job `migrate`: copy all metadata from one store to another."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hedwig.exit_codes import ExitCode
from hedwig.pipeline.command import Job, JobCommand, pass_job
from hedwig.pipeline.jobs.options import folder_name, scan_options, timeout_option, write_options
from hedwig.pipeline.source.job_options import ScanOptions, WriteOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from hedwig.pipeline.frames.tables import Table
    from hedwig.pipeline.snapshots.snapshot import Snapshot

__all__ = ["command"]


@click.command("migrate", cls=JobCommand, example="hedwig-pipeline migrate sqlite:///./hedwig.db sqlite:///./moved.db")
@click.argument("source")
@click.argument("target")
@click.option(
    "--through",
    metavar="DIR",
    callback=folder_name,
    help="Folder for the snapshot between the stores. It stays, and the next run goes on with it. On a cluster all "
    "machines must reach it.  [default: a temporary folder of this machine]",
)
@click.option("--with-owners", is_flag=True, help="Owners too: only for hubs that keep their epochs.")
@scan_options
@write_options
@timeout_option
@pass_job
def command(
    job: Job,
    source: str,
    target: str,
    through: str | None,
    with_owners: bool,
    scan: ScanOptions,
    write: WriteOptions,
    timeout_s: int,
) -> None:
    """Copy all metadata from the store SOURCE to the store TARGET, and prove that TARGET holds the same.

    Stop the hubs before. To migrate while they run, use hedwig-admin metadata migrate. SOURCE is read once, into a
    snapshot. TARGET is written from it, and compared with it. The job may be run again after it was ended: with the
    same --through it does not read SOURCE again.
    """
    from hedwig.pipeline.frames.policies import Policy
    from hedwig.pipeline.frames.tables import Table
    from hedwig.pipeline.snapshots.copying import restore
    from hedwig.pipeline.snapshots.preflight import check_reachable, check_readable
    from hedwig.pipeline.snapshots.snapshot import SNAPSHOT_TABLES, is_snapshot
    from hedwig.pipeline.source.shared_stores import session_url

    if source == target:
        raise click.UsageError("SOURCE and TARGET are the same store")
    if write.policy == Policy.REPLACE:
        raise click.UsageError("versions mean something in one store, so rows of SOURCE cannot replace any in TARGET")
    check_readable(source, timeout_s)
    check_reachable(target, timeout_s)
    scan, write = scan.within(timeout_s), write.within(timeout_s)
    tables = [table for table in SNAPSHOT_TABLES if with_owners or table is not Table.OWNERS]
    with ExitStack() as stack:
        spark = stack.enter_context(job.session())
        session_url(spark, target)
        if through is None:
            if not str(spark.sparkContext.master).startswith("local"):
                raise click.UsageError("on a cluster name a folder that all machines can reach: --through DIR")
            through = f"{stack.enter_context(tempfile.TemporaryDirectory(prefix='hedwig-migrate-'))}/snapshot"
        wanted = _Wanted(session_url(spark, source), through, tables, scan)
        snapshot = _earlier(job, spark, wanted, target) if is_snapshot(spark, through) else _new(job, spark, wanted)
        manifest = snapshot.manifest
        job.warn(manifest.warning)
        written = restore(job, spark, snapshot, target, tables, write)
    read = f"{manifest.began} to {manifest.ended}"
    job.write({"from": source, "read": read, "to": target, **written.figures(), **manifest.losses})
    written.check()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The snapshot between the two stores: its source, its folder, its tables, and how it is scanned."""

    source: str
    through: str
    tables: "Sequence[Table]"
    scan: ScanOptions


def _new(job: Job, spark: "SparkSession", wanted: _Wanted) -> "Snapshot":
    """Take the snapshot that is wanted, and return it."""
    from hedwig.pipeline.snapshots.snapshot import read_snapshot
    from hedwig.pipeline.snapshots.store_snapshot import take_snapshot

    take_snapshot(job, spark, wanted.source, wanted.tables, wanted.through, wanted.scan, "reading")
    return read_snapshot(spark, wanted.through)


def _earlier(job: Job, spark: "SparkSession", wanted: _Wanted, target: str) -> "Snapshot":
    """Return the snapshot that an earlier run took.

    Raises: JobError - it is not whole, or it is of another store, other tables or other topics.
    """
    from hedwig.pipeline.errors import JobError
    from hedwig.pipeline.snapshots.snapshot import read_snapshot

    snapshot = read_snapshot(spark, wanted.through)
    manifest = snapshot.manifest
    held = (manifest.source, manifest.prefix, set(manifest.tables))
    if held != (wanted.source, wanted.scan.prefix.hex(), set(wanted.tables)):
        raise JobError(
            f"{wanted.through} has another snapshot in it, from {manifest.source}: name another folder; or "
            f"write that snapshot with: hedwig-pipeline restore {wanted.through} {target}",
            ExitCode.USAGE,
        )
    try:
        with job.progress(spark, "checking the snapshot"):
            snapshot.verify(wanted.tables)
    except JobError as exc:
        raise JobError(f"{exc}, or remove {wanted.through} and run the same job again", exc.code) from exc
    job.warn(
        f"this goes on with {wanted.through}, which was read from {manifest.began} to {manifest.ended}; if hubs have "
        "written since, name another folder"
    )
    return snapshot
