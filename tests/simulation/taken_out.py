"""Fixes of defects, and rules of shared logs, each taken out: the simulation must find what goes wrong then.

The keys are the numbers of the findings, or say how a rule is broken. Each replacement does what the code did before,
or would do without the rule, in as few lines as possible.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast
from unittest.mock import patch

from hedwig.client.connections.channel import Channel as ClientChannel
from hedwig.client.subscriptions.attachments import Attachments
from hedwig.concurrency.keyed_lock import KeyedLock
from hedwig.errors import BadVersionError
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.shared import recovery, store
from hedwig.hub.ledgers.shared.held_record import LogTakenOverError
from hedwig.hub.ledgers.shared.sealing import new_ledger
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.ledgers.shared.writer import LogWriter, _with_next
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.log import Published
from hedwig.hub.logs.range_record import IsOwned, RangeRecord
from hedwig.hub.logs.repeat_window import RepeatWindow
from hedwig.hub.requests import _TRIES, Requests, _Attempt
from hedwig.hub.subscriptions.cursor import Cursor
from hedwig.hub.subscriptions.standbys import Standbys
from hedwig.hub.subscriptions.starts import Starts
from hedwig.hub.topics.ownership import Claim, Ownership
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import LogRecords
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, Topic
from hedwig.versions import Version
from hedwig.wire import Message

__all__ = ["TAKEN_OUT", "without_mend"]

_create: Final = BookkeeperLedgerStore.create
_claim: Final = Ownership.claim
_shut_out: Final = Ownership._shut_out
_put: Final = RangeRecord._put
_ask: Final = ClientChannel.ask


async def _keep_failed_writers(self: BookkeeperLedgerStore, *given: Any) -> int:
    ledger_id = await _create(self, *given)
    self._writers[ledger_id]._on_failure = lambda: None
    return ledger_id


def _let_no_writer_go(self: BookkeeperLedgerStore, ledger_id: int) -> None:
    """Keep the writer although its log has ended."""


async def _read_once(
    self: DurableLog, each: LedgerRange, local: int, messages_max: int, bytes_max: int
) -> Sequence[bytes]:
    reading = self._store.ledgers.read(
        each.ledger_id, local - (each.start or 0), entries_max=messages_max, bytes_max=bytes_max
    )
    return await self._store.within(reading)


def _count_all_in_window(self: Cursor, local: int, stored: bytes) -> None:
    self.next_id = local + 1
    if self._filter is not None and not self._wants(stored):
        return
    if self._unconsumed is not None:
        self._unconsumed.append(local)
    self.channel.deliver(self._encoder.encode(stored))
    self._delivery.delivered += 1


async def _end_nothing(self: RangeRecord, is_owned: IsOwned) -> tuple[LedgerRange, ...]:
    return ()


async def _forget_doubt(self: RangeRecord, is_owned: IsOwned) -> tuple[LedgerRange, ...]:
    self._before = None
    return ()


@contextmanager
def _start_unseen(self: Starts, topic: Topic, pointer: int) -> Iterator[None]:
    pointers = self._pointers.setdefault(topic, [])
    pointers.append(pointer)
    try:
        yield
    finally:
        pointers.remove(pointer)
        if not pointers:
            del self._pointers[topic]


@asynccontextmanager
async def _delete_at_any_time(self: Starts, topic: Topic) -> AsyncIterator[None]:
    yield


def _no_cursors(self: OwnedTopic) -> Iterator[Cursor]:
    return iter(())


@asynccontextmanager
async def _pass_on_twice(self: KeyedLock, key: Hashable) -> AsyncIterator[None]:
    waiting = self._waiting.get(key)
    if waiting is None:
        self._waiting[key] = deque()
    else:
        mine = asyncio.get_running_loop().create_future()
        waiting.append(mine)
        try:
            await mine
        except BaseException:
            if mine in waiting:
                waiting.remove(mine)
            else:
                self._pass_on(key)
            raise
    try:
        yield
    finally:
        self._pass_on(key)


async def _serve_before_the_answer(
    self: ClientChannel, request: Any, timeout_s: float, on_success: Callable[[], None] = lambda: None, *rest: Any
) -> Any:
    on_success()
    return await _ask(self, request, timeout_s, lambda: None, *rest)


async def _any_channel(self: Attachments, address: Any, key: Any, timeout_s: float) -> Any:
    return await self._serving_channel(address)


def _begin_out_of_order(self: Requests, channel: Any, request: Any, size: int) -> None:
    self._with_topic(channel, request, size, _Attempt(_TRIES))


def _over_unseen(self: Requests, channel: Any, request: Any) -> None:
    """Do nothing, so that no request waits for another."""


async def _claim_before_fencing(self: Ownership, topic: Topic, **given: Any) -> Claim:
    claim = await _claim(self, topic, **given)
    is_shut_out = claim.former is not None and await _shut_out(self, claim.former)
    return replace(claim, is_shut_out=is_shut_out)


async def _fence_later(self: Ownership, former: HubInfo) -> bool:
    return False


async def _append_before_listing(self: LogWriter) -> None:
    sealing = self._to_seal[0] if self._to_seal else None
    if sealing is not None and sealing.segment is None and sealing.runs.records:
        sealing.segment = await self._seal(sealing)
    if self._made is None:
        self._made = self._next = await new_ledger(self._ledgers, self.record.number)
        if self._current is None:
            self._switch()
        elif self._is_roll_due:
            self._roll()
    try:
        await self.held.change(partial(_with_next, made=self._made, sealing=sealing))
    except LogTakenOverError as exc:
        self._end(exc)
        raise
    self._made = None
    if sealing is not None:
        self._to_seal.popleft()
        sealing.sealed.set()


class _Unfenced:
    """A ledger store that leaves some ledgers as they are, and takes them for empty."""

    def __init__(self, ledgers: LedgerStore, unfenced: Collection[int]) -> None:
        self._ledgers = ledgers
        self._unfenced = unfenced

    async def open_and_fence(self, ledger_id: int) -> int:
        return -1 if ledger_id in self._unfenced else await self._ledgers.open_and_fence(ledger_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledgers, name)


async def _fence_current_only(ledgers: LedgerStore, records: LogRecords, number: int) -> LogRecord | None:
    record = await records.read(number)
    unfenced = record.listed[1:] if record is not None else ()
    return await recovery.shut_out(cast(LedgerStore, _Unfenced(ledgers, unfenced)), records, number)


async def _put_again(self: RangeRecord, ranges: LedgerRanges) -> Version:
    try:
        return await _put(self, ranges)
    except BadVersionError as exc:
        if not self.is_as_found or exc.current is None:
            raise
        self._version = exc.current.version
        return await _put(self, ranges)


async def _settle_nothing(self: SharedLedgerStore, ledger_ids: Collection[int]) -> None:
    """Leave the segment as it is."""


def _always_settled(self: SharedLedgerStore, ledger_ids: Collection[int]) -> bool:
    return True


def _store_again(self: DurableLog, message: Message, done: Published, *_: Any) -> None:
    self.append(message, done, None, 0)


async def _read_nothing(self: RepeatWindow) -> None:
    """Take the window for complete."""


def _always_new(self: RepeatWindow, sequence: int, previous: int, age_ms: int, now: float) -> None:
    """Take a message of an unknown publisher for new, whatever its age."""


def _serve_behind(self: Requests, channel: Any, request: Any) -> bool:
    self._begin(channel, 0)
    self._begin_in_order(channel, request, 0)
    return True


def _end_no_line(self: Standbys, topic: OwnedTopic) -> None:
    """Leave those that wait for the topic to themselves."""


TAKEN_OUT: Final[Mapping[str, tuple[tuple[Any, str, object], ...]]] = {
    # Later fixes hide the defect: a log that ends drops its writers, and a reader recovers what it does not find.
    "1.3": (
        (BookkeeperLedgerStore, "create", _keep_failed_writers),
        (BookkeeperLedgerStore, "let_go", _let_no_writer_go),
        (DurableLog, "_read_of", _read_once),
    ),
    "1.4": ((Cursor, "_push", _count_all_in_window),),
    "1.8": ((RangeRecord, "end", _end_nothing), (RangeRecord, "_settle", _forget_doubt)),
    "1.9": (
        (Starts, "at", _start_unseen),
        (Starts, "deletion", _delete_at_any_time),
        (OwnedTopic, "cursors", _no_cursors),
    ),
    "1.12": ((KeyedLock, "turn", _pass_on_twice),),
    "1.17": (
        (ClientChannel, "ask", _serve_before_the_answer),
        (Attachments, "_free_channel", _any_channel),
        (Requests, "_begin_in_order", _begin_out_of_order),
        (Requests, "_over", _over_unseen),
    ),
    # See docs/explanation/shared-logs.md for these rules.
    "claims come before fencing": (
        (Ownership, "claim", _claim_before_fencing),
        (Ownership, "_shut_out", _fence_later),
    ),
    "a log goes on in a ledger before the record lists it": ((LogWriter, "_go_on_in_record", _append_before_listing),),
    "a range is closed before its segment is sealed": (
        (SharedLedgerStore, "settle", _settle_nothing),
        (SharedLedgerStore, "is_settled", _always_settled),
    ),
    "the next ledger of a log is not fenced": ((store, "shut_out", _fence_current_only),),
    "a refused first change of the ranges is repeated": ((RangeRecord, "_put", _put_again),),
    # See docs/explanation/published-once.md for these.
    "a repeat is stored": ((DurableLog, "publish_once", _store_again),),
    "a new owner does not read its log": ((RepeatWindow, "_read_back", _read_nothing),),
    "a message is new whatever its age": ((RepeatWindow, "_why_unknown", _always_new),),
    # See docs/explanation/standby.md for these.
    "a close does not end a wait whose turn has come": ((Requests, "_serve_standby", _serve_behind),),
    "a line outlives its topic": ((Standbys, "end", _end_no_line),),
}


@contextmanager
def without_mend(number: str) -> Iterator[None]:
    """Take a fix out, by the number of its finding, until the block ends."""
    with ExitStack() as stack:
        for owner, name, defective in TAKEN_OUT[number]:
            stack.enter_context(patch.object(owner, name, defective))
        yield
