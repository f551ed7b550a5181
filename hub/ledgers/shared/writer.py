"""The writer of a shared log: batches of the records of all topics, one after the other, past ledgers that fail.

The log is written in segments, each one ledger of the store below. What the writer keeps to, and why acknowledging is
safe:

- It appends only to ledgers that the record of the log lists. So a hub that fences these ledgers has shut it out.
- It sends a batch as soon as few are under way; what arrives meanwhile is the next batch. The store below acknowledges
  batches in order, so the writer acknowledges the records of a slot in order.
- Before it goes on in the next ledger, it waits for the batches under way. So no segment lacks a batch while a later
  segment has one.
- If a ledger fails, it fences that ledger itself, and learns which batches are stored. It acknowledges these, and sends
  the others into the next ledger, which the record lists already. No topic learns of it.
- While it cannot go on, for lack of bookies or of a listed ledger, it refuses what it has not sent. What it has sent
  is in doubt then: it answers so, and finds out later.
- It ends for good only if the record says that another hub shuts it out.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import (
    EntryOrderError,
    HedwigError,
    InvalidArgumentError,
    LedgerError,
    LedgerFencedError,
    LedgerStoreClosedError,
    LedgerStoreFullError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
    NoSuchLedgerError,
)
from hedwig.hub.ledgers.shared.entries.runs import GrowingRuns
from hedwig.hub.ledgers.shared.held_record import HeldRecord, LogTakenOverError
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.reads.entry_cache import BatchCache
from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader
from hedwig.hub.ledgers.shared.sealing import discard, new_ledger, seal_behind_batches, seal_in_own_ledger
from hedwig.hub.ledgers.shared.upkeep import LogUpkeep
from hedwig.hub.ledgers.shared.waiting import Sending, Waiting
from hedwig.hub.ledgers.store import LedgerStore, LogCounters
from hedwig.metadata.logs.record import LogRecord, LogState, Segment
from hedwig.metadata.logs.slot_set import SlotSet
from hedwig.metadata.logs.virtual_ids import FIRST_SLOT, SLOT_MAX

__all__ = ["LogWriter", "UnsealedSegment"]

_log = logging.getLogger(__name__)

_UNDER_WAY_MAX: Final = 4
"""While so many batches are under way, records wait. More would make smaller batches, and cost more than they gain."""
_FIRST_PAUSE_S: Final = 0.1
_LAST_PAUSE_S: Final = 5.0
_CLOSE_LOOK_S: Final = 0.01
_CLOSE_MAX_S: Final = 5.0
"""How long closing may take. Other hubs recover a log that is not closed by then."""


@dataclass(slots=True, eq=False)
class UnsealedSegment:
    """A ledger with batches whose footer is not written."""

    ledger: int
    runs: GrowingRuns = field(default_factory=GrowingRuns)
    next_entry: int = 0
    """The entry id of the next batch."""
    last_entry: int = -1
    """The last batch that was acknowledged."""
    size: int = 0
    """The bytes of all acknowledged batches."""
    is_fenced: bool = False
    """Whether it takes no footer, because it had to be fenced."""
    segment: Segment | None = None
    """Where its footer is, once that is written."""
    sealed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the record names the segment."""


@dataclass(slots=True, eq=False)
class _Slot:
    """A virtual ledger that is open for append."""

    segment: int
    """How many segments had ended when it was given."""
    next: int = 0
    """The entry id of the next append."""
    acknowledged: int = -1
    is_ended: bool = False
    """Whether further appends are refused."""
    is_let_go: bool = False
    """Whether it is forgotten as soon as no append is under way."""
    idle: "asyncio.Future[None] | None" = None
    """Done once no append is under way; None unless somebody waits for that."""


@dataclass(slots=True, eq=False)
class _UnderWay:
    """A batch that was sent, under which entry id, and the outcome."""

    entry: int
    data_bytes: int
    sending: Sending
    outcome: "asyncio.Future[None]"


