"""Snapshots: the tables of a store as Parquet, a folder each, and a manifest that is written last.

    DIR/ledgers/*.parquet        a row for each topic, with its ledger ranges
    DIR/owners/*.parquet
    DIR/subscriptions/*.parquet
    DIR/manifest.json            counts, checksums, format, when the store was read

A topic exists while it has a persistence record, which is what `ledgers` shows; so there is no folder for `topics`. The
checksums are those of the files as they are read back, and the rows in the files are as many as passed on the way to
them: so a manifest vouches for what can be read, not for what was meant to be written.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from hedwig.clock import Clock, SystemClock
from hedwig.exit_codes import ExitCode
from pipeline.checksum import Checksum, checksum_of
from pipeline.errors import SPARK_ERRORS, JobError, from_spark
from pipeline.folder import Folder
from pipeline.manifest import Manifest
from pipeline.schemas import UNKNOWN_FIELDS, UNREADABLE
from pipeline.spark_types import spark_schema
from pipeline.tables import Table

__all__ = ["SNAPSHOT_TABLES", "Snapshot", "is_snapshot", "read_snapshot", "write_snapshot"]

SNAPSHOT_TABLES: Final = (Table.LEDGERS, Table.SUBSCRIPTIONS, Table.OWNERS)
"""What a snapshot holds, in the order in which a restore writes it: a topic exists before it has subscriptions."""
_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot whose manifest could be read. Its files were not looked at yet: `verify` does."""

    folder: Folder
    manifest: Manifest
    frames: Mapping[Table, DataFrame]

    def verify(self, tables: Sequence[Table] | None = None) -> None:
        """Read all files of `tables` (default: of all). Raises JobError: they do not hold what the manifest says."""
        for table in tables or tuple(self.manifest.tables):
            expected, place = self.manifest.tables[table], f"{self.folder.path}/{table}"
            with _reading(place):
                found = checksum_of(table, self.frames[table])
            if found.rows != expected.rows:
                raise JobError(
                    f"{place} has {found.rows:,} rows, and the manifest says {expected.rows:,}: files are missing or "
                    "were added, use another copy of the snapshot"
                )
            if found != expected:
                raise JobError(
                    f"{place} has the checksum {found.text}, and the manifest says {expected.text}: it was changed "
                    "after it was written, use another copy of the snapshot"
                )


def write_snapshot(
    spark: SparkSession,
    frames: Mapping[Table, DataFrame],
    path: str,
    *,
    source: str,
    prefix: bytes = b"",
    clock: Clock | None = None,
) -> Manifest:
    """Write `frames` as a snapshot into the folder `path`, which must be empty or missing. Each is read once.

    Of a frame with the columns UNKNOWN_FIELDS and UNREADABLE what they tell is counted; neither they are written, nor
    the rows of records that cannot be read. Whatever ends it before the end, what it has written is deleted as far as
    that is possible; and without the manifest the rest is no snapshot.

    Raises: JobError - the folder has something in it, or rows were lost on the way; what reading the frames raises.
    """
    folder = Folder(spark, path)
    clock = clock or SystemClock()
    with folder.deleted_on_failure():
        began = _time_text(clock)
        passed = {table: _write(frame, f"{path}/{table}") for table, frame in frames.items()}
        ended = _time_text(clock)
        tables = {table: _read_back(spark, table, f"{path}/{table}", seen.rows) for table, seen in passed.items()}
        unknown = {table: seen.unknown_fields for table, seen in passed.items() if seen.unknown_fields}
        broken = {table: seen.unreadable for table, seen in passed.items() if seen.unreadable}
        manifest = Manifest(
            source=source,
            began=began,
            ended=ended,
            prefix=prefix.hex(),
            tables=tables,
            unknown_fields=unknown,
            unreadable=broken,
        )
        folder.write_text(_MANIFEST, manifest.encode())
    return manifest


def is_snapshot(spark: SparkSession, path: str) -> bool:
    """Say whether the folder `path` has a manifest, whatever that says. Raises JobError."""
    return (Folder(spark, path) / _MANIFEST).exists()


def read_snapshot(spark: SparkSession, path: str) -> Snapshot:
    """Return the snapshot in the folder `path`.

    Raises: JobError - there is none, no whole one, or one of a later format.
    """
    folder = Folder(spark, path)
    if not folder.exists():
        raise JobError(f"{path} does not exist: name the folder of a snapshot", ExitCode.NOT_FOUND)
    if not is_snapshot(spark, path):
        raise JobError(
            f"{path} has no {_MANIFEST}, so it is no whole snapshot: the job that wrote it did not come to its end, or "
            "it is something else",
            ExitCode.NOT_FOUND,
        )
    manifest = Manifest.decode(folder.read_text(_MANIFEST), f"{path}/{_MANIFEST}")
    frames = {table: spark.read.schema(spark_schema(table)).parquet(f"{path}/{table}") for table in manifest.tables}
    return Snapshot(folder, manifest, frames)


@dataclass(frozen=True, slots=True)
class _Passed:
    """What was seen of a table on its way into files."""

    rows: int
    unknown_fields: int
    unreadable: int


def _write(frame: DataFrame, path: str) -> _Passed:
    """Write a frame as Parquet, but for its columns on request, and for rows of records that cannot be read."""
    seen = Observation()
    unknown = F.col(UNKNOWN_FIELDS.name) if UNKNOWN_FIELDS.name in frame.columns else F.lit(False)
    broken = F.col(UNREADABLE.name).isNotNull() if UNREADABLE.name in frame.columns else F.lit(False)
    counts = (
        F.count_if(~broken).alias("rows"),
        F.count_if(unknown).alias("unknown_fields"),
        F.count_if(broken).alias("unreadable"),
    )
    kept = frame.observe(seen, *counts).where(~broken).drop(UNKNOWN_FIELDS.name, UNREADABLE.name)
    kept.write.parquet(path)
    return _Passed(*(int(seen.get[name]) for name in ("rows", "unknown_fields", "unreadable")))


def _read_back(spark: SparkSession, table: Table, path: str, passed: int) -> Checksum:
    found = checksum_of(table, spark.read.schema(spark_schema(table)).parquet(path))
    if found.rows != passed:
        raise JobError(
            f"{passed:,} rows were written to {path}, and {found.rows:,} are in it: its file system lost some"
        )
    return found


@contextmanager
def _reading(place: str) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as exc:
        reason = from_spark(exc)
        if reason is None:
            raise
        raise JobError(f"{place} cannot be read: {reason}") from exc


def _time_text(clock: Clock) -> str:
    return datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="seconds")
