"""The jobs of the writer, and the queue in which they wait."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hedwig.errors import HedwigError
from hedwig.hub.ledgers.local.segments.records import RECORD_HEADER_BYTES, SegmentRecordKind

__all__ = ["CopyJob", "Job", "NewRecord", "RecordJob", "WriteQueue"]

_JOB_BYTES: Final = 256
"""What a job costs besides its payload, roughly. So the bound on bytes also bounds the number of jobs."""
_UPKEEP: Final = frozenset({SegmentRecordKind.CLOSE, SegmentRecordKind.FENCE, SegmentRecordKind.DELETE})


class NewRecord(NamedTuple):
    """A record to be written."""

    kind: int
    ledger_id: int
    entry: int
    payload: bytes


class RecordJob:
    """One record to write. With `record` None, it is done once all jobs before it are. A caller waits in an event loop.

    `generation` is the writer's count of failures that the caller knew of, None until the writer has the job.
    """

    __slots__ = ("cost", "future", "generation", "record", "withdrawn")

    def __init__(self, record: NewRecord | None, future: "asyncio.Future[None]") -> None:
        self.record = record
        self.future = future
        self.generation: int | None = None
        self.withdrawn = False
        self.cost = _JOB_BYTES + (len(record.payload) if record is not None else 0)

    def fail(self, error: HedwigError) -> None:
        """Raise `error` at the caller, if it still waits. Called in its event loop."""
        if not self.future.done():
            self.future.set_exception(error)

    @property
    def is_upkeep(self) -> bool:
        """Whether the writer runs it even on a full disk: it makes space, or a takeover of a ledger needs it."""
        return self.record is None or self.record.kind in _UPKEEP


class CopyJob:
    """Live records of a segment that is rewritten. `done` is called in the writer's thread.

    The writer puts them into another segment than number `leaves`. If that is the active one, the writer ends it.
    """

    __slots__ = ("done", "leaves", "records")

    is_upkeep: Final = True
    generation: Final = None

    def __init__(self, records: Sequence[NewRecord], done: Callable[[HedwigError | None], None], leaves: int) -> None:
        self.records = records
        self.done = done
        self.leaves = leaves


Job = RecordJob | CopyJob


class WriteQueue:
    """Jobs on their way to the writer, in order. The callers of `put` bound it."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._wake = threading.Condition(threading.Lock())
        self._waiting = False
        self._closed = False

    def put(self, job: Job) -> bool:
        """Queue a job; return False if the queue was closed."""
        with self._wake:
            if self._closed:
                return False
            self._jobs.append(job)
            if self._waiting:
                self._wake.notify()
            return True

    def take(self, bytes_max: int, records_max: int) -> list[Job]:
        """Wait for jobs and return the first of them; none once the queue is closed and empty.

        The jobs have at most `bytes_max` bytes and `records_max` records, unless the first alone has more.
        """
        taken: list[Job] = []
        size = records = 0
        with self._wake:
            while not self._jobs and not self._closed:
                self._waiting = True
                self._wake.wait()
            self._waiting = False
            while self._jobs:
                job = self._jobs[0]
                more, count = _extent(job)
                if taken and (size + more > bytes_max or records + count > records_max):
                    break
                taken.append(self._jobs.popleft())
                size += more
                records += count
        return taken

    def take_all(self) -> list[Job]:
        """Remove and return all jobs."""
        with self._wake:
            taken = list(self._jobs)
            self._jobs.clear()
        return taken

    def close(self) -> None:
        """Accept no more jobs."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()


def _extent(job: Job) -> tuple[int, int]:
    if isinstance(job, CopyJob):
        return sum(RECORD_HEADER_BYTES + len(record.payload) for record in job.records), len(job.records)
    if job.record is None:
        return 0, 0
    return RECORD_HEADER_BYTES + len(job.record.payload), 1
