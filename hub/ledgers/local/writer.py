"""The writer: one thread that appends the records of all ledgers, many to one write and one sync.

After a failed write or sync, the end of the file is unknown. A second sync may report success for bytes that the system
has already thrown away. So the segment ends, for good, where the last successful sync left it. The writer cuts off the
bytes behind, if that works. It puts the next record into a new segment, whose header disowns them in any case.
"""

import contextlib
import errno
import logging
import os
import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from hedwig.errors import HedwigError, LedgerStoreFullError, LedgerStoreUnavailableError, LedgerWriteError
from hedwig.hub.ledgers.local.jobs import CopyJob, Job, NewRecord, RecordJob, WriteQueue
from hedwig.hub.ledgers.local.options import LocalLedgerOptions
from hedwig.hub.ledgers.local.segments.catalog import Catalog, Segment
from hedwig.hub.ledgers.local.segments.directory import StoreDirectory
from hedwig.hub.ledgers.local.segments.disk import Disk
from hedwig.hub.ledgers.local.segments.index import MemoryIndex, row_of
from hedwig.hub.ledgers.local.segments.records import (
    RECORD_HEADER_BYTES,
    SegmentHeader,
    SegmentRecordKind,
    encode_record,
)
from hedwig.hub.ledgers.local.segments.reserve import Reserve
from hedwig.hub.ledgers.local.upkeep import Upkeep

__all__ = ["Writer"]

_log = logging.getLogger(__name__)

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL: Final = _NO_SPACE | {errno.EFBIG}
_SHORT: Final = 16
"""On a full disk, a segment has 1/N of its usual length, and at least `_SHORT_MIN` bytes."""
_SHORT_MIN: Final = 4096

Finish = Callable[[Sequence[RecordJob], "HedwigError | None", int], None]


