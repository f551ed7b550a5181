"""The two sides of a comparison, each a snapshot or a store, narrowed to the topics that both cover."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.exit_codes import ExitCode
from hedwig.names import show_name
from hedwig.operations.deployment.deployment import without_making
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.preflight import is_store
from hedwig.pipeline.snapshots.snapshot import SNAPSHOT_TABLES, Snapshot, read_snapshot
from hedwig.pipeline.source.store_tables import read_table

__all__ = ["Input", "two_inputs"]


@dataclass(frozen=True, slots=True)
class Input:
    """A snapshot or a store at `source`, and those of its tables and rows that may be compared."""

    source: str
    frames: Mapping[Table, DataFrame]
    snapshot: Snapshot | None

    def verify(self) -> None:
        """Read all files of a snapshot; do nothing for a store. Raises JobError - they differ from the manifest."""
        if self.snapshot is not None:
            self.snapshot.verify()


def two_inputs(spark: SparkSession, before: str, after: str, options: Mapping[str, str]) -> tuple[Input, Input, bytes]:
    """Return both sides, narrowed to the topics with the same prefix, and that prefix.

    If a snapshot covers only a part of the topics, this takes the same part of the other side. Stores are read with
    `options` of the data source.

    Raises: JobError - as `read_snapshot`; USAGE - the snapshots are of different parts.
    """
    snapshots = [None if is_store(source) else read_snapshot(spark, source) for source in (before, after)]
    prefixes = {bytes.fromhex(each.manifest.prefix) for each in snapshots if each is not None} - {b""}
    if len(prefixes) > 1:
        prefixes_text = " and ".join(f"'{show_name(prefix)}'" for prefix in sorted(prefixes))
        raise JobError(
            f"these are snapshots of different parts, of topics that begin with {prefixes_text}: compare those of "
            "the same part",
            ExitCode.USAGE,
        )
    prefix = prefixes.pop() if prefixes else b""
    how = {**options, "prefix": show_name(prefix)} if prefix else options
    one, other = (
        Input(source, _of_store(spark, source, how) if snapshot is None else _of_snapshot(snapshot, prefix), snapshot)
        for source, snapshot in zip((before, after), snapshots, strict=True)
    )
    return one, other, prefix


def _of_store(spark: SparkSession, url: str, options: Mapping[str, str]) -> Mapping[Table, DataFrame]:
    return {table: read_table(spark, without_making(url), table, options) for table in SNAPSHOT_TABLES}


def _of_snapshot(snapshot: Snapshot, prefix: bytes) -> Mapping[Table, DataFrame]:
    if not prefix or snapshot.manifest.prefix:
        return snapshot.frames
    begins_so = F.startswith(F.col("topic"), F.lit(prefix))
    return {table: frame.where(begins_so) for table, frame in snapshot.frames.items()}