class LogWriter:
    """Writes one log, whose record is new and lists no ledgers yet.

    `on_over` is called once if another hub has shut this writer out.
    """

    def __init__(
        self,
        ledgers: LedgerStore,
        held: HeldRecord,
        cache: BatchCache,
        reader: SegmentReader,
        clock: Clock,
        options: SharedLogOptions,
        counters: LogCounters,
        on_over: Callable[[HedwigError], object],
    ) -> None:
        self._ledgers = ledgers
        self.held = held
        self.number = held.present.number
        self._cache = cache
        self._clock = clock
        self._options = options
        self._counters = counters
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._slots: dict[int, _Slot] = {}
        self._deleted = SlotSet()
        self._segments = 0
        """How many segments have ended."""
        self._next_slot = FIRST_SLOT
        self._current: UnsealedSegment | None = None
        """The segment that takes batches; None while no ledger is listed for it."""
        self._next: int | None = None
        """The ledger of the segment after it, which the record lists; None while there is none."""
        self._to_seal: deque[UnsealedSegment] = deque()
        self._waiting = Waiting()
        self._under_way: deque[_UnderWay] = deque()
        self._bytes_under_way = 0
        self._is_pump_due = False
        self._is_alone = False
        """Whether the last batch had one record. Then nobody else is expected to append in this turn of the loop."""
        self._is_held = True
        """Whether no batch is sent, since there is no current ledger, or it ends or has failed."""
        self._held_at: float | None = None
        """Since when, if there has been a current ledger."""
        self._why_stuck: HedwigError | None = None
        """Why nothing can be sent now, and nobody knows until when; None if it can."""
        self._is_roll_due = False
        """Whether the current segment ends as soon as it can."""
        self._again: deque[Sending] = deque()
        """The batches that a failed ledger does not hold, and that go first into the next one."""
        self._made: int | None = None
        """A new ledger that the record does not list yet, as far as is known."""
        self._rolling: asyncio.Task[None] | None = None
        self._rolled_at = clock.monotonic() - options.roll_pause_s
        self._tasks = Tasks()
        self._keeping: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._mending: asyncio.Task[None] | None = None
        self._why_over: HedwigError | None = None
        self._is_closing = False
        self._upkeep = LogUpkeep(
            ledgers, reader, self.held, clock, options, counters, lambda slot: slot not in self._deleted
        )
        self._tasks.start(self._keep_space())
        self._keep()

    @property
    def record(self) -> LogRecord:
        """The record of the log, as this hub knows it."""
        return self.held.present

    # ------------------------------------------------------------------------------------------------- slots

    def create(self) -> int:
        """Return a new slot, open for append. No I/O. Raises: LedgerStoreUnavailableError - none can be given."""
        self._check_going_on()
        if self._next_slot > SLOT_MAX:
            raise LedgerStoreFullError(f"log {self.number} has given all its slots: start the hub again")
        slot = self._next_slot
        self._next_slot += 1
        self._slots[slot] = _Slot(self._segments)
        return slot

    def has(self, slot: int) -> bool:
        """Say whether this writer gave the slot, and nobody has deleted it here."""
        return FIRST_SLOT <= slot < self._next_slot and slot not in self._deleted

    def delete(self, slot: int) -> None:
        """Refuse further appends to the slot, and free what it has in the log sooner or later."""
        self.let_go(slot)
        if self.has(slot):
            self._deleted.add(slot)
            self._upkeep.drop(slot)

    def is_open(self, slot: int) -> bool:
        """Say whether the slot is open for append, or ends once the appends under way do."""
        return slot in self._slots

    def segments_of(self, slot: int) -> int:
        """Return in how many segments an open slot may have records."""
        held = self._slots.get(slot)
        return 0 if held is None else self._segments - held.segment + 1

    def open_slots(self) -> Collection[int]:
        """Return the slots that are open for append."""
        return [slot for slot, held in self._slots.items() if not held.is_let_go]

    @property
    def open_ledgers(self) -> int:
        """Return how many ledgers of the store below the log has open for append, apart from footers of their own."""
        segments = sum(not each.is_fenced for each in self.unsealed())
        return segments + sum(ledger is not None for ledger in (self._next, self._made))

    @property
    def stored_bytes(self) -> int:
        """The bytes of all messages in the log."""
        return sum(each.size for each in self.record.segments) + self._unsealed_bytes

    @property
    def live_bytes(self) -> int:
        """The bytes of those that are needed; what is not sealed is counted as a whole."""
        return self._upkeep.live_bytes + self._unsealed_bytes

    async def largest(self, count: int) -> dict[int, int]:
        """Return the slots with most bytes; see LogUpkeep."""
        return await self._upkeep.largest(count)

    @property
    def _unsealed_bytes(self) -> int:
        return sum(each.runs.size for each in self.unsealed())

    @property
    def waiting_bytes(self) -> int:
        """What waits to be sent."""
        return self._waiting.size

    def start_append(self, slot: int, entry_id: int, payload: bytes) -> "asyncio.Future[None] | None":
        """Begin an append; see LedgerStore. Return None if the slot is not open for append."""
        held = self._slots.get(slot)
        if held is None:
            return None
        future: asyncio.Future[None] = self._loop.create_future()
        error = self._why_refused(slot, held, entry_id, len(payload))
        if error is not None:
            future.set_exception(error)
            return future
        held.next += 1
        self._waiting.add(slot, entry_id, payload, future)
        if self._is_pump_due:
            return future
        if self._is_alone and not self._under_way:
            self._pump()
        else:
            # At the end of this turn of the event loop, so that what arrives in the same turn shares a batch.
            self._is_pump_due = True
            self._loop.call_soon(self._pump)
        return future

    def _why_refused(self, slot: int, held: _Slot, entry_id: int, size: int) -> HedwigError | None:
        if self._is_closing:
            return LedgerStoreClosedError()
        if self._why_over is not None:
            return LedgerFencedError(str(self._why_over))
        if held.is_ended:
            return LedgerFencedError(f"slot {slot} of log {self.number} is not open for append")
        if self._why_stuck is not None:
            return LedgerStoreUnavailableError(str(self._why_stuck))
        if entry_id != held.next:
            return EntryOrderError(f"entry {entry_id} of slot {slot} is out of turn: {held.next} is next")
        if size > self._options.record_bytes_max:
            return InvalidArgumentError(
                f"a message of {size} bytes is too large: bookies take {self._options.record_bytes_max}"
            )
        queued = self._waiting.size + self._bytes_under_way
        if queued and queued + size > self._options.queue_bytes_max:
            return LedgerStoreUnavailableError(
                f"{queued} bytes wait for the log already, and {self._options.queue_bytes_max} may"
            )
        return None

    async def end(self, slot: int) -> int | None:
        """Refuse further appends to the slot, wait for those under way, and return its last entry id, -1 for none.

        Return None if the slot is not open for append.

        Raises: LedgerStoreUnavailableError - it is not known what becomes of those, so repeat it.
        """
        held = self._slots.get(slot)
        if held is None:
            return None
        held.is_ended = True
        while held.acknowledged < held.next - 1:
            if self._why_stuck is not None:
                raise LedgerStoreUnavailableError(str(self._why_stuck))
            if held.idle is None:
                held.idle = self._loop.create_future()
            # Several callers may wait, and a cancelled one must not cancel it for the others.
            await asyncio.shield(held.idle)
        self._slots.pop(slot, None)
        return held.acknowledged

    def let_go(self, slot: int) -> None:
        """Refuse further appends to the slot. The appends under way go on, and `end` still waits for them."""
        held = self._slots.get(slot)
        if held is not None:
            held.is_ended = held.is_let_go = True
            self._look_for_idle(slot, held)

    def _look_for_idle(self, slot: int, held: _Slot) -> None:
        """Wake those who wait for the appends under way, and forget a slot that was let go, once there are none."""
        if held.acknowledged < held.next - 1:
            return
        _wake(held)
        if held.is_let_go:
            self._slots.pop(slot, None)

    async def sealed(self, segment: UnsealedSegment) -> None:
        """Wait until a segment is sealed, and bring its end about.

        Raises: LedgerFencedError - another hub has shut this writer out, and seals the segment.
        """
        while not segment.sealed.is_set():
            self._check_going_on()
            if segment is self._current:
                self._roll_soon()
            await segment.sealed.wait()
        self._check_going_on()

    def unsealed(self) -> list[UnsealedSegment]:
        """Return the segments that are not sealed, in order."""
        return [*self._to_seal, *(() if self._current is None else (self._current,))]

    # ------------------------------------------------------------------------------------------------ sending

    def _pump(self) -> None:
        self._is_pump_due = False
        while not self._is_held and len(self._under_way) < _UNDER_WAY_MAX:
            if self._again:
                self._send(self._again.popleft())
            elif self._waiting:
                self._send(self._waiting.take())
            else:
                break

    def _send(self, sending: Sending) -> None:
        segment = self._current
        assert segment is not None, "without a ledger the writer is held"
        self._is_alone = len(sending.futures) == 1
        batch = sending.batch.encode()
        entry, segment.next_entry = segment.next_entry, segment.next_entry + 1
        outcome = self._ledgers.start_append(segment.ledger, entry, batch.data)
        self._under_way.append(_UnderWay(entry, len(batch.data), sending, outcome))
        self._bytes_under_way += len(batch.data)
        self._cache.put(segment.ledger, entry, batch)
        outcome.add_done_callback(self._on_outcome)

    def _on_outcome(self, outcome: "asyncio.Future[None]") -> None:
        # Even if this writer is over meanwhile, somebody must look at it.
        if not outcome.cancelled() and outcome.exception() is not None and self._mending is None:
            self._refuse_last()
        while self._under_way and self._mending is None and (first := self._under_way[0]).outcome.done():
            if first.outcome.cancelled() or first.outcome.exception() is not None:
                self._hold()
                self._mending = self._tasks.start(self._mend())
                return
            self._under_way.popleft()
            assert self._current is not None
            self._stored(self._current, first)
        if self._mending is not None:
            return
        if self._is_held:
            if not self._under_way:
                self._switch()
        elif self._current is not None and self._current.size >= self._options.segment_bytes:
            self._roll()
        self._pump()

    def _stored(self, segment: UnsealedSegment, batch: _UnderWay) -> None:
        """Acknowledge the records of a batch."""
        self._bytes_under_way -= batch.data_bytes
        if not segment.runs.records:
            self._timer = self._tasks.start(self._roll_in_time(segment))
        segment.last_entry = batch.entry
        segment.size += batch.data_bytes
        records, futures = batch.sending.batch.records, batch.sending.futures
        segment.runs.add(batch.entry, records)
        counters = self._counters
        counters.batches += 1
        counters.records += len(records)
        counters.batch_bytes += batch.data_bytes
        slots = self._slots
        for (slot, entry_id, _), future in zip(records, futures, strict=True):
            held = slots.get(slot)
            if held is not None:
                held.acknowledged = entry_id
                if held.is_ended:
                    self._look_for_idle(slot, held)
            if not future.done():
                future.set_result(None)

    # --------------------------------------------------------------------------------------- from ledger to ledger

    async def _roll_in_time(self, segment: UnsealedSegment) -> None:
        await self._clock.sleep(self._options.segment_s)
        if segment is self._current:
            self._roll()

    def _roll_soon(self) -> None:
        """End the current segment on demand, but not sooner after the last one than the options say."""
        if self._rolling is None:
            self._rolling = self._tasks.start(self._roll_after_pause(self._current))

    async def _roll_after_pause(self, segment: UnsealedSegment | None) -> None:
        try:
            await self._clock.sleep(max(0.0, self._rolled_at + self._options.roll_pause_s - self._clock.monotonic()))
        finally:
            self._rolling = None
        if segment is self._current:
            self._roll()

    def _roll(self) -> None:
        """Go on in the next ledger, as soon as there is one and no batch is under way."""
        self._is_roll_due = True
        if self._mending is None and self._next is not None and not self._is_over:
            self._hold()
            if not self._under_way:
                self._switch()

    def _hold(self) -> None:
        """Send no more batches for now."""
        if not self._is_held:
            self._is_held = True
            self._held_at = self._clock.monotonic()

    def _switch(self) -> None:
        """Go on in the next ledger; none is listed while `_current` is None afterwards."""
        assert not self._under_way
        if self._current is not None:
            self._to_seal.append(self._current)
            self._segments += 1
        self._current = None if self._next is None else UnsealedSegment(self._next)
        self._next = None
        self._is_roll_due = False
        self._rolled_at = self._clock.monotonic()
        self._is_held = self._current is None
        if self._current is not None:
            self._why_stuck = None
            if self._held_at is not None:
                self._counters.rolls += 1
                self._counters.roll_s += self._rolled_at - self._held_at
                self._held_at = None
        if self._timer is not None:
            self._timer.cancel()
        self._keep()
        self._pump()

    async def _keep_space(self) -> None:
        try:
            await self._upkeep.run()
        except LogTakenOverError as exc:
            self._end(exc)

    def _keep(self) -> None:
        """Seal what is to be sealed, and have a next ledger, in the background."""
        if self._keeping is None and not self._is_over:
            self._keeping = self._tasks.start(self._keep_up())

    async def _keep_up(self) -> None:
        pause_s = _FIRST_PAUSE_S
        try:
            while (self._to_seal or self._next is None) and not self._is_over:
                try:
                    await self._go_on_in_record()
                    pause_s = _FIRST_PAUSE_S
                except LogTakenOverError:
                    return
                except (HedwigError, TimeoutError) as exc:
                    _log.warning("log %d has no next ledger yet, and tries again: %s", self.number, exc)
                    if self._current is None and not self._is_over:
                        self._be_stuck(exc)
                    await self._clock.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LAST_PAUSE_S)
        finally:
            self._keeping = None

    async def _go_on_in_record(self) -> None:
        """Seal the first segment that waits for it, make the next ledger, and write both into the record.

        Raises: LogTakenOverError - another hub has shut this writer out, which ends it; other HedwigError, TimeoutError
            - not done, or not known to be done. Repeat it.
        """
        sealing = self._to_seal[0] if self._to_seal else None
        try:
            if sealing is not None and sealing.segment is None and sealing.runs.records:
                sealing.segment = await self._seal(sealing)
            if self._made is None:
                self._made = await new_ledger(self._ledgers, self.number)
            # Instead of the ledger of a segment that is sealed, the record names the segment.
            await self.held.change(partial(_with_next, made=self._made, sealing=sealing))
        except LogTakenOverError as exc:
            self._end(exc)
            sealed = () if sealing is None or sealing.segment is None else (sealing.segment,)
            await asyncio.shield(self._discard_unnamed(sealed, exc.present))
            raise
        self._next, self._made = self._made, None
        if sealing is not None:
            self._to_seal.popleft()
            sealing.sealed.set()
            if sealing.segment is None:
                await discard(self._ledgers, sealing.ledger)
        if self._current is None:
            self._switch()
        elif self._is_roll_due:
            self._roll()

    async def _discard_unnamed(self, sealed: Iterable[Segment], present: LogRecord | None) -> None:
        """Delete what was made here for the record, and is not in it, nor will be."""
        mine = {each.footer for each in sealed} | (set() if self._made is None else {self._made})
        # Whoever closes the log deletes those that were listed and not needed.
        named = self.record.ledgers if present is None else self.record.ledgers | present.ledgers
        for ledger in mine - named:
            await discard(self._ledgers, ledger)

    async def _seal(self, sealing: UnsealedSegment) -> Segment:
        """Write the footer of a segment. Raises: LogTakenOverError; LedgerError - repeat it."""
        try:
            return await self._write_footer(sealing)
        except NoSuchLedgerError:
            # Who takes the log over, and needs nothing of the segment, deletes its ledger.
            await self.held.read_again()
            raise

    async def _write_footer(self, sealing: UnsealedSegment) -> Segment:
        ledgers, ledger, runs, last = self._ledgers, sealing.ledger, sealing.runs, sealing.last_entry
        if not sealing.is_fenced:
            try:
                return await seal_behind_batches(ledgers, ledger, runs, last, self._upkeep.noting(ledger))
            except LedgerError as exc:
                _log.info("ledger %d takes no footer, so that gets a ledger of its own: %s", ledger, exc)
            await ledgers.open_and_fence(ledger)
            sealing.is_fenced = True
        return await seal_in_own_ledger(ledgers, self.number, ledger, runs, last, self._upkeep.noting(ledger))

    # ---------------------------------------------------------------------------------------- a ledger that fails

    async def _mend(self) -> None:
        """Find out what became of the batches under way, the first of which failed."""
        try:
            await asyncio.wait([each.outcome for each in self._under_way])
            self._refuse_last()
            if self._under_way:
                await self._mend_by_fencing(list(self._under_way))
        finally:
            self._mending = None
        if self._is_over:
            return
        if self._current is not None and not self._current.is_fenced:
            self._is_held = False
            self._held_at = None
            if self._is_roll_due:
                self._roll()
            self._pump()
        else:
            self._switch()

    def _refuse_last(self) -> None:
        """Refuse the last batches under way if they are surely not stored, and what waits behind them.

        The caller of each record may append it again.
        """
        refused: deque[_UnderWay] = deque()
        while self._under_way and _is_refused(self._under_way[-1]):
            refused.appendleft(self._under_way.pop())
        if not refused:
            return
        assert self._current is not None
        self._current.next_entry = refused[0].entry
        self._bytes_under_way -= sum(each.data_bytes for each in refused)
        error = refused[0].outcome.exception()
        if not isinstance(error, HedwigError) or isinstance(error, EntryOrderError):
            error = LedgerStoreUnavailableError("a batch before it was refused; try again")
        self._refuse([each.sending for each in refused], error)

    def _refuse(self, sendings: Iterable[Sending], error: HedwigError) -> None:
        """Refuse records that are not stored: those of `sendings`, and behind them all that wait."""
        refused = [
            (slot, entry_id, future)
            for sending in (*sendings, *self._again)
            for (slot, entry_id, _), future in zip(sending.batch.records, sending.futures, strict=True)
        ]
        self._again.clear()
        for slot, entry_id, future in (*refused, *self._waiting.drop()):
            held = self._slots.get(slot)
            if held is not None and entry_id < held.next:
                held.next = entry_id
                if held.is_ended:
                    self._look_for_idle(slot, held)
            if not future.done():
                future.set_exception(type(error)(*error.args))

    def _be_stuck(self, why: HedwigError | TimeoutError) -> None:
        """Refuse what is not sent, until this writer can send again, and say of the rest that it is in doubt."""
        self._why_stuck = LedgerStoreUnavailableError(f"log {self.number} cannot go on now: {why}")
        self._refuse((), self._why_stuck)
        for each in self._under_way:
            for future in each.sending.futures:
                if not future.done():
                    future.set_exception(LedgerWriteError(f"not known whether it is stored: {why}"))
        for held in self._slots.values():
            _wake(held)

    async def _mend_by_fencing(self, failed: list[_UnderWay]) -> None:
        """Acknowledge what the failed ledger holds, and have the rest sent again into the next one."""
        segment = self._current
        assert segment is not None
        last = await self._fence(segment)
        if last is None:
            return
        segment.is_fenced = True
        segment.next_entry = last + 1
        self._why_stuck = None
        self._under_way.clear()
        for each in failed:
            if each.entry <= last:
                self._stored(segment, each)
            else:
                self._bytes_under_way -= each.data_bytes
                self._again.append(each.sending)
        _log.info("log %d goes on behind entry %d of ledger %d, which failed", self.number, last, segment.ledger)

    async def _fence(self, segment: UnsealedSegment) -> int | None:
        """Return the last entry of a ledger that takes no more; None if this writer is over."""
        pause_s = _FIRST_PAUSE_S
        while not self._is_over:
            try:
                last = await self._ledgers.open_and_fence(segment.ledger)
            except (NoSuchLedgerError, LedgerStoreClosedError) as exc:
                self._end(exc)
                break
            except (HedwigError, TimeoutError) as exc:
                _log.warning("log %d waits for ledger %d, which failed: %s", self.number, segment.ledger, exc)
                self._be_stuck(exc)
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
                continue
            if last >= segment.last_entry:
                return last
            self._end(LedgerWriteError(f"ledger {segment.ledger} has lost acknowledged entries behind entry {last}"))
        return None

    # ------------------------------------------------------------------------------------------------ the end

    @property
    def _is_over(self) -> bool:
        return self._why_over is not None

    def _check_going_on(self) -> None:
        if self._why_over is not None:
            raise LedgerFencedError(str(self._why_over))
        if self._is_closing:
            raise LedgerStoreClosedError()

    def _end(self, error: HedwigError) -> None:
        """Append nothing any more, since another hub has shut this writer out."""
        if self._why_over is not None:
            return
        self._why_over = error
        for each in self._under_way:
            for future in each.sending.futures:
                if not future.done():
                    future.set_exception(LedgerWriteError(f"not known whether it is stored: {error}"))
        waiting = [future for sending in self._again for future in sending.futures]
        for future in (*waiting, *(future for _, _, future in self._waiting.drop())):
            if not future.done():
                future.set_exception(LedgerFencedError(str(error)))
        self._under_way.clear()
        self._again.clear()
        for held in self._slots.values():
            held.next = held.acknowledged + 1
            _wake(held)
        for segment in self.unsealed():
            segment.sealed.set()
        self._on_over(error)

    async def aclose(self) -> None:
        """Finish the appends under way, seal what is written, and close the log. May be called once.

        If that fails, or takes too long, the next owners of the topics recover the log.
        """
        self._is_closing = True
        try:
            async with asyncio.timeout(_CLOSE_MAX_S):
                while self._waiting or self._again or self._under_way or self._mending:
                    if self._is_over or self._why_stuck is not None:
                        break
                    await self._clock.sleep(_CLOSE_LOOK_S)
                await self._tasks.cancel()
                if self._why_stuck is not None:
                    raise self._why_stuck
                if not self._is_over:
                    await self._close_record()
        except (HedwigError, TimeoutError) as exc:
            why = exc if str(exc) else "closing it takes too long"
            _log.warning("log %d is left open, and is recovered by other hubs: %s", self.number, why)
            await self.abandon()

    async def _close_record(self) -> None:
        sealed: list[Segment] = []
        ends = self.unsealed()
        try:
            for each in ends:
                if each.segment is None and each.runs.records:
                    each.segment = await self._seal(each)
                if each.segment is not None:
                    sealed.append(each.segment)
            await self.held.change(partial(_as_closed, sealed=sealed))
        except LogTakenOverError as exc:
            # Other hubs recover it, with the same end.
            await self._discard_unnamed(sealed, exc.present)
            return
        unused = [each.ledger for each in ends if each.segment is None]
        unused += [each for each in (self._next, self._made) if each is not None]
        for ledger in unused:
            await discard(self._ledgers, ledger)

    def last_unsealed(self, slots: Iterable[int]) -> UnsealedSegment | None:
        """Return the last segment that is not sealed and has a record of one of the slots."""
        wanted = list(slots)
        for segment in reversed(self.unsealed()):
            if any(segment.runs.last_of(slot) is not None for slot in wanted):
                return segment
        return None

    async def abandon(self) -> None:
        """End at once, for a hub that may be shut out already."""
        self._on_over = lambda _: None
        self._end(LedgerFencedError("the hub ended"))
        await self._tasks.cancel()


def _wake(held: _Slot) -> None:
    """Wake those who wait for the appends to a slot."""
    if held.idle is not None:
        held.idle.set_result(None)
        held.idle = None


def _with_next(record: LogRecord, made: int, sealing: UnsealedSegment | None) -> LogRecord | None:
    if made in record.listed:
        return None
    if sealing is None:
        return record.changed(listed=(*record.listed, made))
    listed = (*(each for each in record.listed if each != sealing.ledger), made)
    sealed = () if sealing.segment is None else (sealing.segment,)
    return record.changed(listed=listed, segments=(*record.segments, *sealed))


def _as_closed(record: LogRecord, sealed: list[Segment]) -> LogRecord:
    return record.changed(state=LogState.CLOSED, listed=(), segments=(*record.segments, *sealed))


def _is_refused(batch: _UnderWay) -> bool:
    """Say whether a batch is surely not stored, though its ledger takes more."""
    outcome = batch.outcome
    error = outcome.exception() if outcome.done() and not outcome.cancelled() else None
    if not isinstance(error, LedgerStoreUnavailableError | InvalidArgumentError | EntryOrderError):
        return False
    return not isinstance(error, LedgerStoreClosedError) and error.happened == "no"