class Writer:
    """Appends to the active segment. `finish(jobs, error, generation)` is called in its thread.

    `generation` counts failures. A job with an older generation was queued behind a job that failed. It fails too, so
    that no ledger gets a gap.
    """

    def __init__(
        self,
        directory: StoreDirectory,
        catalog: Catalog,
        options: LocalLedgerOptions,
        disk: Disk,
        reserve: Reserve,
        queue: WriteQueue,
        upkeep: Upkeep,
        *,
        next_number: int,
        previous: tuple[int, int],
        finish: Finish,
        source: random.Random,
    ) -> None:
        self.queue = queue
        self._directory = directory
        self._catalog = catalog
        self._options = options
        self._disk = disk
        self._reserve = reserve
        self._upkeep = upkeep
        self._next_number = next_number
        self._previous = previous
        self._finish = finish
        self._generation = 0
        self._at_hand: list[Job] = []
        self._group_max = (
            min(options.group_bytes_max, options.segment_bytes),
            min(options.group_records_max, options.segment_records_max),
        )
        self._behind_failure: Callable[[], HedwigError] = self._not_stored
        self._active: Segment | None = None
        self._index = MemoryIndex()
        self._descriptor = -1
        self._source = source
        self._thread = threading.Thread(target=self._run, name="hedwig-ledgers-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread to end; `queue.close()` comes first."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while jobs := self.queue.take(*self._group_max):
                self._at_hand = jobs
                self._serve(jobs)
            if self._active is not None:
                self._retire()
        except Exception as exc:
            # A defect of ours. Records that were written stay, and no caller gets a success for any other. Some of
            # these jobs may have been answered already; the store ignores a second answer.
            _log.exception("the writer of %s ends", self._directory.path)
            self.queue.close()
            self._generation += 1
            text = f"the ledger store ended: {exc!r}; start it again; it is not known whether this request is stored"
            self._refuse([*self._at_hand, *self.queue.take_all()], lambda: LedgerWriteError(text))

    def _serve(self, jobs: list[Job]) -> None:
        if self._reserve.is_missing or any(job.generation != self._generation for job in jobs):
            jobs = self._sort_out(jobs)
        try:
            self._write(jobs)
        except OSError as exc:
            self._recover(jobs, exc)
        else:
            self._done(jobs)

    def _sort_out(self, jobs: list[Job]) -> list[Job]:
        """Refuse the jobs that are behind a failure, or for which there is no space; return the others."""
        stale = [job for job in jobs if isinstance(job, RecordJob) and self._is_stale(job)]
        if stale:
            self._refuse(stale, self._behind_failure)
            jobs = [job for job in jobs if not isinstance(job, RecordJob) or not self._is_stale(job)]
        upkeep = [job for job in jobs if job.is_upkeep]
        if self._reserve.is_missing and len(upkeep) < len(jobs):
            self._generation += 1
            self._behind_failure = self._no_space
            self._refuse([job for job in jobs if not job.is_upkeep], self._no_space)
            return upkeep
        return jobs

    def _is_stale(self, job: RecordJob) -> bool:
        return job.generation != self._generation and not job.is_upkeep

    def _write(self, jobs: Sequence[Job]) -> None:
        """Write the records of all jobs and sync. Raises: OSError - the tail is unknown."""
        records = list(_records(jobs))
        if not records:
            return
        active = self._segment_for(records, {job.leaves for job in jobs if isinstance(job, CopyJob)})
        start = offset = active.end
        parts: list[bytes] = []
        rows: list[tuple[int, int, int]] = []
        for kind, ledger_id, entry, payload in records:
            rows.append((ledger_id, *row_of(kind, entry, offset, len(payload))))
            offset = encode_record(parts, active.salt, offset, start, kind, ledger_id, entry, payload)
        self._disk.write(self._descriptor, b"".join(parts), start)
        self._disk.sync(self._descriptor)
        with self._catalog.lock:
            active.end = offset
            add = self._index.add
            for row in rows:
                add(*row)
            for job in jobs:
                if isinstance(job, RecordJob) and job.record is not None:
                    self._note_ledger(job.record)

    def _note_ledger(self, record: NewRecord) -> None:
        if record.kind == SegmentRecordKind.CREATE:
            self._catalog.add_ledger(record.ledger_id)
        elif record.kind == SegmentRecordKind.DELETE:
            self._catalog.delete_ledger(record.ledger_id)

    def _segment_for(self, records: Sequence[NewRecord], left: Collection[int]) -> Segment:
        """Return the active segment, or a new one if the records do not fit into it or its number is in `left`."""
        active = self._active
        if active is not None:
            size = sum(RECORD_HEADER_BYTES + len(record.payload) for record in records)
            fits = active.end + size <= self._segment_bytes() and active.number not in left
            if (fits and len(self._index) + len(records) <= self._options.segment_records_max) or not len(self._index):
                return active
            self._retire()
        return self._begin()

    def _segment_bytes(self) -> int:
        """Return how long a segment may be. On a full disk it is short, so that its space is freed sooner."""
        most = self._options.segment_bytes
        return max(most // _SHORT, _SHORT_MIN) if self._reserve.is_missing else most

    def _begin(self) -> Segment:
        """Make a new segment the active one. Its header is on disk before the first record is written."""
        self._upkeep.await_room()
        number = self._next_number
        self._next_number += 1
        path = self._directory.segment(number)
        salt = self._source.getrandbits(32)
        previous, previous_end = self._previous
        header = SegmentHeader(
            number=number,
            salt=salt,
            previous=previous,
            previous_end=previous_end,
            next_ledger_id=self._catalog.next_ledger_id,
        )
        descriptor = self._disk.create(path)
        try:
            self._disk.write(descriptor, header.encode(), 0)
            self._disk.sync(descriptor)
            self._disk.sync_directory(path.parent)
        except OSError:
            os.close(descriptor)
            self._remove(path)
            raise
        self._descriptor = descriptor
        self._active = Segment(number, path, salt)
        assert isinstance(self._active.index, MemoryIndex)
        self._index = self._active.index
        with self._catalog.lock:
            self._catalog.unplaced[number] = self._active
        return self._active

    def _retire(self) -> None:
        """End the active segment. The upkeep writes its index file; without a record the segment is removed."""
        active = self._active
        assert active is not None
        os.close(self._descriptor)
        self._descriptor = -1
        self._active = None
        if len(self._index):
            self._previous = active.number, active.end
            self._upkeep.rolled(active)
            return
        with self._catalog.lock:
            self._catalog.unplaced.pop(active.number)
        if not self._remove(active.path):
            # The next segment must disown the bytes behind this header. The segment before has an index with its end.
            self._previous = active.number, active.end

    def _recover(self, jobs: Sequence[Job], exc: OSError) -> None:
        """Refuse jobs whose write failed and those behind them, but write the ones that make space."""
        full = exc.errno in _FULL
        clean = self._cut_tail()
        _log.error("cannot write to %s: %s", self._directory.path, exc)
        self._generation += 1
        jobs = [*jobs, *self.queue.take_all()]
        reason = self._behind_failure = self._no_space if full else partial(self._not_stored, exc)
        if not clean:
            reason = partial(self._not_known, exc)
        self._refuse([job for job in jobs if not job.is_upkeep], reason)
        upkeep = [job for job in jobs if job.is_upkeep]
        # Also if no job is left to write: others, such as the metadata, need space before anything can be deleted.
        with self._reserve.given_up() if exc.errno in _NO_SPACE else contextlib.nullcontext():
            try:
                self._write(upkeep)
            except OSError as again:
                self._cut_tail()
                _log.error("cannot even write what makes space in %s: %s", self._directory.path, again)
                self._refuse(upkeep, reason)
            else:
                self._done(upkeep)

    def _cut_tail(self) -> bool:
        """End the active segment after a failure; return whether the bytes that were not synced are surely gone."""
        active = self._active
        if active is None:
            return True
        try:
            self._disk.truncate(self._descriptor, active.end)
            self._disk.sync(self._descriptor)
            clean = True
        except OSError as exc:
            _log.warning("cannot cut the tail off %s: %s; the next segment disowns it", active.path, exc)
            clean = False
        self._retire()
        return clean

    def _no_space(self) -> HedwigError:
        return LedgerStoreFullError(
            f"no space left for ledgers in {self._directory.path}: free some, or consume messages"
        )

    def _not_stored(self, cause: OSError | None = None) -> HedwigError:
        return LedgerStoreUnavailableError(f"nothing was stored in {self._directory.path}: {cause}")

    def _not_known(self, cause: OSError) -> HedwigError:
        return LedgerWriteError(
            f"cannot write to {self._directory.path}: {cause}; it is not known whether it is stored"
        )

    def _remove(self, path: Path) -> bool:
        try:
            self._disk.unlink(path)
        except OSError as exc:
            _log.warning("cannot remove %s: %s; the next start does", path, exc)
            return False
        return True

    def _done(self, jobs: Sequence[Job]) -> None:
        records = [job for job in jobs if isinstance(job, RecordJob)]
        if records:
            self._finish(records, None, self._generation)
        for job in jobs:
            if isinstance(job, CopyJob):
                job.done(None)

    def _refuse(self, jobs: Sequence[Job], reason: Callable[[], HedwigError]) -> None:
        records = [job for job in jobs if isinstance(job, RecordJob)]
        if records:
            self._finish(records, reason(), self._generation)
        for job in jobs:
            if isinstance(job, CopyJob):
                job.done(reason())


def _records(jobs: Sequence[Job]) -> Iterator[NewRecord]:
    for job in jobs:
        if isinstance(job, CopyJob):
            yield from job.records
        elif job.record is not None:
            yield job.record
