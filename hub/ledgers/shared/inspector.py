"""Inspect ledgers in shared logs from outside. Hubs notice nothing: no ledger is fenced, and no record changes.

Of a log that is not closed, the newest ledgers are not sealed. An inspector reads the batches in them as far as readers
can know of them, in the order in which they were written. What it knows of such a log is a second old at most.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hedwig.clock import Clock
from hedwig.concurrency.keyed_lock import KeyedLock
from hedwig.errors import NoSuchLedgerError
from hedwig.hub.ledgers.inspection import LedgerFacts, LedgerInspector, LogShare
from hedwig.hub.ledgers.shared.entries.runs import GrowingRuns, Run
from hedwig.hub.ledgers.shared.reads.entry_cache import batch_cache
from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader, batches_of
from hedwig.metadata.logs.record import LogRecord, LogState
from hedwig.metadata.logs.records import LogRecords
from hedwig.metadata.logs.virtual_ids import is_virtual, log_of, slot_of

__all__ = ["InspectedLedgers", "SharedLedgerInspector"]

T = TypeVar("T")

_CACHE_BYTES_MAX: Final = 64 << 20
_LOGS_MAX: Final = 256
_SEEN_S: Final = 1.0
"""For how long the record of a log that is not closed is not read again."""
_UNSEALED_BYTES_MAX: Final = 256 << 20
"""How much of a ledger that is not sealed is read. It has more only if its hub could not change the log's record."""


class InspectedLedgers:
    """The ledgers of segments, read through a LedgerInspector."""

    def __init__(self, inspector: LedgerInspector) -> None:
        self._inspector = inspector

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        return await self._inspector.read(ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)

    async def last_entry_id(self, ledger_id: int) -> int:
        return (await self._inspector.facts(ledger_id)).last_entry_id


@dataclass(slots=True)
class _Unsealed:
    """What could be seen of a ledger that is not sealed, up to the entry `following`."""

    ledger: int
    runs: GrowingRuns = field(default_factory=GrowingRuns)
    following: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A log at one look. `at` is the time of the look."""

    record: LogRecord
    unsealed: Sequence[_Unsealed]
    at: float


class SharedLedgerInspector:
    """A LedgerInspector of the ledgers in shared logs, and of those that `below` inspects, for one event loop.

    A ledger of a closed log in which nothing was found is empty. So is one of a log that was removed, since no range
    named it then. All calls also raise MetadataError if the record of a log cannot be read.
    """

    def __init__(self, below: LedgerInspector, records: LogRecords, clock: Clock) -> None:
        self._below = below
        self._ledgers = InspectedLedgers(below)
        self._reader = SegmentReader(self._ledgers, batch_cache(_CACHE_BYTES_MAX))
        self._records = records
        self._clock = clock
        self._logs: OrderedDict[int, _Seen] = OrderedDict()
        self._turns = KeyedLock()

    async def facts(self, ledger_id: int) -> LedgerFacts:
        if not is_virtual(ledger_id):
            return await self._below.facts(ledger_id)
        return await self._of_log(ledger_id, self._facts)

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        if not is_virtual(ledger_id):
            return await self._below.read(ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)

        async def payloads(seen: _Seen | None, slot: int) -> list[bytes]:
            runs: list[tuple[int, Run]] = []
            entries = size = 0
            async with aclosing(self._runs(seen, slot, first_entry_id)) as found:
                async for ledger, run in found:
                    runs.append((ledger, run))
                    entries = run.last + 1 - first_entry_id
                    size += run.size
                    if entries >= entries_max or size > bytes_max:
                        break
            return await self._reader.payloads(slot, first_entry_id, runs, entries_max, bytes_max)

        return await self._of_log(ledger_id, payloads)

    async def aclose(self) -> None:
        await self._reader.aclose()
        await self._below.aclose()

    async def _facts(self, seen: _Seen | None, slot: int) -> LedgerFacts:
        last, size = -1, 0
        ledgers: set[int] = set()
        async with aclosing(self._runs(seen, slot, 0)) as found:
            async for ledger, run in found:
                last = run.last
                size += run.size
                ledgers.add(ledger)
        hub = None if seen is None else seen.record.hub
        is_closed = seen is None or seen.record.state is LogState.CLOSED
        return LedgerFacts(
            is_closed=is_closed, last_entry_id=last, stored_bytes=size, share=LogShare(hub, len(ledgers))
        )

    async def _runs(self, seen: _Seen | None, slot: int, first: int) -> AsyncGenerator[tuple[int, Run]]:
        """Yield the runs of a slot from entry `first` on, with the ledgers of their batches."""
        if seen is None:
            return
        following = first
        for segment in seen.record.segments:
            if not segment.lowest_slot <= slot <= segment.highest_slot:
                continue
            while found := await self._reader.runs(segment, slot, following):
                for run in found:
                    yield segment.ledger, run
                    following = run.last + 1
        for each in seen.unsealed:
            for run in each.runs.following(slot, following):
                if run.first > following:
                    return  # Not all batches before it could be seen yet.
                yield each.ledger, run
                following = run.last + 1

    async def _of_log(self, ledger_id: int, use: Callable[[_Seen | None, int], Awaitable[T]]) -> T:
        """Return what `use` returns for the log of a virtual ledger, None for one that was removed, and for the slot.

        If it misses a ledger, that segment may have been merged with others. Then the record says so.
        """
        number, slot = log_of(ledger_id), slot_of(ledger_id)
        seen = await self._look(number)
        try:
            return await use(seen, slot)
        except NoSuchLedgerError:
            again = await self._look(number, instead_of=seen)
        try:
            return await use(again, slot)
        except NoSuchLedgerError as exc:
            text = f"a segment of log {number} is missing, which may have entries of slot {slot}: {exc}"
            raise NoSuchLedgerError(text) from exc

    async def _look(self, number: int, instead_of: _Seen | None = None) -> _Seen | None:
        """Return a log, but not as it was at the look `instead_of`; None if it was removed."""
        async with self._turns.turn(number):
            known = self._logs.get(number)
            if known is not None and known is not instead_of and self._holds(known):
                self._logs.move_to_end(number)
                return known
            at = self._clock.monotonic()
            record = await self._records.read(number)
            if record is None:
                self._logs.pop(number, None)
                if number < await self._records.count():
                    return None
                raise NoSuchLedgerError(f"there has never been a log {number}")
            before = {} if known is None else {each.ledger: each for each in known.unsealed}
            unsealed = [before.get(ledger) or _Unsealed(ledger) for ledger in record.listed]
            for each in unsealed:
                await self._look_on(each)
            seen = self._logs[number] = _Seen(record, unsealed, at)
            self._logs.move_to_end(number)
            if len(self._logs) > _LOGS_MAX:
                self._logs.popitem(last=False)
            return seen

    def _holds(self, seen: _Seen) -> bool:
        return seen.record.state is LogState.CLOSED or self._clock.monotonic() - seen.at < _SEEN_S

    async def _look_on(self, unsealed: _Unsealed) -> None:
        """Read the batches of a ledger that can be seen now, behind those that were seen before."""
        try:
            last = await self._ledgers.last_entry_id(unsealed.ledger)
            batches = batches_of(self._ledgers, unsealed.ledger, last, unsealed.following, on_damaged=lambda _: None)
            async for entry, batch in batches:
                unsealed.runs.add(entry, batch.records())
                unsealed.following = entry + 1
                if unsealed.runs.size > _UNSEALED_BYTES_MAX:
                    return
        except NoSuchLedgerError:
            return  # Its hub has not put anything into it, or the log has gone on without it since.
