"""The snapshot of a store, as the jobs take one: planned, read, written, and told of meanwhile."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from hedwig.clock import Clock, SystemClock
from pipeline.command import Job
from pipeline.jobs.options import ScanWish
from pipeline.manifest import Manifest
from pipeline.reaching import existing
from pipeline.snapshot import write_snapshot
from pipeline.store_tables import read_table_to_copy
from pipeline.tables import Table

__all__ = ["take_snapshot"]


def take_snapshot(
    job: Job,
    spark: SparkSession,
    url: str,
    tables: Sequence[Table],
    path: str,
    scan: ScanWish,
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
