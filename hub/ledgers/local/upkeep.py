"""The upkeep of a store: a thread that writes the indexes of full segments and frees the space of deleted ledgers.

It removes a segment without live records, and rewrites one with few. For that, the live records go through the writer
to the active segment. The old file is removed only once they are on stable storage. A crash in between leaves records
twice, which does no harm. A DELETE record stays as long as another segment has any record of that ledger.

The newest segment tells the next ledger id, so it is never removed. If most of it belongs to deleted ledgers, the
upkeep has one of its DELETE records written once more, to a new segment. From then on the old one is like any other.
"""

import errno
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from hedwig.errors import HedwigError
from hedwig.hub.ledgers.local.jobs import CopyJob, NewRecord
from hedwig.hub.ledgers.local.options import LocalLedgerOptions
from hedwig.hub.ledgers.local.segments.catalog import Catalog, Segment
from hedwig.hub.ledgers.local.segments.directory import StoreDirectory
from hedwig.hub.ledgers.local.segments.disk import Disk
from hedwig.hub.ledgers.local.segments.index import DELETE_KEY, MemoryIndex, stored_bytes
from hedwig.hub.ledgers.local.segments.index_file import DamagedIndexError, IndexFacts, write_index
from hedwig.hub.ledgers.local.segments.reading import Reader
from hedwig.hub.ledgers.local.segments.records import RECORD_HEADER_BYTES, SegmentRecordKind
from hedwig.hub.ledgers.local.segments.reserve import Reserve
from hedwig.hub.ledgers.local.segments.scanning import index_segment, scan_segment

__all__ = ["Upkeep", "save_index"]

_log = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 256 << 10
_COPY_WAIT_S: Final = 60.0
_COPY_SLICE_S: Final = 0.05
_RETRY_S: Final = 1.0
_FULL_MAX: Final = 8
_SMALL: Final = 64
"""The newest segment is ended early only once it has 1/N of its usual length, so that it is worth its fsyncs."""
_REST: Final = 4.0
"""After it counts a segment, the thread rests N times as long as that took. This leaves the processor to the hub."""


def save_index(directory: StoreDirectory, catalog: Catalog, disk: Disk, segment: Segment, index: MemoryIndex) -> None:
    """Write the index file of a segment and let the catalog use it. Raises: OSError."""
    facts = IndexFacts(number=segment.number, salt=segment.salt, end=segment.end, next_ledger_id=catalog.next_ledger_id)
    placed = write_index(directory.index(segment.number), facts, index, disk)
    groups = catalog.group_numbers(iter(index.ledger_ids()))
    with catalog.lock:
        if segment in (catalog.unplaced.get(segment.number), catalog.placed.get(segment.number)):
            catalog.mark_placed(segment, placed, groups)
            return
    disk.unlink(directory.index(segment.number))
    raise FileNotFoundError(errno.ENOENT, "the segment was removed", str(segment.path))


