"""Taking the snapshot of a store in a job: plan, read and write, with progress."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import SparkSession

from hedwig.clock import Clock, SystemClock
from hedwig.operations.deployment.deployment import without_making
from hedwig.pipeline.command import Job
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.logs import read_logs_named_in
from hedwig.pipeline.snapshots.manifest import Manifest
from hedwig.pipeline.snapshots.snapshot import write_snapshot
from hedwig.pipeline.source.job_options import ScanOptions
from hedwig.pipeline.source.store_tables import read_table_to_copy

__all__ = ["take_snapshot"]


def take_snapshot(
    job: Job,
    spark: SparkSession,
    url: str,
    tables: Sequence[Table],
    path: str,
    scan: ScanOptions,
    what: str,
    clock: Clock | None = None,
) -> Manifest:
    """Write `tables` of the store at `url`, which has to exist, into the folder `path`.

    Args: what - a word for the progress line, for what the job is doing.
    Raises: as `read_table_to_copy` and `write_snapshot`.
    """
    clock = clock or SystemClock()
    # A store that lists its topics to plan shows those that exist then. Topics may have been created since.
    began = clock.wall()
    with job.progress(spark, "planning"):
        to_copy = {table: read_table_to_copy(spark, without_making(url), table, scan.options) for table in tables}
    rows = sum(each.rows for each in to_copy.values()) or None
    with job.progress(spark, what, rows, copies=True):
        frames = {table: each.frame for table, each in to_copy.items()}
        logs_of = partial(read_logs_named_in, url, timeout_s=scan.timeout_s)
        return write_snapshot(
            spark, frames, path, source=url, prefix=scan.prefix, clock=clock, began=began, logs_of=logs_of
        )
