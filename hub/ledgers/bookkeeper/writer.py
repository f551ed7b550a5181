"""The writer of one ledger: entries to write quorums, acknowledged in order by ack quorums, past bookies that fail.

What may happen to an entry, and why acknowledging is safe:

- An entry is complete once the ack quorum of its write set stored it. The writer acknowledges it once it and all before
  it are complete. It acknowledges nothing while it changes the ensemble: the new ensemble holds from the entry behind
  the last acknowledged one.
- The writer replaces a bookie that fails, and sends the new one every entry that is not acknowledged. Without a spare,
  the others carry on as long as they make an ack quorum. When a spare or the bookie itself comes back, the writer sends
  it the entries that are not acknowledged.
- If the writer can connect to no bookie of an entry, and there is no spare, it may refuse the entry. It does so if it
  never sent that entry or a later one to any bookie. The entry id is free again. An entry that was sent waits for its
  bookies to come back.
- The writer ends if an entry waits too long, or if a bookie or the metadata say that the ledger was taken over. The
  outcome of entries that were sent and not acknowledged is then uncertain: a client that recovers the ledger may keep
  them.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from hedwig.errors import (
    HedwigError,
    InvalidArgumentError,
    LedgerClosedError,
    LedgerFencedError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
)
from hedwig.hub.ledgers.bookkeeper.bookies.placement import choose_replacements
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster
from hedwig.hub.ledgers.bookkeeper.lac_teller import LacTeller
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.metadata_store import update
from hedwig.hub.ledgers.bookkeeper.wire.codec import PAYLOAD_BYTES_MAX
from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest
from hedwig.hub.ledgers.bookkeeper.wire.entries import encode_fields, encode_lac
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.quorums import write_sets
from hedwig.hub.ledgers.bookkeeper.wire.requests import AddEntry, BookieAnswer, WriteLac
from hedwig.versions import Versioned

__all__ = ["LedgerWriter"]

_log = logging.getLogger(__name__)

_WAITS_MAX: Final = 65_536
"""At most this many entries of one ledger may wait for their quorum."""

_SOON_S: Final = 0.2
"""If no other bookie is left, bookies whose connections ended are retried after this time. Dead ones refuse by then."""


class _Pending:
    """An entry that is not acknowledged. `stored` has the bit of each position of the ensemble that has it.

    `sent` counts the requests that a bookie may have run, or may still run. If it is 0, surely no bookie has the entry.
    """

    __slots__ = ("deadline", "entry_id", "future", "length", "request", "sent", "size", "stored")

    def __init__(self, request: AddEntry, length: int, deadline: float, future: "asyncio.Future[None]") -> None:
        self.entry_id = request.entry_id
        self.length = length
        self.size = len(request.body)
        self.request = request
        self.deadline = deadline
        self.future = future
        self.stored = 0
        self.sent = 0


class LedgerWriter:
    """Appends to one ledger, whose record is `held`, behind entry `lac`. With `is_recovery`, its adds pass the fence.

    A recovering writer keeps changes of the ensemble in `held` only, until the ledger is closed. The writer calls
    `on_failure` once, as soon as nothing can be appended any more.
    """

    def __init__(
        self,
        cluster: BookieCluster,
        ledger_id: int,
        held: Versioned[LedgerMetadata],
        digest: Digest,
        key: bytes,
        *,
        lac: int = -1,
        length: int = 0,
        is_recovery: bool = False,
        on_failure: Callable[[], object] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._on_failure = on_failure
        self._options = cluster.options
        self._ledger_id = ledger_id
        self.held = held
        self._digest = digest
        self._key = key
        self._is_recovery = is_recovery
        self._loop = asyncio.get_running_loop()
        self._quorums = held.value.quorums
        self._write_sets = write_sets(self._quorums)
        self._ensemble = held.value.last_ensemble.bookies
        self.lac = lac
        """The last entry that was acknowledged."""
        self.length = length
        """The payload bytes up to that entry's last."""
        self.next_entry_id = lac + 1
        self._pushed_length = length
        self._queue: dict[int, _Pending] = {}
        """The entries that are not acknowledged, from `lac + 1` on. An empty deque would take ten times the memory."""
        self._broken: dict[int, BookieAnswer] = {}
        """The positions whose bookie failed, with its answer, until they are mended."""
        self._lacks_spare = False
        """Whether broken positions have to wait, since no spare bookie can take them now."""
        self._none_left: asyncio.Event | None = None
        """Set once no bookie is left, while `_pause` waits."""
        self._is_changing = False
        self._mending: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        # A recovering writer closes the ledger, which tells readers more.
        self._teller = LacTeller(0.0 if is_recovery else self._options.tell_lac_after_s, self._tell_lac, lac)
        self._is_sealed = False
        self.failure: HedwigError | None = None
        """Why nothing can be appended any more, if it was not closed."""
        self._idle: asyncio.Future[None] | None = None

    @property
    def degraded(self) -> frozenset[int]:
        """The positions of the ensemble that take no entries now."""
        return frozenset(self._broken)

    def start_append(self, payload: bytes) -> "asyncio.Future[None]":
        """Give the payload the next entry id and send it. The future is done once the entry is acknowledged.

        If this call raises, nothing was appended, and the entry id is still the next. The same holds if the future
        fails with LedgerStoreUnavailableError. If it fails with LedgerWriteError, the outcome is unknown.

        Raises: LedgerFencedError - the writer has failed; LedgerClosedError - the ledger was closed;
            InvalidArgumentError - the payload is too large; LedgerStoreUnavailableError - too much waits, or no bookie
            can be reached.
        """
        self._check_open(len(payload))
        entry_id = self.next_entry_id
        length = self._pushed_length + len(payload)
        request = AddEntry(
            ledger_id=self._ledger_id,
            entry_id=entry_id,
            master_key=self._key,
            body=encode_fields(self._digest, self._ledger_id, entry_id, self.lac, length, payload),
            is_recovery=self._is_recovery,
        )
        deadline = self._loop.time() + self._options.append_timeout_s
        pending = _Pending(request, length, deadline, self._loop.create_future())
        self.next_entry_id += 1
        self._pushed_length = length
        self._cluster.pending_bytes += pending.size
        self._queue[entry_id] = pending
        if self._alarm is None:
            self._alarm = self._loop.call_at(deadline, self._check_deadline)
        for position in self._write_sets[entry_id % len(self._write_sets)]:
            if position not in self._broken:
                self._send(pending, position)
        return pending.future

    async def close(self) -> None:
        """Seal the ledger behind the appends in progress, in its record too. May be repeated.

        A cancelled call leaves the writer sealed.

        Raises: LedgerFencedError - another client took it over, or the writer gave up; LedgerStoreUnavailableError -
            the record could not be changed, which may be tried again.
        """
        await self._drain()
        if self.failure is not None:
            raise LedgerFencedError(f"ledger {self._ledger_id} cannot be closed by its writer: {self.failure}")
        await self._stop_mending()
        self.held = await update(self._cluster.metadata, self._ledger_id, self.held, self._closing)

    async def drained(self) -> None:
        """Accept no more appends, and wait until none is in progress. Raises: what made the writer fail."""
        await self._drain()
        await self._stop_mending()
        if self.failure is not None:
            raise self.failure

    def let_go(self) -> None:
        """Stop appending, and tell no server. The outcome of appends in progress is uncertain."""
        self._fail(LedgerFencedError(f"ledger {self._ledger_id} is not open here any more"))

    async def abandon(self) -> None:
        """Stop appending, as `let_go` does, and wait until the writer's task has ended."""
        self.let_go()
        await self._stop_mending()

    # ------------------------------------------------------------------------------------------------------- entries

    def _check_open(self, size: int) -> None:
        if self.failure is not None:
            raise LedgerFencedError(f"ledger {self._ledger_id} is not open any more: {self.failure}")
        if self._is_sealed:
            raise LedgerClosedError(f"ledger {self._ledger_id} was closed")
        if size > PAYLOAD_BYTES_MAX:
            raise InvalidArgumentError(f"an entry of {size} bytes is too large: bookies take {PAYLOAD_BYTES_MAX}")
        if self._queue and self._cluster.pending_bytes + size > self._options.pending_bytes_max:
            raise LedgerStoreUnavailableError(
                f"{self._cluster.pending_bytes} bytes wait for bookies already: append less at a time"
            )
        if len(self._queue) >= _WAITS_MAX:
            raise LedgerStoreUnavailableError(f"{len(self._queue)} entries of ledger {self._ledger_id} wait already")
        if self._is_unreachable(self.next_entry_id):
            raise self._unreachable()

    async def _drain(self) -> None:
        self._is_sealed = True
        self._teller.end()
        self._drop_unreachable()
        while self._queue and self.failure is None:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def _send(self, pending: _Pending, position: int) -> None:
        pending.sent += 1
        bookie = self._ensemble[position]
        done = partial(self._answered, pending, position, bookie)
        self._cluster.bookies.send(bookie, pending.request, self._options.add_timeout_s, done)

    def _answered(self, pending: _Pending, position: int, bookie: str, answer: BookieAnswer) -> None:
        outcome = answer.outcome
        if outcome is BookieOutcome.NOT_SENT:
            pending.sent -= 1
        if self.failure is not None or self._ensemble[position] != bookie:
            return
        if outcome is BookieOutcome.DONE:
            pending.stored |= 1 << position
            self._acknowledge()
        elif outcome.ends_writing:
            self._fail(LedgerFencedError(f"bookie {bookie} refuses ledger {self._ledger_id}: {answer}"))
        elif outcome is BookieOutcome.BUSY:
            self._loop.call_later(self._options.busy_pause_s, self._send_again, pending, position, bookie)
        else:
            self._break(position, bookie, answer)

    def _send_again(self, pending: _Pending, position: int, bookie: str) -> None:
        # The bookie did not run the request. Count that only now: an entry that waits to be sent again must not be
        # refused meanwhile.
        pending.sent -= 1
        if self.failure is not None or self._ensemble[position] != bookie:
            return
        if self._loop.time() < pending.deadline:
            self._send(pending, position)
        else:
            self._break(position, bookie, BookieAnswer(outcome=BookieOutcome.BUSY, why="for too long"))

    def _acknowledge(self) -> None:
        queue = self._queue
        if self._is_changing or not queue:
            return
        while queue and queue[self.lac + 1].stored.bit_count() >= self._quorums.ack:
            pending = queue.pop(self.lac + 1)
            self._cluster.pending_bytes -= pending.size
            self.lac = pending.entry_id
            self.length = pending.length
            if not pending.future.done():
                pending.future.set_result(None)
        if not queue:
            self._emptied()
            self._teller.hear(self.lac)

    def _emptied(self) -> None:
        # A dictionary keeps the memory of its former items, so make a new one.
        self._queue = {}
        self._wake()

    def _tell_lac(self, lac: int) -> None:
        """Tell bookies the last add confirmed. The writer relies on none of the answers."""
        body = encode_lac(self._digest, self._ledger_id, lac)
        request = WriteLac(ledger_id=self._ledger_id, lac=lac, master_key=self._key, body=body)
        for position, bookie in enumerate(self._ensemble):
            if position not in self._broken:
                self._cluster.bookies.send(bookie, request, self._options.add_timeout_s, _ignore)

    def _check_deadline(self) -> None:
        self._alarm = None
        if not self._queue or self.failure is not None:
            return
        head = self._queue[self.lac + 1]
        if head.deadline <= self._loop.time():
            self._fail(
                LedgerWriteError(
                    f"entry {head.entry_id} of ledger {self._ledger_id} found no {self._quorums.ack} bookies within "
                    f"{self._options.append_timeout_s:g} s ({self._troubles() or 'they are too slow'})"
                )
            )
        else:
            self._alarm = self._loop.call_at(head.deadline, self._check_deadline)

    def _fail(self, error: HedwigError) -> None:
        if self.failure is not None:
            return
        self.failure = error
        _log.info("the writer of ledger %d ends: %s", self._ledger_id, error)
        self._teller.end()
        if self._alarm is not None:
            self._alarm.cancel()
        given_up, self._queue = self._queue, {}
        for pending in given_up.values():
            self._cluster.pending_bytes -= pending.size
            if not pending.future.done():
                text = f"{error}; it is not known whether entry {pending.entry_id} is kept"
                pending.future.set_exception(LedgerWriteError(text))
                pending.future.exception()  # A cancelled caller does not look at it.
        self._wake()
        if self._mending is not None and self._mending is not asyncio.current_task():
            self._mending.cancel()
        self._on_failure()

    def _wake(self) -> None:
        if self._idle is not None:
            if not self._idle.done():
                self._idle.set_result(None)
            self._idle = None

    # ------------------------------------------------------------------------------------------------------ ensemble

    def _break(self, position: int, bookie: str, answer: BookieAnswer) -> None:
        self._cluster.suspects.add(bookie)
        is_news = position not in self._broken
        if is_news:
            _log.info("bookie %s of ledger %d failed: %s", bookie, self._ledger_id, answer)
        if is_news or answer.outcome is BookieOutcome.NOT_SENT:
            self._broken[position] = answer
        if self._lacks_spare:
            self._drop_unreachable()
            self._hurry()
        if self._mending is None and not (self._is_sealed and not self._queue):
            self._mending = self._loop.create_task(self._mend())

    async def _mend(self) -> None:
        """Replace broken bookies, or take them back, until no position is broken."""
        try:
            while self._broken and self.failure is None:
                if await self._replace(self._cluster.suspects.current()):
                    continue
                self._lacks_spare = True
                self._drop_unreachable()
                if self.failure is not None:
                    return
                await self._pause()
                self._lacks_spare = False
                # A suspect may have failed only for other ledgers. If this one is stuck, it is worth a try.
                suspects = () if self._is_stuck() else self._cluster.suspects.current()
                if self._broken and not await self._replace(suspects):
                    # The broken bookies may take entries again. Those that they missed are sent once more.
                    self._restore(tuple(self._broken))
        except HedwigError as exc:
            self._fail(exc)
        except Exception as exc:
            # A defect of ours. Without this task, no broken position would ever be mended.
            _log.exception("mending ledger %d failed", self._ledger_id)
            self._fail(LedgerWriteError(f"the ensemble of ledger {self._ledger_id} could not be mended: {exc!r}"))
        finally:
            self._lacks_spare = False
            self._mending = None

    async def _pause(self) -> None:
        """Wait for a spare, or for a bookie to come back.

        The wait is short if every bookie is broken, and one of them has not refused a connection yet.
        """
        none_left = self._none_left = asyncio.Event()
        self._hurry()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.spare_retry_s):
                await none_left.wait()
                await asyncio.sleep(_SOON_S)

    def _hurry(self) -> None:
        is_open = any(answer.outcome is BookieOutcome.UNANSWERED for answer in self._broken.values())
        if self._none_left is not None and is_open and len(self._broken) == len(self._ensemble):
            self._none_left.set()

    async def _replace(self, suspects: Collection[str]) -> bool:
        """Put spare bookies into the positions of broken ones, if there are any; return whether that was done."""
        writable = self._cluster.registry.writable()
        replacements = choose_replacements(writable, suspects, self._ensemble, self._broken, self._cluster.random)
        if not replacements:
            return False
        ensemble = tuple(replacements.get(position, bookie) for position, bookie in enumerate(self._ensemble))
        self._is_changing = True
        try:
            is_recorded = await self._record(self.lac + 1, ensemble)
            if is_recorded and self.failure is None:
                _log.info("ledger %d goes to %s from entry %d on", self._ledger_id, ensemble, self.lac + 1)
                # Copies on replaced bookies count no more, so clear their bits before anything is acknowledged.
                self._ensemble = ensemble
                gone = sum(1 << position for position in replacements)
                for pending in self._queue.values():
                    pending.stored &= ~gone
                self._restore(replacements)
        finally:
            self._is_changing = False
        self._acknowledge()
        return is_recorded

    def _restore(self, positions: Iterable[int]) -> None:
        """Send unacknowledged entries to positions whose bookie may work again, unless it stored them already."""
        for position in positions:
            self._broken.pop(position, None)
        for pending in self._queue.values():
            for position in positions:
                if self._quorums.holds(position, pending.entry_id) and not pending.stored >> position & 1:
                    self._send(pending, position)

    def _is_refused(self, position: int) -> bool:
        """Say whether the writer cannot connect to the bookie at a position, and no spare can replace it now."""
        answer = self._broken.get(position)
        return self._lacks_spare and answer is not None and answer.outcome is BookieOutcome.NOT_SENT

    def _is_unreachable(self, entry_id: int) -> bool:
        """Say whether no bookie would get an entry now."""
        return self._lacks_spare and all(map(self._is_refused, self._quorums.write_set(entry_id)))

    def _unreachable(self) -> LedgerStoreUnavailableError:
        return LedgerStoreUnavailableError(f"ledger {self._ledger_id} has no bookie now ({self._troubles()})")

    def _troubles(self) -> str:
        return "; ".join(f"{self._ensemble[position]}: {answer}" for position, answer in self._broken.items())

    def _drop_unreachable(self) -> None:
        """Refuse the last entries if no bookie has them, nor could get them now.

        If the ledger is sealed and the next entry cannot reach its quorum, the writer gives up. Recovery closes the
        ledger where `lac` is, so a recovering writer refuses no entry.
        """
        refused: list[_Pending] = []
        while self._queue and not self._is_recovery:
            pending = self._queue[self.next_entry_id - 1]
            if pending.sent or not self._is_unreachable(pending.entry_id):
                break
            del self._queue[pending.entry_id]
            self._cluster.pending_bytes -= pending.size
            self.next_entry_id -= 1
            refused.append(pending)
        if refused:
            last = self._queue.get(self.next_entry_id - 1)
            self._pushed_length = last.length if last is not None else self.length
            for pending in reversed(refused):
                if not pending.future.done():
                    pending.future.set_exception(self._unreachable())
                    pending.future.exception()  # A cancelled caller does not look at it.
            if not self._queue:
                self._emptied()
        if self._is_sealed and self._queue and self._lacks_spare:
            head = self._queue[self.lac + 1]
            positions = self._quorums.write_set(head.entry_id)
            hopeful = sum(not self._is_refused(position) or bool(head.stored >> position & 1) for position in positions)
            if hopeful < self._quorums.ack:
                text = f"entry {head.entry_id} of ledger {self._ledger_id} has no quorum ({self._troubles()})"
                self._fail(LedgerWriteError(text))

    def _is_stuck(self) -> bool:
        """Say whether the next entry cannot be acknowledged for lack of bookies."""
        if not self._queue:
            return False
        head = self._queue[self.lac + 1]
        positions = self._quorums.write_set(head.entry_id)
        hopeful = sum(position not in self._broken or bool(head.stored >> position & 1) for position in positions)
        return hopeful < self._quorums.ack

    async def _record(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        """Write the ensemble into the record; return False if that was surely not done, and may be tried later."""
        if self._is_recovery:
            self.held = Versioned(self.held.value.with_ensemble(first_entry_id, ensemble), self.held.version)
            return True
        last = self.held.value.last_ensemble

        def change(stored: LedgerMetadata) -> LedgerMetadata | None:
            if stored.state is not LedgerState.OPEN:
                raise LedgerFencedError(f"ledger {self._ledger_id} was taken over: it is {stored.state.name}")
            current = stored.last_ensemble
            if (current.first_entry_id, current.bookies) == (first_entry_id, ensemble):
                return None
            if (current.first_entry_id, current.bookies) != (last.first_entry_id, last.bookies):
                raise LedgerFencedError(f"another client changed the ensemble of ledger {self._ledger_id}")
            return stored.with_ensemble(first_entry_id, ensemble)

        is_uncertain = False
        while self.failure is None:
            try:
                self.held = await update(self._cluster.metadata, self._ledger_id, self.held, change)
            except LedgerWriteError as exc:
                # The record may have it already, so nothing may be acknowledged before the outcome is known.
                _log.warning("changing the ensemble of ledger %d: %s", self._ledger_id, exc)
                is_uncertain = True
            except LedgerStoreUnavailableError as exc:
                _log.warning("changing the ensemble of ledger %d: %s", self._ledger_id, exc)
                if not is_uncertain:
                    return False
            else:
                return True
            await asyncio.sleep(self._options.spare_retry_s)
        return False

    async def _stop_mending(self) -> None:
        mending = self._mending
        if mending is not None:
            mending.cancel()
            await asyncio.wait([mending])

    def _closing(self, stored: LedgerMetadata) -> LedgerMetadata | None:
        if stored.state is LedgerState.CLOSED:
            if (stored.last_entry_id, stored.length) == (self.lac, self.length):
                return None
            raise LedgerFencedError(f"another client closed ledger {self._ledger_id} at entry {stored.last_entry_id}")
        if stored.state is not LedgerState.OPEN:
            raise LedgerFencedError(f"ledger {self._ledger_id} was taken over: it is {stored.state.name}")
        return stored.closed(self.lac, self.length)


def _ignore(_: BookieAnswer) -> None:
    """Ignore an answer. It changes nothing."""