class Upkeep:
    """Owns the thread. `copy` hands live records to the writer, and returns False if the writer takes no more."""

    def __init__(
        self,
        directory: StoreDirectory,
        catalog: Catalog,
        options: LocalLedgerOptions,
        disk: Disk,
        reserve: Reserve,
        copy: Callable[[CopyJob], bool],
    ) -> None:
        self.reader = Reader(catalog, self.rebuild)
        self._directory = directory
        self._catalog = catalog
        self._options = options
        self._disk = disk
        self._reserve = reserve
        self._copy = copy
        self._full: deque[Segment] = deque()
        self._rebuilding = threading.Lock()
        self._wake = threading.Condition()
        self._closing = False
        self._is_failing = False
        self._has_ghosts = False
        """Whether the removal of a file failed, so that the file may come back with the next start."""
        self._thread = threading.Thread(target=self._run, name="hedwig-ledgers-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rolled(self, segment: Segment) -> None:
        """Take over a segment that is full; its index is written soon."""
        with self._wake:
            self._full.append(segment)
            self._wake.notify()

    def await_room(self) -> None:
        """Wait while `_FULL_MAX` segments keep their index in memory. Raises: OSError - it cannot be written."""
        with self._wake:
            self._wake.wait_for(lambda: len(self._full) < _FULL_MAX or self._is_failing)
            if len(self._full) >= _FULL_MAX:
                raise OSError(errno.EAGAIN, f"the indexes of {_FULL_MAX} segments cannot be written")

    def close(self) -> None:
        """Write the last indexes and end the thread. The writer must have ended."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()

    def rebuild(self, segment: Segment) -> None:
        """Make the index of a segment anew from its records. Raises: OSError."""
        with self._rebuilding:
            scan = index_segment(segment.path, segment.salt, segment.end, sealed=True)
            with self._catalog.lock:
                for offset in scan.damaged:
                    self._catalog.note_damage(segment.path, offset)
            save_index(self._directory, self._catalog, self._disk, segment, scan.index)

    def _run(self) -> None:
        pause = self._options.upkeep_interval_s
        while True:
            self._pause(pause)
            with self._wake:
                closing = self._closing
            pause = self._options.upkeep_interval_s
            try:
                if not self._write_indexes():
                    pause = min(_RETRY_S, pause)
                if closing:
                    return
                self._reclaim()
            except Exception:
                # Without upkeep no space is freed. After a while the store refuses appends; reads go on.
                _log.exception("the upkeep of %s failed; it tries again", self._directory.path)
                pause = min(_RETRY_S, pause)
                with self._wake:
                    self._is_failing = True
                    self._wake.notify_all()
                if closing:
                    return

    def _pause(self, seconds: float) -> None:
        """Wait for work, at most `seconds`, and watch the reserve meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._reserve.watch()
            with self._wake:
                if self._wake.wait_for(lambda: self._closing or self._has_work(), timeout=min(left, _RETRY_S)):
                    return

    def _rest(self, seconds: float) -> bool:
        """Wait `seconds`, and write indexes meanwhile; return False if the store is being closed."""
        until = time.monotonic() + seconds
        self._reserve.watch()
        while True:
            self._write_indexes()
            with self._wake:
                ready = self._wake.wait_for(lambda: self._closing or self._has_work(), until - time.monotonic())
                if self._closing or not ready:
                    return not self._closing

    def _has_work(self) -> bool:
        return bool(self._full) and not self._is_failing

    def _write_indexes(self) -> bool:
        """Write the index files that are missing; return False if one could not be written."""
        while self._full:
            segment = self._full[0]
            assert isinstance(segment.index, MemoryIndex)
            try:
                save_index(self._directory, self._catalog, self._disk, segment, segment.index)
            except OSError as exc:
                _log.warning("cannot write the index of %s: %s; it stays in memory", segment.path, exc)
                self._note_index(written=False)
                return False
            self._note_index(written=True)
        return True

    def _note_index(self, *, written: bool) -> None:
        with self._wake:
            self._is_failing = not written
            if written:
                self._full.popleft()
            self._wake.notify_all()

    def _reclaim(self) -> None:
        """Remove or rewrite the segments that deserve it."""
        with self._catalog.lock:
            stale = sorted(self._catalog.stale)
        for number in stale:
            began = time.monotonic()
            with self._catalog.lock:
                self._catalog.stale.discard(number)
                segment = self._catalog.placed.get(number)
                active = self._catalog.unplaced.get(number)
            try:
                if segment is not None:
                    self._reconsider(segment)
                elif active is not None:
                    self._reconsider_active(active)
                else:
                    continue
            except DamagedIndexError as exc:
                assert segment is not None, "only a placed one has an index file"
                _log.error("%s; it is made anew", exc)
                self.rebuild(segment)
            except OSError as exc:
                _log.warning("cannot look after segment %d of %s: %s", number, self._directory.path, exc)
            if not self._rest(min(_REST * (time.monotonic() - began), _RETRY_S)):
                return

    def _reconsider(self, segment: Segment) -> None:
        live = tombstones = 0
        deleted: list[int] = []
        shares = segment.index.shares()
        for share in shares:
            with self._catalog.lock:
                exists = self._catalog.exists(share.ledger_id)
            if exists:
                live += share.stored_bytes
            elif share.deleted:
                tombstones += RECORD_HEADER_BYTES
                if len(deleted) < self._options.segment_records_max:
                    deleted.append(share.ledger_id)
        segment.live_bytes = live + tombstones
        most = self._options.rewrite_below * segment.end
        if live > most or segment.tombstones_kept == self._catalog.removals:
            return
        if live + tombstones > most or not live:
            removals = self._catalog.removals
            needed = sum(self._has_traces(ledger_id, segment) for ledger_id in deleted) * RECORD_HEADER_BYTES
            segment.tombstones_kept = removals if needed else -1
            segment.live_bytes = live + needed
            if live + needed > most:
                return
        with self._catalog.lock:
            is_last = segment.number >= max([*self._catalog.placed, *self._catalog.unplaced])
        if segment.damaged and segment.live_bytes:
            return  # Keep it, so that an operator can mend it.
        if is_last and not self._end_last(segment, deleted):
            return
        if not segment.live_bytes or self._rewrite(segment):
            self._remove(segment)

    def _reconsider_active(self, segment: Segment) -> None:
        """End the active segment if most of it belongs to deleted ledgers."""
        if self._is_small(segment):
            return
        index = segment.index
        assert isinstance(index, MemoryIndex), "it is not placed"
        with self._catalog.lock:
            ledger_ids = index.ledger_ids()
        dead = 0
        deleted: list[int] = []
        for ledger_id in ledger_ids:
            with self._catalog.lock:
                rows = [] if self._catalog.exists(ledger_id) else index.ledger_rows(ledger_id)
            if rows and rows[-1][0] == DELETE_KEY:
                deleted.append(ledger_id)
                # `_reconsider` finds out whether its DELETE record is still needed, once the segment has ended.
                rows.pop()
            dead += stored_bytes(rows)
        if segment.end - dead <= self._options.rewrite_below * segment.end:
            self._end_last(segment, deleted)

    def _end_last(self, segment: Segment, deleted: Sequence[int]) -> bool:
        """Have a new segment follow the newest one, which has DELETE records of `deleted`; return whether one does."""
        if not deleted or self._is_small(segment):
            return False
        again = NewRecord(SegmentRecordKind.DELETE, deleted[-1], 0, b"")
        if self._send([again], RECORD_HEADER_BYTES, segment):
            return True
        with self._catalog.lock:
            self._catalog.stale.add(segment.number)
        return False

    def _is_small(self, segment: Segment) -> bool:
        return segment.end < self._options.segment_bytes // _SMALL

    def _rewrite(self, segment: Segment) -> bool:
        """Copy the live records of a segment to the active one; return whether all of them are there."""
        chunk: list[NewRecord] = []
        size = 0
        for record in scan_segment(segment.path, segment.salt, segment.end):
            if not record.intact and (not record.kind or self._catalog.has(record.ledger_id)):
                _log.error("%s is damaged at offset %d and is not rewritten", segment.path, record.offset)
                segment.damaged = True
                with self._catalog.lock:
                    self._catalog.note_damage(segment.path, record.offset)
                return False
            if not self._is_needed(record.ledger_id, record.kind, segment):
                continue
            chunk.append(NewRecord(record.kind, record.ledger_id, record.entry, record.payload))
            size += RECORD_HEADER_BYTES + len(record.payload)
            if size >= _CHUNK_BYTES:
                if not self._send(chunk, size, segment):
                    return False
                chunk, size = [], 0
        return not chunk or self._send(chunk, size, segment)

    def _is_needed(self, ledger_id: int, kind: int, segment: Segment) -> bool:
        if self._catalog.has(ledger_id):
            return True
        return kind == SegmentRecordKind.DELETE and self._has_traces(ledger_id, segment)

    def _has_traces(self, ledger_id: int, segment: Segment) -> bool:
        """Return whether a deleted ledger may have records outside `segment`, so that its DELETE record is needed."""
        return self._has_ghosts or self.reader.holds(ledger_id, segment)

    def _send(self, chunk: list[NewRecord], size: int, leaves: Segment) -> bool:
        """Have the writer write records to another segment, at most at the configured rate; return False on failure."""
        done = threading.Event()
        failures: list[HedwigError] = []

        def finish(error: HedwigError | None) -> None:
            if error is not None:
                failures.append(error)
            done.set()

        if not self._copy(CopyJob(chunk, finish, leaves.number)):
            return False
        until = time.monotonic() + _COPY_WAIT_S
        while not done.wait(_COPY_SLICE_S) and time.monotonic() < until:
            # The writer may be waiting until an index is written.
            self._write_indexes()
        if not done.is_set() or failures:
            _log.warning("cannot rewrite a segment of %s now: %s", self._directory.path, failures or "the disk hangs")
            return False
        return self._rest(size / self._options.rewrite_bytes_per_s)

    def _remove(self, segment: Segment) -> None:
        """Remove the files of a segment that is needed no more. Raises: OSError - the next start finishes it."""
        with self._catalog.lock:
            self._catalog.remove(segment)
        # Remove the index first. A start indexes a segment without one again, but reports an index without a segment
        # as a loss.
        try:
            self._disk.unlink(self._directory.index(segment.number))
            self._disk.unlink(segment.path)
            self._disk.sync_directory(self._directory.path)
        except OSError:
            self._has_ghosts = True
            raise
        _log.debug("removed %s, %d bytes", segment.path, segment.end)
