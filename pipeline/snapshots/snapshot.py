"""Snapshots: the tables of a store as Parquet, one folder each, and a manifest that is written last.

    DIR/ledgers/*.parquet        a row for each topic, with its ledger ranges
    DIR/owners/*.parquet
    DIR/subscriptions/*.parquet
    DIR/logs.jsonl               the shared logs that ranges and owners name, if they name any
    DIR/manifest.json            counts, checksums, format, when the store was read

A topic exists while it has a persistence record, and `ledgers` shows these records. So there is no folder for `topics`.
The checksums are of the files as they are read back. The number of rows in the files is checked against the rows that
were written. So a manifest vouches for what can be read, not for what was meant to be written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from hedwig.clock import Clock, SystemClock
from hedwig.exit_codes import ExitCode
from hedwig.metadata.logs.record import LogRecord
from hedwig.pipeline.errors import SPARK_ERRORS, JobError, from_spark
from hedwig.pipeline.frames.checksum import Checksum, checksum_of
from hedwig.pipeline.frames.folder import Folder
from hedwig.pipeline.frames.schemas import UNKNOWN_FIELDS, UNREADABLE
from hedwig.pipeline.frames.spark_types import spark_schema
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.logs import LogsFile
from hedwig.pipeline.snapshots.manifest import Manifest
from hedwig.pipeline.snapshots.side_by_side import side_by_side

__all__ = ["SNAPSHOT_TABLES", "Snapshot", "is_snapshot", "read_snapshot", "write_snapshot"]

SNAPSHOT_TABLES: Final = (Table.LEDGERS, Table.SUBSCRIPTIONS, Table.OWNERS)
"""The tables of a snapshot, in the order in which a restore writes them: topics must exist before subscriptions."""
_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot whose manifest and logs could be read. Only `verify` reads its other files."""

    folder: Folder
    manifest: Manifest
    frames: Mapping[Table, DataFrame]
    logs: Sequence[LogRecord] | None
    """The shared logs that its records name; None if they name none."""

    def verify(self, tables: Sequence[Table] | None = None) -> None:
        """Read all files of `tables` (default: of all). Raises JobError - they differ from the manifest."""
        for table in tables or tuple(self.manifest.tables):
            expected, path = self.manifest.tables[table], f"{self.folder.path}/{table}"
            with _reading(path):
                actual = checksum_of(table, self.frames[table])
            if actual.rows != expected.rows:
                raise JobError(
                    f"{path} has {actual.rows:,} rows, and the manifest says {expected.rows:,}: files are missing or "
                    "were added, use another copy of the snapshot"
                )
            if actual != expected:
                raise JobError(
                    f"{path} has the checksum {actual.text}, and the manifest says {expected.text}: it was changed "
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
    began: float | None = None,
    logs_of: Callable[[Mapping[Table, DataFrame]], Sequence[LogRecord] | None] = lambda _: None,
) -> Manifest:
    """Write `frames` as a snapshot into the folder `path`, which must be empty or missing. Each is read once.

    The frames are written side by side, and each is read back as soon as it is written.

    If a frame has the columns UNKNOWN_FIELDS and UNREADABLE, their records are counted. These columns are not written,
    nor are the rows of unreadable records. If this function raises, it deletes what it has written, as far as possible.
    Files that stay are no snapshot, since they have no manifest.

    Args: began - when the reading of the frames' source began (wall clock), if that was before this call; logs_of -
        returns the shared logs that the written tables name, None if they name none.
    Raises: JobError - the folder has something in it, or rows were lost on the way; what reading the frames raises.
    """
    folder = Folder(spark, path)
    clock = clock or SystemClock()
    with folder.deleted_on_failure():
        began = clock.wall() if began is None else began
        works = [partial(_copied, table, frame, f"{path}/{table}", clock) for table, frame in frames.items()]
        copied = dict(zip(frames, side_by_side(spark, works), strict=True))
        logs = logs_of(_frames(spark, path, frames))
        manifest = Manifest(
            source=source,
            began=_time_text(began),
            ended=_time_text(max((each.ended for each in copied.values()), default=began)),
            prefix=prefix.hex(),
            tables={table: each.checksum for table, each in copied.items()},
            unknown_fields={table: each.unknown_fields for table, each in copied.items() if each.unknown_fields},
            unreadable={table: each.unreadable for table, each in copied.items() if each.unreadable},
            logs=None if logs is None else LogsFile.write(folder, logs),
        )
        folder.write_text(_MANIFEST, manifest.encode())
    return manifest


def is_snapshot(spark: SparkSession, path: str) -> bool:
    """Say whether the folder `path` has a manifest, without reading it. Raises JobError."""
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
            f"{path} has no {_MANIFEST}, so it is no whole snapshot: the job that wrote it did not finish, or the "
            "folder is something else",
            ExitCode.NOT_FOUND,
        )
    manifest = Manifest.decode(folder.read_text(_MANIFEST), f"{path}/{_MANIFEST}")
    logs = None if manifest.logs is None else manifest.logs.read(folder)
    return Snapshot(folder, manifest, _frames(spark, path, manifest.tables), logs)


def _frames(spark: SparkSession, path: str, tables: Iterable[Table]) -> dict[Table, DataFrame]:
    return {table: spark.read.schema(spark_schema(table)).parquet(f"{path}/{table}") for table in tables}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copied:
    """A table in its files: their checksum, the counts from writing them, and when all was read (wall clock)."""

    checksum: Checksum
    unknown_fields: int
    unreadable: int
    ended: float


def _copied(table: Table, frame: DataFrame, path: str, clock: Clock) -> _Copied:
    """Write a frame as Parquet, without its columns on request, and without rows of records that cannot be read.

    Raises: JobError - the files hold more or fewer rows than were written.
    """
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
    ended = clock.wall()
    passed = int(seen.get["rows"])
    checksum = checksum_of(table, frame.sparkSession.read.schema(spark_schema(table)).parquet(path))
    if checksum.rows != passed:
        raise JobError(
            f"{passed:,} rows were written to {path}, and {checksum.rows:,} are in it: its file system lost some"
        )
    return _Copied(
        checksum=checksum,
        unknown_fields=int(seen.get["unknown_fields"]),
        unreadable=int(seen.get["unreadable"]),
        ended=ended,
    )


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as exc:
        reason = from_spark(exc)
        if reason is None:
            raise
        raise JobError(f"{path} cannot be read: {reason}") from exc


def _time_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
