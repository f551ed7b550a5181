"""The job `diff`: report what differs between two snapshots, two stores, or one of each."""

import click

from hedwig.exit_codes import ExitCode
from hedwig.names import show_name
from hedwig.pipeline.command import Job, JobCommand, pass_job
from hedwig.pipeline.jobs.options import folder_name, timeout_option
from hedwig.pipeline.source.job_options import ScanOptions

__all__ = ["command"]


@click.command("diff", cls=JobCommand, example="hedwig-pipeline diff ./snapshot sqlite:///./hedwig.db")
@click.argument("before")
@click.argument("after")
@click.option("--with-owners", is_flag=True, help="Compare owners too.")
@click.option(
    "--into",
    "directory",
    metavar="DIR",
    callback=folder_name,
    help="Write all differences there as Parquet, a folder for each table.",
)
@click.option("--show", type=click.IntRange(0), default=10, show_default=True, help="How many differences to show.")
@timeout_option
@pass_job
@click.pass_context
def command(
    ctx: click.Context,
    job: Job,
    before: str,
    after: str,
    with_owners: bool,
    directory: str | None,
    show: int,
    timeout_s: int,
) -> None:
    """Compare BEFORE with AFTER, each the folder of a snapshot or the URL of a store: all but versions.

    Ends with 0 if both hold the same, and with 1 if not. Each side is read once, so a store that changes meanwhile is
    not read at one moment. If one side is a snapshot of a part, by --prefix, only that part is compared.
    """
    from hedwig.pipeline.frames.tables import Table
    from hedwig.pipeline.snapshots.differences import Differences
    from hedwig.pipeline.snapshots.inputs import two_inputs
    from hedwig.pipeline.snapshots.preflight import check_readable, check_source, is_store

    for source in (before, after):
        check_source(source, job.settings)
        if is_store(source):
            check_readable(source, timeout_s)
    with job.session() as spark, Differences(spark, directory, show) as differences:
        one, other, prefix = two_inputs(spark, before, after, ScanOptions({}).within(timeout_s).options)
        for side in (one, other):
            if with_owners and Table.OWNERS not in side.frames:
                raise click.UsageError(
                    f"{side.source} has no owners to compare: leave out --with-owners, or take a snapshot of it "
                    "without --without-owners"
                )
        with job.progress(spark, "checking snapshots"):
            for side in (one, other):
                side.verify()
        both = [table for table in one.frames if table in other.frames and (with_owners or table is not Table.OWNERS)]
        with job.progress(spark, "comparing"):
            for table in both:
                differences.compare(table, one.frames[table], other.frames[table])
    job.write({"before": before, "after": after, "prefix": show_name(prefix) or None, **differences.result()})
    if differences.count:
        ctx.exit(ExitCode.FAILED)
