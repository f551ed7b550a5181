"""The local ledger store, for asyncio callers. A writer, an upkeep and a few reading threads do the work."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from hedwig.errors import (
    EntryOrderError,
    HedwigError,
    InvalidArgumentError,
    LedgerClosedError,
    LedgerFencedError,
    LedgerStoreClosedError,
    LedgerStoreFullError,
    LedgerStoreUnavailableError,
    NoSuchLedgerError,
)
from hedwig.hub.ledgers.local.backlog import Backlog
from hedwig.hub.ledgers.local.jobs import NewRecord, RecordJob, WriteQueue
from hedwig.hub.ledgers.local.options import LocalLedgerOptions
from hedwig.hub.ledgers.local.recovery import recover
from hedwig.hub.ledgers.local.segments.catalog import Catalog
from hedwig.hub.ledgers.local.segments.directory import StoreDirectory
from hedwig.hub.ledgers.local.segments.disk import Disk
from hedwig.hub.ledgers.local.segments.reading import LedgerEnd, Reader
from hedwig.hub.ledgers.local.segments.records import SegmentRecordKind
from hedwig.hub.ledgers.local.segments.reserve import Reserve
from hedwig.hub.ledgers.local.upkeep import Upkeep
from hedwig.hub.ledgers.local.writer import Writer
from hedwig.hub.ledgers.store import InDoubt, LedgerStoreStats

__all__ = ["LocalLedgerStore"]

T = TypeVar("T")

_ID_MAX: Final = (1 << 63) - 1


class LocalLedgerStore:
    """A LedgerStore in one directory, for one event loop. No other store can open the directory meanwhile.

    A ledger open for append costs an entry in a dictionary, any other a byte or two. No ledger costs a descriptor.
    """

    def __init__(
        self, directory: StoreDirectory, options: LocalLedgerOptions, disk: Disk, source: random.Random
    ) -> None:
        """Recover the directory and set the threads up. It blocks, so callers use `open`."""
        recovered = recover(directory, disk)
        self._directory = directory
        self._options = options
        self._catalog: Catalog = recovered.catalog
        self._reserve = Reserve(directory.reserve, options.reserve, disk)
        queue = WriteQueue()
        self._upkeep = Upkeep(directory, self._catalog, options, disk, self._reserve, queue.put)
        self._writer = Writer(
            directory,
            self._catalog,
            options,
            disk,
            self._reserve,
            queue,
            self._upkeep,
            next_number=recovered.next_number,
            previous=recovered.previous,
            finish=self._finish_soon,
            source=source,
        )
        for segment in recovered.unplaced:
            self._upkeep.rolled(segment)
        self._reader: Reader = self._upkeep.reader
        self._readers = ThreadPoolExecutor(options.read_threads, thread_name_prefix="hedwig-ledgers-reader")
        self._next_ledger_id = self._catalog.next_ledger_id
        self._next: dict[int, int] = {}
        """The ledgers open for append, each with its next entry id."""
        self._shutting: dict[int, SegmentRecordKind] = {}
        self._generation = 0
        self._outstanding: dict[RecordJob, None] = {}
        """The jobs that the writer has, in the order in which it got them."""
        self._queued_bytes = 0
        self._backlog = Backlog()
        self._reads = asyncio.Semaphore(options.reads_in_flight_max)
        self._closing = False
        self._closed: asyncio.Event | None = None

    @classmethod
    async def open(
        cls,
        path: Path,
        options: LocalLedgerOptions | None = None,
        disk: Disk | None = None,
        source: random.Random | None = None,
    ) -> Self:
        """Open the directory, made if it is missing, and recover it after the last process ended or crashed.

        `source` draws the salts of segments; the default is the system's random source.

        Raises: LedgerStoreLockedError - another process has it; ConfigurationError - it cannot be used, or has a newer
            format; CorruptEntryError - its newest segment is unreadable, so that ids could be given twice;
            LedgerStoreUnavailableError - its files cannot be read or written.
        """
        opened = await asyncio.to_thread(
            cls._open, path, options or LocalLedgerOptions(), disk or Disk(), source or random.SystemRandom()
        )
        opened._loop = asyncio.get_running_loop()
        opened._writer.start()
        opened._upkeep.start()
        return opened

    @classmethod
    def _open(cls, path: Path, options: LocalLedgerOptions, disk: Disk, source: random.Random) -> Self:
        directory = StoreDirectory(path)
        try:
            return cls(directory, options, disk, source)
        except OSError as exc:
            directory.unlock()
            raise LedgerStoreUnavailableError(f"cannot open the ledgers in {path}: {exc}") from exc
        except BaseException:
            directory.unlock()
            raise

    _loop: asyncio.AbstractEventLoop

    def give_ids_from(self, ledger_id: int) -> None:
        """Give new ledgers ids of at least `ledger_id`, so that they share no id with ledgers of another store."""
        self._next_ledger_id = max(self._next_ledger_id, ledger_id)

    async def create(
        self,
        about: Mapping[str, bytes] | None = None,  # noqa: ARG002 (no room for it in records)
        in_doubt: InDoubt | None = None,
    ) -> int:
        ledger_id = self._next_ledger_id
        self._next_ledger_id += 1
        try:
            await self._put(NewRecord(SegmentRecordKind.CREATE, ledger_id, 0, b""))
        except BaseException as exc:
            if in_doubt is not None and not (isinstance(exc, HedwigError) and exc.happened == "no"):
                in_doubt(ledger_id, 0)
            raise
        self._next[ledger_id] = 0
        return ledger_id

    async def undo(self, ledger_id: int, token: int) -> None:  # noqa: ARG002 (nobody else makes ledgers here)
        await self._put(None)
        await self.delete(ledger_id)

    def start_append(self, ledger_id: int, entry_id: int, payload: bytes) -> "asyncio.Future[None]":
        if self._next.get(ledger_id) != entry_id:
            return self._loop.create_task(self._refuse_append(ledger_id, entry_id))
        job = RecordJob(NewRecord(SegmentRecordKind.ENTRY, ledger_id, entry_id, payload), self._loop.create_future())
        try:
            if len(payload) > self._options.entry_bytes_max:
                raise InvalidArgumentError(
                    f"an entry of {len(payload)} bytes is too large for ledger {ledger_id}; "
                    f"the maximum is {self._options.entry_bytes_max}"
                )
            self._submit(job)
        except HedwigError as exc:
            job.fail(exc)
        else:
            self._next[ledger_id] = entry_id + 1
            if job.generation is None:  # Only a job that waits for room can still be withdrawn.
                job.future.add_done_callback(partial(self._withdraw_cancelled, job))
        return job.future

    async def append(self, ledger_id: int, entry_id: int, payload: bytes) -> None:
        await self.start_append(ledger_id, entry_id, payload)

    async def _refuse_append(self, ledger_id: int, entry_id: int) -> None:
        raise await self._why_refused(ledger_id, entry_id)

    def _withdraw_cancelled(self, job: RecordJob, future: "asyncio.Future[None]") -> None:
        if future.cancelled():
            self._withdraw(job)

    async def close(self, ledger_id: int) -> int:
        return await self._seal(ledger_id, SegmentRecordKind.CLOSE)

    def let_go(self, ledger_id: int) -> None:
        self._next.pop(ledger_id, None)

    def is_spread(self, ledger_id: int) -> bool:  # noqa: ARG002 (each ledger is one part)
        return False

    def is_settled(self, ledger_ids: Collection[int]) -> bool:  # noqa: ARG002 (each ledger is shut out for itself)
        return True

    async def settle(self, ledger_ids: Collection[int]) -> None:
        pass

    async def open_and_fence(self, ledger_id: int) -> int:
        return await self._seal(ledger_id, SegmentRecordKind.FENCE)

    async def delete(self, ledger_id: int) -> None:
        self._next.pop(ledger_id, None)
        if self._catalog.has(ledger_id):
            await self._put(NewRecord(SegmentRecordKind.DELETE, ledger_id, 0, b""))

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        if first_entry_id < 0 or entries_max < 1:
            raise InvalidArgumentError(
                f"cannot read {entries_max} entries of ledger {ledger_id} from {first_entry_id} on"
            )
        if first_entry_id >= _ID_MAX:
            return []
        return await self._ask(lambda: self._reader.read(ledger_id, first_entry_id, entries_max, bytes_max))

    async def bytes_from(self, ledger_id: int, first_entry_id: int, *, enough: int) -> int:
        return await self._ask(lambda: self._reader.bytes_from(ledger_id, first_entry_id, enough))

    async def last_entry_id(self, ledger_id: int) -> int:
        return (await self._state(ledger_id)).last_entry_id

    async def ledgers(self) -> AsyncIterator[int]:
        with self._catalog.lock:
            groups = self._catalog.groups()
        for group in groups:
            with self._catalog.lock:
                ledger_ids = self._catalog.group_ledgers(group)
            for ledger_id in ledger_ids:
                yield ledger_id

    async def stats(self) -> LedgerStoreStats:
        with self._catalog.lock:
            segments = [*self._catalog.placed.values(), *self._catalog.unplaced.values()]
            young = sum(segment.end for segment in self._catalog.unplaced.values())
            return LedgerStoreStats(
                ledgers=self._catalog.ledgers,
                open_ledgers=len(self._next),
                segments=len(segments),
                stored_bytes=sum(segment.end for segment in segments),
                live_bytes=young + sum(segment.live_bytes for segment in self._catalog.placed.values()),
                queued_bytes=self._queued_bytes,
                damage_count=self._catalog.damage_count,
                is_full=self._reserve.is_missing,
            )

    async def aclose(self) -> None:
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = asyncio.Event()
        self._closing = True
        for job in self._backlog.drop(all_kinds=True):
            job.fail(LedgerStoreClosedError())
        shutdown = asyncio.ensure_future(asyncio.to_thread(self._shut_down))
        shutdown.add_done_callback(self._note_closed)
        # The threads end even if this caller is cancelled. The directory is unlocked only after they end.
        await asyncio.shield(shutdown)

    def _note_closed(self, _: "asyncio.Future[None]") -> None:
        assert self._closed is not None
        self._closed.set()

    def _shut_down(self) -> None:
        self._writer.queue.close()
        self._writer.join()
        self._upkeep.close()
        self._readers.shutdown()
        self._directory.unlock()

    # ------------------------------------------------------------------------------------------------ sealing

    async def _seal(self, ledger_id: int, kind: SegmentRecordKind) -> int:
        self._next.pop(ledger_id, None)
        if not self._catalog.has(ledger_id):
            raise NoSuchLedgerError(f"there is no ledger {ledger_id}")
        self._shutting[ledger_id] = kind
        try:
            if self._outstanding or self._backlog:
                await self._put(None)
            state = await self._state(ledger_id)
            if state.sealed_by is None:
                await self._put(NewRecord(kind, ledger_id, state.last_entry_id + 1, b""))
            return state.last_entry_id
        finally:
            self._shutting.pop(ledger_id, None)

    async def _why_refused(self, ledger_id: int, entry_id: int) -> HedwigError:
        due = self._next.get(ledger_id)
        if due is not None:
            return EntryOrderError(f"entry {entry_id} of ledger {ledger_id} is out of turn: {due} is next")
        if not self._catalog.has(ledger_id):
            return NoSuchLedgerError(f"there is no ledger {ledger_id}")
        sealed_by = self._shutting.get(ledger_id) or (await self._state(ledger_id)).sealed_by
        if sealed_by == SegmentRecordKind.CLOSE:
            return LedgerClosedError(f"ledger {ledger_id} is closed: make a new one")
        return LedgerFencedError(f"ledger {ledger_id} was taken over from its writer: make a new one")

    # ------------------------------------------------------------------------------------------------ reading

    async def _state(self, ledger_id: int) -> LedgerEnd:
        return await self._ask(lambda: self._reader.state(ledger_id))

    async def _ask(self, question: Callable[[], T]) -> T:
        async with self._reads:
            if self._closing:
                raise LedgerStoreClosedError("the ledger store is closed")
            return await self._loop.run_in_executor(self._readers, question)

    # ------------------------------------------------------------------------------------------------ writing

    async def _put(self, record: NewRecord | None) -> None:
        job = RecordJob(record, self._loop.create_future())
        self._submit(job)
        await job.future

    def _submit(self, job: RecordJob) -> None:
        """Pass a job on to the writer, or put it into the backlog until there is room."""
        if self._closing:
            raise LedgerStoreClosedError("the ledger store is closed")
        if self._backlog or not self._has_room(job):
            self._backlog.put(job)
        else:
            self._pass_on(job)

    def _has_room(self, job: RecordJob) -> bool:
        return not self._outstanding or self._queued_bytes + job.cost <= self._options.queue_bytes_max

    def _pass_on(self, job: RecordJob) -> None:
        job.generation = self._generation
        if not self._writer.queue.put(job):
            raise LedgerStoreClosedError("the ledger store ended after a failure; start it again")
        self._outstanding[job] = None
        self._queued_bytes += job.cost

    def _withdraw(self, job: RecordJob) -> None:
        """Drop an append whose caller cancelled it while it waited for room. Later appends to its ledger fail."""
        record = job.record
        if job.generation is not None or record is None or not self._backlog.withdraw(job):
            return
        self._step_back(record)
        for behind in self._backlog.behind(job):
            reason = (
                f"an append to ledger {record.ledger_id} that was before this one was cancelled; nothing was stored"
            )
            behind.fail(EntryOrderError(reason))

    def _step_back(self, record: NewRecord | None) -> None:
        """Make an entry that failed the next one of its ledger, if it is the first that failed."""
        if record is None or record.kind != SegmentRecordKind.ENTRY:
            return
        if self._next.get(record.ledger_id, -1) > record.entry:
            self._next[record.ledger_id] = record.entry

    def _drain_backlog(self) -> None:
        """Pass jobs of the backlog on to the writer while there is room."""
        while (job := self._backlog.first()) is not None and self._has_room(job):
            self._backlog.take()
            try:
                self._pass_on(job)
            except LedgerStoreClosedError as exc:
                job.fail(exc)

    def _finish_soon(self, jobs: Sequence[RecordJob], error: HedwigError | None, generation: int) -> None:
        with suppress(RuntimeError):  # The loop was closed, so no caller waits there any more.
            self._loop.call_soon_threadsafe(self._finish, jobs, error, generation)

    def _finish(self, jobs: Sequence[RecordJob], error: HedwigError | None, generation: int) -> None:
        """Answer jobs. The first answer after a failure of the writer also takes back all jobs behind the failure."""
        if generation != self._generation:
            self._generation = generation
            self._take_back(is_full=isinstance(error, LedgerStoreFullError))
        for job in jobs:
            if self._outstanding.pop(job, job) is job:
                continue  # The writer ended on a defect, and may repeat answers that it has given.
            self._queued_bytes -= job.cost
            if job.future.done():
                continue
            if error is None:
                job.future.set_result(None)
            else:
                job.fail(type(error)(*error.args))
        if self._backlog:
            self._drain_backlog()

    def _take_back(self, *, is_full: bool) -> None:
        """Step back for all appends that the writer refuses or refused, and refuse those in the backlog."""
        for job in self._outstanding:
            if not job.is_upkeep:
                self._step_back(job.record)
        kind = LedgerStoreFullError if is_full else LedgerStoreUnavailableError
        for job in self._backlog.drop(all_kinds=False):
            self._step_back(job.record)
            job.fail(kind("an append before it failed; nothing was stored"))
