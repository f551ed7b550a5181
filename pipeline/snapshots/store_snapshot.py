"""The snapshot of a store, as the jobs take one: planned, read, written, and told of meanwhile."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from hedwig.clock import Clock, SystemClock
from hedwig.pipeline.command import Job
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.manifest import Manifest
from hedwig.pipeline.snapshots.preflight import existing
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
    """Write `tables` of the store at `url`, which has to be there, into the folder `path`.

    Args: what - what the job is at, in a word.
    Raises: as `read_table_to_copy` and `write_snapshot`.
    """
    clock = clock or SystemClock()
    # A store that lists its topics to plan shows what was there then; what it lacks may have come to be since.
    began = clock.wall()
    with job.progress(spark, "planning"):
        found = {table: read_table_to_copy(spark, existing(url), table, scan.options) for table in tables}
    rows = sum(each.rows for each in found.values()) or None
    with job.progress(spark, what, rows, copies=True):
        frames = {table: each.frame for table, each in found.items()}
        return write_snapshot(spark, frames, path, source=url, prefix=scan.prefix, clock=clock, began=began)
