"""The ledger store of a hub with a shared log: virtual ledgers in it, beside ledgers of the store below.

The id of a ledger says which of both it is. So one topic may have both kinds, and one code serves them.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final, Self, TypeAlias, TypeVar

from hedwig.clock import Clock
from hedwig.concurrency.keyed_work import KeyedWork
from hedwig.errors import (
    CorruptEntryError,
    HedwigError,
    InvalidArgumentError,
    LedgerClosedError,
    LedgerFencedError,
    LedgerStoreClosedError,
    LedgerStoreUnavailableError,
    NoSuchLedgerError,
    ServiceDownError,
)
from hedwig.hub.ledgers.shared.entries.runs import Run
from hedwig.hub.ledgers.shared.held_record import HeldRecord
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.reads.entry_cache import batch_cache
from hedwig.hub.ledgers.shared.reads.following_runs import RUNS_MAX, FollowingRuns
from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader
from hedwig.hub.ledgers.shared.recovery import shut_out
from hedwig.hub.ledgers.shared.upkeep import LogUpkeep
from hedwig.hub.ledgers.shared.writer import LogWriter, UnsealedSegment
from hedwig.hub.ledgers.store import InDoubt, LedgerStore, LedgerStoreStats, LogCounters
from hedwig.metadata.logs.record import LogRecord, LogState
from hedwig.metadata.logs.records import LogRecords
from hedwig.metadata.logs.virtual_ids import is_virtual, log_of, slot_of, virtual_id
from hedwig.model import HubInfo

__all__ = ["BeginLog", "IsAlive", "SharedLedgerStore", "Shares"]

T = TypeVar("T")

IsAlive: TypeAlias = Callable[[HubInfo], Awaitable[bool]]
Shares: TypeAlias = Callable[[bytes | None], bool]
"""Says whether a topic has its new ledgers in the log of its hub."""

BeginLog: TypeAlias = Callable[[], Awaitable[LogRecord | None]]
"""Makes the record of a new log of this hub, and returns it; None if this hub writes no log."""

_RECORDS_KEPT_MAX: Final = 4096
"""How many records of other logs the store keeps. One has 72 KB if its log has 100 GB."""

_SEGMENTS_MAX: Final = 16
"""In how many segments the entries of a ledger are. It bounds what its reader looks at, and what an open one pins."""

_CLOSED_KEPT_MAX: Final = 10_000
"""Of how many ledgers the store knows that they were closed, and not fenced."""


class SharedLedgerStore:
    """A LedgerStore whose new ledgers are virtual ones in the log of this hub. Use `with_log` to make one.

    It makes no ledgers below itself but the segments of its log, and those of topics that do not share it. Ledgers of
    other kinds, and virtual ones in the logs of other hubs, are read, and deleted.
    """

    def __init__(
        self,
        ledgers: LedgerStore,
        records: LogRecords,
        begin: BeginLog | None,
        clock: Clock,
        options: SharedLogOptions,
        is_alive: IsAlive,
        shares: Shares | None,
        on_over: Callable[[HedwigError], object],
    ) -> None:
        self._ledgers = ledgers
        self._clock = clock
        self._options = options
        self._records = records
        self._begin = begin
        """Makes the record of the log; None if this store writes none."""
        self._writer: LogWriter | None = None
        """None until the log is begun."""
        self._beginning = asyncio.Lock()
        self._is_alive = is_alive
        self._shares = shares
        self._on_over = on_over
        self._cache = batch_cache(options.cache_bytes_max)
        self._reader = SegmentReader(ledgers, self._cache)
        self._following = FollowingRuns()
        self._counters = LogCounters()
        self._others: OrderedDict[int, LogRecord] = OrderedDict()
        """The records of the logs of other hubs, as they were when they were read last."""
        self._shutting_out: KeyedWork[int, LogRecord | None] = KeyedWork(LedgerStoreClosedError)
        """The logs that are being shut out, whoever asked for it."""
        self._closed: OrderedDict[int, None] = OrderedDict()
        """The slots that were closed last."""
        self._is_closed = False
        self._shutdown: asyncio.Future[None] | None = None

    @classmethod
    def with_log(
        cls,
        ledgers: LedgerStore,
        records: LogRecords,
        begin: BeginLog,
        clock: Clock,
        options: SharedLogOptions,
        *,
        is_alive: IsAlive,
        shares: Shares | None = None,
        on_over: Callable[[HedwigError], object] = lambda _: None,
    ) -> Self:
        """Return a store that writes a log, from the first `begin_log` on. It closes `ledgers` as it closes.

        Args: begin - makes the record of the log; is_alive - says whether an incarnation is alive, and raises
            ServiceDownError if nobody can tell; shares - says whether a topic has its ledgers in the log, None: each
            has; on_over - called once if another hub shuts this log out.
        """
        return cls(ledgers, records, begin, clock, options, is_alive, shares, on_over)

    @classmethod
    async def open(
        cls,
        ledgers: LedgerStore,
        records: LogRecords,
        hub: HubInfo,
        clock: Clock,
        options: SharedLogOptions,
        *,
        is_alive: IsAlive,
        shares: Shares | None = None,
        on_over: Callable[[HedwigError], object] = lambda _: None,
    ) -> Self:
        """Return a store that writes a log of the incarnation `hub`, begun already. Raises: MetadataError."""
        begin = partial(records.create, hub, is_alone=shares is None)
        store = cls.with_log(ledgers, records, begin, clock, options, is_alive=is_alive, shares=shares, on_over=on_over)
        await store.begin_log()
        return store

    @classmethod
    def without_log(
        cls, ledgers: LedgerStore, records: LogRecords, clock: Clock, options: SharedLogOptions, *, is_alive: IsAlive
    ) -> Self:
        """Return a store that writes no log, but reads those of other hubs. All its new ledgers are in `ledgers`."""
        return cls(ledgers, records, None, clock, options, is_alive, None, lambda _: None)

    @property
    def log(self) -> int | None:
        """The number of the log that this store writes; None if it writes none, or has not begun it."""
        return None if self._writer is None else self._writer.number

    async def begin_log(self) -> int | None:
        """Begin the log, unless it is begun, and return its number; None if this store writes none.

        Its ledgers follow by themselves. So a hub can name its log in an owner record while no bookie is there, and a
        hub that claims nothing writes nothing. Raises: MetadataError; ServiceDownError.
        """
        async with self._beginning:
            self._check_open()
            if self._begin is not None and self._writer is None:
                # If this fails or is cancelled, a record without ledgers may be left. It goes once this hub is dead.
                record = await self._begin()
                self._check_open()
                if record is None:
                    self._begin = None
                else:
                    self._writer = LogWriter(
                        self._ledgers,
                        HeldRecord(self._records, record),
                        self._cache,
                        self._reader,
                        self._clock,
                        self._options,
                        self._counters,
                        self._on_over,
                    )
        return self.log

    async def shut_out(self, log: int) -> bool:
        """Shut the writer of another log out, for good, before any topic of it is claimed. See `recovery.shut_out`.

        Return whether its hub can append nothing now. If not, it may have ledgers outside of the log, or the log has no
        record.

        Raises: MetadataError; LedgerError - the writer may be shut out, so repeat it.
        """
        self._check_open()
        record = await self._shut_out(log)
        return record is not None and record.is_alone

    async def _shut_out(self, log: int) -> LogRecord | None:
        known = self._others.get(log)
        if known is not None and known.state is LogState.CLOSED:
            return known
        return await self._shutting_out.join(log, partial(self._recover, log))

    async def _recover(self, log: int) -> LogRecord | None:
        began = self._clock.monotonic()
        record = await self._records.read(log)
        if record is not None and record.state is not LogState.CLOSED:
            record = await shut_out(self._ledgers, self._records, log)
            self._counters.recoveries += 1
            self._counters.recovery_s += self._clock.monotonic() - began
        if record is not None:
            self._keep(record)
        return record

    async def closed_if_dead(self, record: LogRecord) -> LogRecord | None:
        """Return the record of a log, closed unless its hub is alive; None if it is gone. Raises: as `shut_out`."""
        if await self._may_be_alive(record.hub):
            return record
        self._others.pop(record.number, None)  # An import may have brought the open log back.
        return await self._shut_out(record.number)

    async def sweep(self, record: LogRecord, is_live: Callable[[int], bool]) -> LogRecord:
        """Free what is not live in the segments of `record`, and return the record then.

        Args: is_live - says whether a slot with records in these segments is needed. One that is not never is again.
        Raises: LogTakenOverError - the log was closed meanwhile, or ranges were imported; MetadataError; LedgerError.
        """
        upkeep, held = self._upkeep(record, is_live)
        await upkeep.read_uses()
        return await self._kept_up(upkeep, held)

    async def free(self, record: LogRecord) -> LogRecord:
        """Free all of a closed log, though its ledgers may be gone, and return the record then. Raises: as `sweep`."""
        upkeep, held = self._upkeep(record, lambda _: False)
        await upkeep.drop_all()
        return await self._kept_up(upkeep, held)

    def _upkeep(self, record: LogRecord, is_live: Callable[[int], bool]) -> tuple[LogUpkeep, HeldRecord]:
        held = HeldRecord(self._records, record, is_judged=True)
        upkeep = LogUpkeep(self._ledgers, self._reader, held, self._clock, self._options, self._counters, is_live)
        return upkeep, held

    async def _kept_up(self, upkeep: LogUpkeep, held: HeldRecord) -> LogRecord:
        while await upkeep.step():
            self._check_open()
        return held.present

    # --------------------------------------------------------------------------------------------- LedgerStore

    async def create(self, about: Mapping[str, bytes] | None = None, in_doubt: InDoubt | None = None) -> int:
        self._check_open()
        is_shared = self._shares is None or self._shares((about or {}).get("topic"))
        if not is_shared or await self.begin_log() is None:
            return await self._ledgers.create(about, in_doubt)
        assert self._writer is not None, "its log has begun"
        return virtual_id(self._writer.number, self._writer.create())

    async def undo(self, ledger_id: int, token: int) -> None:
        self._check_open()
        if not is_virtual(ledger_id):
            await self._ledgers.undo(ledger_id, token)

    def start_append(self, ledger_id: int, entry_id: int, payload: bytes) -> "asyncio.Future[None]":
        if not is_virtual(ledger_id):
            return self._ledgers.start_append(ledger_id, entry_id, payload)
        writer = self._writer_of(ledger_id)
        append = None if writer is None else writer.start_append(slot_of(ledger_id), entry_id, payload)
        if append is not None:
            return append
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_exception(self._why_refused(ledger_id))
        return future

    async def append(self, ledger_id: int, entry_id: int, payload: bytes) -> None:
        await self.start_append(ledger_id, entry_id, payload)

    async def open_and_fence(self, ledger_id: int) -> int:
        self._check_open()
        if not is_virtual(ledger_id):
            return await self._ledgers.open_and_fence(ledger_id)
        writer = self._writer_of(ledger_id)
        return await (self._last_of_closed(ledger_id) if writer is None else self._end(writer, ledger_id))

    async def close(self, ledger_id: int) -> int:
        self._check_open()
        if not is_virtual(ledger_id):
            return await self._ledgers.close(ledger_id)
        writer = self._writer_of(ledger_id)
        if writer is None:
            return await self._last_of_closed(ledger_id)
        self._closed[slot_of(ledger_id)] = None
        if len(self._closed) > _CLOSED_KEPT_MAX:
            self._closed.popitem(last=False)
        return await self._end(writer, ledger_id)

    def is_spread(self, ledger_id: int) -> bool:
        if not is_virtual(ledger_id):
            return self._ledgers.is_spread(ledger_id)
        writer = self._writer_of(ledger_id)
        return writer is not None and writer.segments_of(slot_of(ledger_id)) >= _SEGMENTS_MAX

    def is_settled(self, ledger_ids: Collection[int]) -> bool:
        writer = self._writer
        return writer is None or (
            not any(writer.is_open(slot) for slot in self._own_slots(ledger_ids))
            and writer.last_unsealed(self._own_slots(ledger_ids)) is None
        )

    async def settle(self, ledger_ids: Collection[int]) -> None:
        writer = self._writer
        if writer is None:
            return
        segment = writer.last_unsealed(self._own_slots(ledger_ids))
        if segment is not None:
            # Segments are sealed in order, so those before it are sealed then, too.
            await writer.sealed(segment)

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        if first_entry_id < 0 or entries_max < 1:
            raise InvalidArgumentError("reading begins at entry 0 or later, and takes at least one entry")
        self._check_open()
        if not is_virtual(ledger_id):
            return await self._ledgers.read(ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)
        slot = slot_of(ledger_id)

        async def payloads(record: LogRecord) -> list[bytes]:
            runs = self._following.take(ledger_id, first_entry_id)
            runs = runs or await self._runs_from(ledger_id, first_entry_id, record)
            if not runs:
                return []
            payloads = await self._reader.payloads(slot, first_entry_id, runs, entries_max, bytes_max)
            self._following.keep(ledger_id, runs, first_entry_id + len(payloads))
            return payloads

        return await self._with_record(ledger_id, payloads)

    async def bytes_from(self, ledger_id: int, first_entry_id: int, *, enough: int) -> int:
        self._check_open()
        if not is_virtual(ledger_id):
            return await self._ledgers.bytes_from(ledger_id, first_entry_id, enough=enough)
        size, following = 0, first_entry_id
        while size <= enough:
            runs = await self._with_record(ledger_id, partial(self._runs_from, ledger_id, following))
            if not runs:
                break
            for ledger, run in runs:
                size += run.size if run.first >= following else await self._bytes_in(ledger, run, following)
            following = runs[-1][1].last + 1
        return size

    async def _bytes_in(self, ledger: int, run: Run, first: int) -> int:
        """Return how many bytes the payloads of a run from entry `first` on have; of all, if its batch is lost."""
        try:
            found = await self._reader.payloads(run.slot, first, [(ledger, run)], run.entries, run.size)
        except CorruptEntryError:
            return run.size
        return sum(map(len, found))

    async def last_entry_id(self, ledger_id: int) -> int:
        self._check_open()
        if not is_virtual(ledger_id):
            return await self._ledgers.last_entry_id(ledger_id)
        return await self._last(ledger_id)

    def let_go(self, ledger_id: int) -> None:
        if not is_virtual(ledger_id):
            self._ledgers.let_go(ledger_id)
        elif (writer := self._writer_of(ledger_id)) is not None:
            writer.let_go(slot_of(ledger_id))

    async def delete(self, ledger_id: int) -> None:
        self._check_open()
        if not is_virtual(ledger_id):
            await self._ledgers.delete(ledger_id)
        elif (writer := self._writer_of(ledger_id)) is not None:
            writer.delete(slot_of(ledger_id))

    async def ledgers(self) -> AsyncIterator[int]:
        """Yield the ids of all ledgers but the segments of logs, ascending.

        It leaves out virtual ledgers without entries that are not open here. It includes those that were deleted by
        others, as long as a segment holds their entries.
        """
        logs = [number async for number in self._records.numbers()]
        records = [record for number in logs if (record := await self._records.read(number)) is not None]
        segments = {ledger for record in records for ledger in record.ledgers}
        async for ledger_id in self._ledgers.ledgers():
            if ledger_id not in segments:
                yield ledger_id
        for record in records:
            for slot in await self._slots(record):
                yield virtual_id(record.number, slot)

    async def stats(self) -> LedgerStoreStats:
        """Return what the store holds: the bytes are those of its log."""
        below = await self._ledgers.stats()
        counters, batches, writer = self._counters, self._reader.batches, self._writer
        counters.read_batches, counters.read_batch_bytes = batches.entries, batches.size
        if writer is None:
            return replace(below, log=counters)
        return LedgerStoreStats(
            ledgers=None,
            open_ledgers=len(writer.open_slots()) + max(0, below.open_ledgers - writer.open_ledgers),
            segments=len(writer.record.segments) + len(writer.record.listed),
            stored_bytes=writer.stored_bytes,
            live_bytes=writer.live_bytes,
            queued_bytes=below.queued_bytes + writer.waiting_bytes,
            damage_count=None,
            is_full=below.is_full,
            log=counters,
        )

    async def largest(self, count: int) -> dict[int, int]:
        """Return the ledgers in this hub's log with most bytes, and these bytes; see LogUpkeep."""
        writer = self._writer
        if writer is None:
            return {}
        log, slots = writer.number, await writer.largest(count)
        return {virtual_id(log, slot): size for slot, size in slots.items()}

    async def mean_bytes(self, log: int) -> float:
        """Return how many bytes a message in a log has on average, maybe as some time ago. Raises: MetadataError."""
        record = self._others.get(log) or await self._records.read(log)
        segments = () if record is None else record.segments
        records = sum(each.records for each in segments)
        return sum(each.size for each in segments) / records if records else 0.0

    async def aclose(self) -> None:
        """Finish the appends under way, and close the log. May be called twice."""
        self._is_closed = True
        if self._shutdown is None:
            self._shutdown = asyncio.ensure_future(self._shut_down())
        # The shutdown ends even if this caller is cancelled.
        await asyncio.shield(self._shutdown)

    async def _shut_down(self) -> None:
        await self._shutting_out.aclose()
        try:
            if self._writer is not None:
                await self._writer.aclose()
        finally:
            await self._reader.aclose()
            await self._ledgers.aclose()

    async def abandon(self) -> None:
        """Write nothing from now on, for a hub that may be shut out already. The caller ends the store below."""
        self._is_closed = True
        await self._shutting_out.aclose()
        if self._writer is not None:
            await self._writer.abandon()
        await self._reader.aclose()

    # ------------------------------------------------------------------------------------------------- inside

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerStoreClosedError()

    def _writer_of(self, ledger_id: int) -> LogWriter | None:
        """Return the writer of a virtual ledger, None if it is in the log of another hub."""
        writer = self._writer
        return writer if writer is not None and log_of(ledger_id) == writer.number else None

    def _own_slots(self, ledger_ids: Collection[int]) -> Iterator[int]:
        for ledger_id in ledger_ids:
            if is_virtual(ledger_id) and self._writer_of(ledger_id) is not None:
                yield slot_of(ledger_id)

    def _why_refused(self, ledger_id: int) -> HedwigError:
        """Return why no append to a virtual ledger can be taken that is not open for append."""
        if self._is_closed:
            return LedgerStoreClosedError()
        writer = self._writer_of(ledger_id)
        if writer is None:
            return LedgerFencedError(f"ledger {ledger_id} is in the log of another hub: make a new one")
        slot = slot_of(ledger_id)
        if not writer.has(slot):
            return NoSuchLedgerError(f"there is no ledger {ledger_id}")
        if slot in self._closed:
            return LedgerClosedError(f"ledger {ledger_id} is closed: make a new one")
        return LedgerFencedError(f"ledger {ledger_id} is not open for append here: make a new one")

    async def _end(self, writer: LogWriter, ledger_id: int) -> int:
        """Take no more appends to a ledger of this log; return its last entry id."""
        slot = slot_of(ledger_id)
        if not writer.has(slot):
            raise NoSuchLedgerError(f"there is no ledger {ledger_id}")
        last_entry_id = await writer.end(slot)
        return await self._last(ledger_id) if last_entry_id is None else last_entry_id

    async def _last_of_closed(self, ledger_id: int) -> int:
        """Return the last entry id of a ledger in the log of another hub. Shut that hub out if it is dead."""
        number = log_of(ledger_id)
        record = self._others.get(number)
        if record is None or record.state is not LogState.CLOSED:
            record = await self._records.read(number)
        if record is not None and record.state is not LogState.CLOSED:
            if await self._may_be_alive(record.hub):
                # To shut it out would end it for all its topics.
                raise LedgerStoreUnavailableError(
                    f"ledger {ledger_id} is open in log {record.number} of hub {record.hub.address}, which is alive"
                )
            record = await self._shut_out(number)
        if record is None:
            if number < await self._records.count():
                # The sweep has removed the log when no range named it. So this range came late, and its hub has
                # acknowledged nothing in it.
                return -1
            raise NoSuchLedgerError(f"there has never been a log {number}, and so no ledger {ledger_id}")
        # Not by the record that is kept: another read may have begun before the log was closed.
        return await self._last(ledger_id, record)

    async def _may_be_alive(self, hub: HubInfo) -> bool:
        try:
            return await self._is_alive(hub)
        except ServiceDownError as exc:
            raise LedgerStoreUnavailableError(f"it is not known whether hub {hub.address} is alive: {exc}") from exc

    async def _record(self, ledger_id: int, *, is_fresh: bool = False) -> LogRecord:
        """Return the record of the log of a virtual ledger. Raises: NoSuchLedgerError - it has none."""
        writer = self._writer_of(ledger_id)
        if writer is not None:
            if not writer.has(slot_of(ledger_id)):
                raise NoSuchLedgerError(f"there is no ledger {ledger_id}")
            if is_fresh:
                await writer.held.read_again()
            return writer.record
        number = log_of(ledger_id)
        record = None if is_fresh else self._others.get(number)
        if record is None:
            record = await self._records.read(number)
            if record is None:
                self._others.pop(number, None)
                raise NoSuchLedgerError(f"there is no log {number}, and so no ledger {ledger_id}")
            self._keep(record)
        return record

    async def _with_record(
        self, ledger_id: int, use: Callable[[LogRecord], Awaitable[T]], record: LogRecord | None = None
    ) -> T:
        """Return what `use` returns for the record of the log of a virtual ledger, at first for `record` if given.

        If it misses a ledger, that segment may have been merged with others. Then the record says so.
        """
        try:
            return await use(record or await self._record(ledger_id))
        except NoSuchLedgerError:
            return await use(await self._record(ledger_id, is_fresh=True))

    def _keep(self, record: LogRecord) -> None:
        self._others[record.number] = record
        self._others.move_to_end(record.number)
        if len(self._others) > _RECORDS_KEPT_MAX:
            self._others.popitem(last=False)

    def _may_lack_segments(self, record: LogRecord) -> bool:
        """Say whether another hub may have sealed a segment since the record was read."""
        writer = self._writer
        is_own = writer is not None and record.number == writer.number
        return not is_own and record.state is not LogState.CLOSED

    def _unsealed(self, record: LogRecord) -> list[UnsealedSegment]:
        """Return the segments of this hub's log that the record does not name as sealed yet."""
        writer = self._writer
        return writer.unsealed() if writer is not None and record.number == writer.number else []

    async def _runs_from(self, ledger_id: int, first: int, record: LogRecord) -> Sequence[tuple[int, Run]]:
        """Return as `_runs`, by the present record of another hub's log if `record` lacks the entry."""
        runs = await self._runs(record, slot_of(ledger_id), first)
        if not runs and self._may_lack_segments(record):
            record = await self._record(ledger_id, is_fresh=True)
            runs = await self._runs(record, slot_of(ledger_id), first)
        return runs

    async def _runs(self, record: LogRecord, slot: int, first: int) -> Sequence[tuple[int, Run]]:
        """Return some runs of a slot from entry `first` on, with the ledger of their batches.

        They are in one segment, the first that has any. It returns none only if there are none.
        """
        unsealed = self._unsealed(record)  # Taken before any wait, together with the record.
        for segment in record.segments:
            if segment.lowest_slot <= slot <= segment.highest_slot:
                runs = await self._reader.runs(segment, slot, first)
                if runs:
                    return [(segment.ledger, run) for run in runs]
        for each in unsealed:
            runs = list(islice(each.runs.following(slot, first), RUNS_MAX))
            if runs:
                return [(each.ledger, run) for run in runs]
        return []

    async def _last(self, ledger_id: int, record: LogRecord | None = None) -> int:
        slot = slot_of(ledger_id)

        async def last(record: LogRecord) -> int:
            if self._may_lack_segments(record):
                record = await self._record(ledger_id, is_fresh=True)
            for each in reversed(self._unsealed(record)):
                if (run := each.runs.last_of(slot)) is not None:
                    return run.last
            for segment in reversed(record.segments):
                if segment.lowest_slot <= slot <= segment.highest_slot:
                    run = await self._reader.last_run(segment, slot)
                    if run is not None:
                        return run.last
            return -1

        return await self._with_record(ledger_id, last, record)

    async def _slots(self, record: LogRecord) -> list[int]:
        slots: set[int] = set()
        for segment in record.segments:
            async for block in self._reader.blocks(segment):
                slots.update(block.slots)
        writer = self._writer
        if writer is not None and record.number == writer.number:
            for each in writer.unsealed():
                slots.update(fields[0] for fields in each.runs.in_order())
            slots.update(writer.open_slots())
            slots = set(filter(writer.has, slots))
        return sorted(slots)
