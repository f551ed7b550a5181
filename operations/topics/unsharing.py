"""The way back from shared logs: the messages that topics have there are copied into ledgers of their own.

A copy has the same messages under the same ids. Once it is closed, one compare-and-set names it instead of the ledger
in the log. What happens at the same time:

- A range is copied only once it is closed. If the last one of a topic is open in the log of a dead hub, that log is
  closed first, as the next owner of the topic would do. If its hub is alive, the topic is left.
- A hub that changes the record of the topic meanwhile is the faster one. The copies are deleted, and made anew.
- A hub that read the record before the change has the former ranges in memory. So the owner releases the topic before,
  and once more if there is an owner afterwards. Until then the former ledgers are there: a sweep frees what no range
  named in the last hour.

Whatever ends the work in between, a record names the former ledgers or complete copies.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from hedwig.errors import (
    BadVersionError,
    CorruptEntryError,
    CorruptRecordError,
    HedwigError,
    LedgerError,
    NoRecordError,
    OperationError,
    RemoteProtocolError,
)
from hedwig.metadata import MetadataStore, Read, RecordKey
from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.metadata.records.ranges import held_ledgers
from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId, Topic
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.ledgers import ledger_name
from hedwig.operations.deployment.topic_owner import OwnerFinder, OwnerState, TopicOwner
from hedwig.operations.topics.releases import release
from hedwig.versions import Version
from hedwig.wire import Message

if TYPE_CHECKING:
    from hedwig.hub.ledgers.shared.store import SharedLedgerStore

__all__ = ["UnshareResult", "Unshared", "Unsharing", "shared_ranges"]

T = TypeVar("T")
U = TypeVar("U")

_TRIES: Final = 5
"""How often others may change the record of a topic first before it is left."""
_TOPICS_AT_ONCE: Final = 8
_RELEASES_AT_ONCE: Final = 16
"""Hubs seal a segment for all releases of a moment together."""
_RANGES_MAX: Final = 64
_BYTES_MAX: Final = 256 << 20
"""What is copied before the record is changed. A copy that is not on record is an orphan after an hour."""
_READ_ENTRIES: Final = 256
_READ_BYTES: Final = 1 << 20


class UnshareResult(StrEnum):
    """What became of a topic."""

    UNSHARED = "unshared"
    UNCHANGED = "unchanged"
    """It had no messages in shared logs."""
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unshared:
    """What was done for a topic: how many ledgers, messages and bytes were copied. `why` says why it was left."""

    topic: Topic
    result: UnshareResult = UnshareResult.UNCHANGED
    ledgers: int = 0
    messages: int = 0
    message_bytes: int = 0
    why: str | None = None


@dataclass(frozen=True, slots=True)
class _Copy:
    """A closed ledger with the messages of a range."""

    ledger_id: int
    each: LedgerRange
    size: int


class _CannotBeCopiedError(Exception):
    """The ranges of a topic stay as they are. The text says why."""


def shared_ranges(ranges: LedgerRanges) -> list[LedgerRange]:
    """Return the ranges that have messages in shared logs, or may get some."""
    return [each for each in held_ledgers(ranges) if is_virtual(each.ledger_id)]


class Unsharing:
    """Copies the messages of topics out of the shared logs. `say` gets a line about what needs attention."""

    def __init__(
        self,
        deployment: Deployment,
        store: MetadataStore,
        watch: FreezeWatch,
        ledgers: "SharedLedgerStore",
        say: Callable[[str], None],
    ) -> None:
        self._deployment = deployment
        self._store = store
        self._watch = watch
        self._ledgers = ledgers
        self._say = say

    async def unshare(self, topics: Sequence[Topic]) -> list[Unshared]:
        """Do it for a few topics, and return what became of each.

        Raises: MetadataError, OperationError - the store or the cluster does not answer; what was reported is done.
        """
        outcomes = await self._store.persistence.apply([Read(RecordKey(topic)) for topic in topics])
        left: dict[Topic, str] = {}
        shared: list[Topic] = []
        for topic, outcome in zip(topics, outcomes, strict=True):
            if isinstance(outcome.error, CorruptRecordError):
                left[topic] = str(outcome.error)
                continue
            outcome.check()
            if outcome.record is not None and shared_ranges(outcome.record.value):
                shared.append(topic)
        left |= await self._released(shared)
        free = [topic for topic in shared if topic not in left]
        done = await self._side_by_side(self._unshare, free, _TOPICS_AT_ONCE)
        changed = [each.topic for each in done if each.ledgers or each.result is UnshareResult.UNSHARED]
        for why in (await self._released(changed)).values():
            self._say(f"{why}. It reads the former ledgers, which go in an hour: have it release the topic")
        results = {each.topic: each for each in done}
        results |= {topic: Unshared(topic=topic, result=UnshareResult.LEFT, why=why) for topic, why in left.items()}
        return [results.get(topic) or Unshared(topic=topic) for topic in topics]

    # --------------------------------------------------------------------------------------------------------- owners

    async def _released(self, topics: Sequence[Topic]) -> dict[Topic, str]:
        """Have living owners release topics; return the topics that are not released, and why."""
        if not topics:
            return {}
        # A new one each time, since it asks only once who is alive.
        finder = OwnerFinder(self._deployment)
        owners = await asyncio.to_thread(finder.find_all, topics)
        owned = [owner for owner in owners if owner.state in (OwnerState.ALIVE, OwnerState.UNKNOWN)]
        whys = await self._side_by_side(self._why_not_released, owned, _RELEASES_AT_ONCE)
        return {owner.topic: why for owner, why in zip(owned, whys, strict=True) if why is not None}

    async def _why_not_released(self, owner: TopicOwner) -> str | None:
        try:
            await asyncio.to_thread(release, self._deployment, owner)
        except OperationError as exc:
            return str(exc)
        return None

    async def _side_by_side(self, work: Callable[[U], Awaitable[T]], items: Sequence[U], most: int) -> list[T]:
        """Return what `work` returns for each item. If one raises, or if this is cancelled, all have ended before."""
        turns = asyncio.Semaphore(most)

        async def in_turn(item: U) -> T:
            async with turns:
                return await work(item)

        outcomes = await asyncio.gather(*map(in_turn, items), return_exceptions=True)
        results: list[T] = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            results.append(outcome)
        return results

    # --------------------------------------------------------------------------------------------------------- topics

    async def _unshare(self, topic: Topic) -> Unshared:
        done = Unshared(topic=topic)
        refused = 0
        while refused < _TRIES:
            current = await self._store.persistence.read(topic)
            if current is None or not shared_ranges(current.value):
                return done
            try:
                ranges = await self._closed(current.value)
                copies = await self._copies(topic, shared_ranges(ranges))
            except (_CannotBeCopiedError, LedgerError, TimeoutError) as exc:
                return replace(done, result=UnshareResult.LEFT, why=str(exc) or "its ledgers did not answer in time")
            if not await self._put(topic, _with_copies(ranges, copies), current.version, copies):
                refused += 1
                continue
            refused = 0
            done = replace(
                done,
                result=UnshareResult.UNSHARED,
                ledgers=done.ledgers + len(copies),
                messages=done.messages + sum(_messages(each.each) for each in copies),
                message_bytes=done.message_bytes + sum(each.size for each in copies),
            )
        return replace(done, result=UnshareResult.LEFT, why="others changed its record again and again; try again")

    async def _closed(self, ranges: LedgerRanges) -> LedgerRanges:
        """Return the ranges with the end of the last one, if that is in a shared log."""
        *before, last = ranges.ranges
        if any(each.end is None and is_virtual(each.ledger_id) for each in before):
            raise _CannotBeCopiedError("a range without an end is not its last: see hedwig-admin metadata check")
        if last.end is not None or not is_virtual(last.ledger_id):
            return ranges
        if last.start is None:
            raise _CannotBeCopiedError(
                f"the record does not say with which message {ledger_name(last.ledger_id)} begins"
            )
        entry = await self._watch.carry_out(lambda: self._ledgers.open_and_fence(last.ledger_id))
        former = before[-1].end if before else None
        end = MessageSeqId(last.start + entry, former.remote if former is not None else ())
        if entry >= 0:
            return replace(ranges, ranges=(*before, replace(last, end=await self._end(last, entry, end))))
        if former is not None and former.local == last.start - 1:
            return replace(ranges, ranges=tuple(before))
        # Without it, the record would not say which message comes next.
        return replace(ranges, ranges=(*before, replace(last, end=end)) if last.start > 1 else tuple(before))

    async def _end(self, last: LedgerRange, entry: int, end: MessageSeqId) -> MessageSeqId:
        """Return the position of the last message of a range as stored in the message; `end` if that is damaged."""
        try:
            (stored,) = await self._ledgers.read(last.ledger_id, entry, entries_max=1, bytes_max=1)
        except CorruptEntryError:
            return end
        return _position(last, stored, end.local)

    async def _copies(self, topic: Topic, ranges: Sequence[LedgerRange]) -> list[_Copy]:
        """Copy some ranges, from the first on. If it raises, it leaves no ledger behind."""
        copies: list[_Copy] = []
        try:
            for each in ranges[:_RANGES_MAX]:
                copies.append(await self._copy(topic, each))
                if sum(copy.size for copy in copies) >= _BYTES_MAX:
                    break
        except BaseException:
            await asyncio.shield(self._discard([copy.ledger_id for copy in copies]))
            raise
        return copies

    async def _copy(self, topic: Topic, each: LedgerRange) -> _Copy:
        doubtful: list[tuple[int, int]] = []
        made: list[int] = []
        try:
            made.append(await self._ledgers.create({"topic": topic}, lambda *doubt: doubtful.append(doubt)))
            size = await self._fill(made[0], each)
            last = await self._ledgers.close(made[0])
            if last != _messages(each) - 1:
                raise LedgerError(f"ledger {made[0]} ends at entry {last}, not at {_messages(each) - 1}")
        except BaseException:
            await asyncio.shield(self._discard(made, doubtful))
            raise
        return _Copy(made[0], each, size)

    async def _fill(self, ledger_id: int, each: LedgerRange) -> int:
        """Append the messages of a range to a new ledger, and return their size."""
        assert each.start is not None, "else it is left"
        entry = size = 0
        while entry < _messages(each):
            payloads = await self._read(each, entry, min(_READ_ENTRIES, _messages(each) - entry))
            _position(each, payloads[0], each.start + entry)
            appends = [
                self._ledgers.start_append(ledger_id, entry + index, item) for index, item in enumerate(payloads)
            ]
            await asyncio.gather(*appends)
            entry += len(payloads)
            size += sum(map(len, payloads))
        return size

    async def _read(self, each: LedgerRange, entry: int, most: int) -> list[bytes]:
        async def read() -> list[bytes]:
            return await self._ledgers.read(each.ledger_id, entry, entries_max=most, bytes_max=_READ_BYTES)

        payloads = await read()
        if not payloads:
            # Its hub is dead, and has not sealed it.
            await self._watch.carry_out(lambda: self._ledgers.open_and_fence(each.ledger_id))
            payloads = await read()
        if not payloads:
            assert each.start is not None, "else it is left"
            raise _CannotBeCopiedError(f"{ledger_name(each.ledger_id)} ends before message {each.start + entry}")
        return payloads

    async def _put(self, topic: Topic, ranges: LedgerRanges, version: Version, copies: Sequence[_Copy]) -> bool:
        """Write the record; return False, with the copies deleted, if others have changed it.

        If it raises, the copies are deleted unless the record names them, or may.
        """
        is_begun = is_written = False

        async def write() -> None:
            nonlocal is_begun, is_written
            is_begun = True
            await self._store.persistence.write(topic, ranges, version)
            is_written = True

        writing = asyncio.ensure_future(self._watch.carry_out(write))
        try:
            await asyncio.wait([writing])
        finally:
            # It goes on if this is cancelled, and the store ends it in time. Then it is known which ledgers are needed.
            await asyncio.wait([writing])
            error = writing.exception()
            is_surely_not = not is_begun or (isinstance(error, HedwigError) and error.happened == "no")
            if not is_written and is_surely_not:
                await asyncio.shield(self._discard([copy.ledger_id for copy in copies]))
        if isinstance(error, BadVersionError | NoRecordError):
            return False
        if error is not None:
            raise error
        return True

    async def _discard(self, ledger_ids: Sequence[int], doubtful: Sequence[tuple[int, int]] = ()) -> None:
        """Delete ledgers that no record names, and those that may have been made."""
        for ledger_id in ledger_ids:
            await self._gone(ledger_id, self._ledgers.delete(ledger_id))
        for ledger_id, token in doubtful:
            await self._gone(ledger_id, self._ledgers.undo(ledger_id, token))

    async def _gone(self, ledger_id: int, deletion: Awaitable[None]) -> None:
        try:
            await deletion
        except (HedwigError, TimeoutError) as exc:
            self._say(
                f"ledger {ledger_id} is of no use, and may be left: {exc}; see hedwig-admin ledger delete-orphans"
            )


def _messages(each: LedgerRange) -> int:
    assert each.start is not None, "else it is left"
    assert each.end is not None, "it is closed"
    return each.end.local - each.start + 1


def _with_copies(ranges: LedgerRanges, copies: Sequence[_Copy]) -> LedgerRanges:
    ids = {copy.each.ledger_id: copy.ledger_id for copy in copies}
    return replace(
        ranges,
        ranges=tuple(replace(each, ledger_id=ids.get(each.ledger_id, each.ledger_id)) for each in ranges.ranges),
    )


def _position(each: LedgerRange, stored: bytes, local: int) -> MessageSeqId:
    """Return the position of a message, which must have the id `local`."""
    try:
        seq_id = Message.decode(stored).seq_id
    except RemoteProtocolError as exc:
        raise _CannotBeCopiedError(f"{ledger_name(each.ledger_id)} holds what is no message: {exc}") from exc
    if seq_id is None or seq_id.local != local:
        raise _CannotBeCopiedError(f"{ledger_name(each.ledger_id)} holds message {seq_id}, not {local}")
    return seq_id
