"""The shared logs of a snapshot: read behind its tables, kept in a file beside them, and brought back before them."""

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hedwig.clock import SystemClock
from hedwig.errors import CorruptRecordError
from hedwig.metadata import StoreOptions, open_metadata
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.transfer import has_logs, logs_brought, read_logs
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.operations.deployment.deployment import without_making
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.columns import log_of
from hedwig.pipeline.frames.folder import Folder
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.source.shared_stores import stores_file

__all__ = ["LOGS_FILE", "LogsFile", "bringing_logs", "logs_named_in", "read_logs_named_in"]

LOGS_FILE: Final = "logs.jsonl"


@dataclass(frozen=True, slots=True)
class LogsFile:
    """What the manifest says of the file: how many logs it has, and the SHA-256 of its bytes, in hexadecimal digits."""

    logs: int
    sha256: str

    @classmethod
    def write(cls, folder: Folder, logs: Sequence[LogRecord]) -> Self:
        """Write logs into the file in `folder`. Raises JobError."""
        lines = [
            {"log": each.number, "hub": each.hub.name, "epoch": each.hub.epoch, "record": _text(each)} for each in logs
        ]
        content = "".join(json.dumps(each) + "\n" for each in lines)
        folder.write_text(LOGS_FILE, content)
        return cls(len(logs), _digest(content))

    def read(self, folder: Folder) -> list[LogRecord]:
        """Return the logs in the file in `folder`. Raises JobError - it is not the file that was written."""
        content = folder.read_text(LOGS_FILE)
        path = f"{folder.path}/{LOGS_FILE}"
        if _digest(content) != self.sha256:
            raise JobError(
                f"{path} is not the file that the manifest describes: it was changed after it was written, use another "
                "copy of the snapshot"
            )
        try:
            return [LogRecord.decode(base64.b64decode(json.loads(line)["record"])) for line in content.splitlines()]
        except CorruptRecordError as exc:
            raise JobError(f"{path}: {exc}; use the release that wrote it, or a later one") from exc


def logs_named_in(frames: Mapping[Table, DataFrame]) -> set[int]:
    """Return the logs that ranges with messages, and owners, name in the tables of a store."""
    named: set[int] = set()
    if Table.LEDGERS in frames:
        ranges = frames[Table.LEDGERS].select(F.explode("ranges").alias("range"))
        is_emptied = F.coalesce(F.col("range.start") > F.col("range.end.local"), F.lit(False))
        named |= _numbers(ranges.where(~is_emptied).select(log_of(F.col("range.ledger_id")).alias("log")))
    if Table.OWNERS in frames:
        named |= _numbers(frames[Table.OWNERS].select(F.col("log").cast("bigint").alias("log")))
    return named


def read_logs_named_in(url: str, frames: Mapping[Table, DataFrame], timeout_s: float) -> list[LogRecord] | None:
    """Return the logs that `frames` name, as they are now in the store at `url`; None if the frames name none.

    The frames were read from that store before. So the logs have all segments that these need.

    Raises: MetadataError.
    """
    options = StoreOptions(operation_timeout_s=timeout_s, stores_file=stores_file(), reads_only=True)

    async def read(numbers: set[int] | None) -> list[LogRecord] | None:
        async with await open_metadata(without_making(url), options) as store:
            if numbers is None:
                return [] if await has_logs(store.named_records) else None
            return await read_logs(store.named_records, numbers)

    if asyncio.run(read(None)) is None:
        return None  # Then nothing names any, and the frames need not be read again.
    named = logs_named_in(frames)
    return asyncio.run(read(named)) if named else None


@contextmanager
def bringing_logs(url: str, logs: Sequence[LogRecord], timeout_s: float) -> Iterator[int]:
    """Write logs into the store at `url`, and hold the sweep of logs for the body; yield how many logs were written.

    A thread holds it, since the body waits for Spark.

    Raises: as `transfer.logs_brought`.
    """
    begun: Future[int] = Future()
    ended = threading.Event()

    async def hold() -> None:
        options = StoreOptions(operation_timeout_s=timeout_s, stores_file=stores_file())
        async with await open_metadata(url, options) as store:
            watch = FreezeWatch(store.named_records, SystemClock())
            async with logs_brought(store, logs, watch.carry_out) as written:
                begun.set_result(written)
                await asyncio.to_thread(ended.wait)

    with ThreadPoolExecutor(1, thread_name_prefix="hold of the sweep") as thread:
        holding = thread.submit(asyncio.run, hold())
        try:
            both: list[Future[Any]] = [begun, holding]
            wait(both, return_when=FIRST_COMPLETED)
            if not begun.done():
                holding.result()
            yield begun.result()
        finally:
            ended.set()
        holding.result()


def _numbers(frame: DataFrame) -> set[int]:
    return {int(row["log"]) for row in frame.where("log is not null").distinct().collect()}


def _text(log: LogRecord) -> str:
    return base64.b64encode(log.encode()).decode("ascii")


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
