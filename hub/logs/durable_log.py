"""The log of a durable topic: its ledgers in order, and the positions of its messages in them.

The log makes a ledger at the first publish, not at the claim. The range record names it before its first message is
acknowledged, so a takeover finds all messages.

While the next ledger cannot be made, the current one goes on. It is closed last. By then its end is on record, so a
ledger that stays open because ZooKeeper does not answer does no harm.
"""

import asyncio
import bisect
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Self

from hedwig.errors import (
    BadVersionError,
    CorruptEntryError,
    HedwigError,
    InvalidArgumentError,
    LedgerError,
    LedgerStoreUnavailableError,
    NoRecordError,
    NoSuchLedgerError,
    RemoteProtocolError,
    ServiceDownError,
    TopicPersistenceInfoExistsError,
    UncertainStateError,
)
from hedwig.hub.logs.appends import Appends
from hedwig.hub.logs.ledger_ranges import ended, has_room, holds_messages, recover_ranges, to_store, without_consumed
from hedwig.hub.logs.log import LogListener, Published
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.range_merging import copy_small, with_copy
from hedwig.hub.logs.range_record import RangeRecord
from hedwig.hub.logs.recent_messages import Tail
from hedwig.hub.logs.remote_positions import bounded
from hedwig.hub.logs.repeat_window import RepeatWindow
from hedwig.hub.logs.repeats import Publisher
from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId, Topic
from hedwig.names import show_name
from hedwig.versions import NEW, Version, Versioned
from hedwig.wire import Message

__all__ = ["DurableLog"]

_log = logging.getLogger(__name__)

_EMPTY: Final = LedgerRanges()
_MERGES_MAX: Final = 4
"""How many times a call merges small ranges before other topics have a turn."""
_ROLL_WAIT_S: Final = 1.0
"""For how long publishes wait for the next ledger before the current one takes them."""
_ROLL_PAUSE_S: Final = 5.0
"""After how long the log tries again to make the next ledger, or to close the one before it."""


class DurableLog:
    """A TopicLog whose messages are in ledgers."""

    __slots__ = (
        "_appends",
        "_changing",
        "_ended",
        "_full",
        "_is_held",
        "_is_over",
        "_known_since",
        "_listener",
        "_made",
        "_record",
        "_remote",
        "_roll_at",
        "_store",
        "_tail",
        "_unclosed",
        "_waiting",
        "is_keeping",
        "last_id",
        "topic",
        "window",
    )

    def __init__(self, store: LogContext, topic: Topic, ranges: LedgerRanges, version: Version) -> None:
        """Take over a log whose ranges are all closed. Use `open` to make one."""
        self.topic = topic
        self._store = store
        self._record = RangeRecord(store, topic, ranges, version)
        end = ranges.ranges[-1].end if ranges.ranges else None
        self.last_id = end.local if end is not None else 0
        self._remote = bounded(end.remote) if end is not None else ()
        """The positions of other regions when the log was opened."""
        self._appends: Appends | None = None
        """None before the first publish."""
        self._made: int | None = None
        """A new ledger that takes no appends yet; the range record may or may not name it."""
        self._unclosed: int | None = None
        """The former ledger, until it is closed; the range record has its end, or will have it."""
        self._waiting: deque[tuple[Message, Published, Publisher | None, int]] | None = None
        self._changing: asyncio.Future[None] | None = None
        """Done when the change of ledgers under way is over. Only one runs at a time."""
        self._is_held = False
        """Whether publishes wait for that change although there is a current ledger."""
        self._roll_at = 0.0
        """When the change may be tried again, by the clock of the event loop; 0 unless it was refused or takes long."""
        self._full: LedgerRanges | None = None
        """The ranges that leave no room for one more on record."""
        self._is_over = False
        """Whether the log appends nothing any more, for good."""
        self.is_keeping = False
        self._ended: dict[int, int] | None = None
        """When the last message of closed ledgers was stored, in milliseconds since 1970, as far as it is known."""
        self._tail: Tail | None = None
        self.window: RepeatWindow | None = None
        """The window of recent publishes, once a publish has come with an attempt."""
        self._known_since = None if self.last_id else -math.inf
        """A new window needs to know nothing that was published since then; None if it must read the log."""
        self._listener: LogListener | None = None

    @classmethod
    async def open(cls, store: LogContext, topic: Topic, *, taken_over: bool, is_shut_out: bool = False) -> Self:
        """Read the ranges, make the topic if it is new, and shut out the hub that wrote its last ledger.

        A former owner may not have released the topic (`taken_over`), or have left its last ledger open. Then no write
        of it takes effect afterwards: this hub fences that ledger, and gives the range record a new version, even
        without changes. If it raises, the hub must not serve the topic.

        Nothing is written if the former owner was shut out of its shared log before the claim (`is_shut_out`). A late
        change of the ranges could only add a ledger in that log, which stays empty. This hub's next change is then
        refused, and it acquires the topic anew. An open range in a closed log counts as closed.

        Raises: MetadataError; LedgerError; TimeoutError.
        """
        # A topic that had an owner has a record, and reading it costs the store less than refusing a create.
        current = await store.persistence.read(topic) if taken_over else None
        if current is None:
            try:
                version = await store.persistence.write(topic, _EMPTY, NEW)
                return cls(store, topic, _EMPTY, version)
            except TopicPersistenceInfoExistsError as exists:
                current = exists.current
        assert current is not None, "who refuses NEW says what is there"
        return await cls.take_over(store, topic, current, is_shut_out=is_shut_out or not taken_over)

    @classmethod
    def as_recorded(cls, store: LogContext, topic: Topic, record: Versioned[LedgerRanges]) -> Self | None:
        """Return the log that a record describes; None if the record lacks the start or the end of a range.

        Nobody may be able to append to the log, as in `take_over` with `is_shut_out`.
        """
        if any(each.start is None or each.end is None for each in record.value.ranges):
            return None
        return cls(store, topic, record.value, record.version)._as_found()

    @classmethod
    async def take_over(
        cls, store: LogContext, topic: Topic, record: Versioned[LedgerRanges], *, is_shut_out: bool
    ) -> Self:
        """Open the log of a topic that has this record. See `open`."""
        ranges = record.value
        recovered = await recover_ranges(store, topic, ranges)
        version = record.version
        is_found = all(each.start is not None and (each.end or is_virtual(each.ledger_id)) for each in ranges.ranges)
        if not is_shut_out or not is_found:
            recovered = to_store(recovered)
            version = await store.persistence.write(topic, recovered, version)
            kept = {each.ledger_id for each in recovered.ranges if holds_messages(each)}
            await store.deletions.delete(each.ledger_id for each in ranges.ranges if each.ledger_id not in kept)
        log = cls(store, topic, recovered, version)
        return log._as_found() if version == record.version else log

    def _as_found(self) -> Self:
        self._record.is_as_found = True
        return self

    def attach_listener(self, listener: LogListener) -> None:
        """Set the listener of the log. Call this before anything else."""
        self._listener = listener

    @property
    def first_id(self) -> int:
        for each in self.ranges.ranges:
            if each.start is not None:
                return each.start
        return self.last_id + 1

    @property
    def has_closed(self) -> bool:
        ranges = self.ranges.ranges
        # The ledgers that a change in doubt dropped are deleted once its outcome is known.
        is_closed = bool(ranges) and ranges[0].end is not None and holds_messages(ranges[0])
        return self._record.is_in_doubt or (is_closed and not self._is_kept(ranges[0]))

    @property
    def is_recent(self) -> bool:
        return self._appends is not None and self._store.repeats.is_recent(self._appends.stored_ms)

    @property
    def is_idle(self) -> bool:
        is_reading = self.window is not None and self.window.is_reading
        return not self.is_appending and not is_reading and self._changing is None

    @property
    def is_appending(self) -> bool:
        """Whether publishes are on their way, or wait for a ledger."""
        return bool(self._waiting) or (self._appends is not None and not self._appends.is_idle)

    @property
    def ranges(self) -> LedgerRanges:
        return self._record.ranges

    # ---------------------------------------------------------------------------------------------- publishing

    def publish(self, message: Message, done: Published) -> None:
        self.append(message, done, None, 0)

    def publish_once(
        self,
        message: Message,
        done: Published,
        publisher: bytes,
        sequence: int,
        previous: int,
        answered: int,
        age_ms: int,
    ) -> None:
        window = self.window
        if window is None:
            if not self._store.repeats.is_on:
                done(0, (), ServiceDownError("this hub does not recognise a message that is published again"))
                return
            window = self.window = RepeatWindow(self._store, self, self._known_since)
        window.publish(message, done, publisher, sequence, previous, answered, age_ms)

    def on_window_over(self, window: RepeatWindow, known_since: float | None) -> None:
        """Drop the window. If `known_since` is given, nothing that was published since then is in need of one."""
        if self.window is window:
            self.window, self._known_since = None, known_since

    def append(self, message: Message, done: Published, publisher: Publisher | None, sequence: int) -> None:
        """Make a message part of the topic, as `publish` does, and tell its publisher the position."""
        if self._failed:
            done(0, (), ServiceDownError(f"topic '{show_name(self.topic)}' recovers from a failed write; try again"))
        elif self._ledger_id is None or self._is_held:
            self._wait(message, done, publisher, sequence)
        else:
            self._append(message, done, publisher, sequence)

    def _wait(self, message: Message, done: Published, publisher: Publisher | None, sequence: int) -> None:
        """Queue a publish until there is a ledger for it, unless too many wait."""
        if self._waiting is None:
            self._waiting = deque()
        if len(self._waiting) >= self._store.options.topic_requests_max:
            done(0, (), ServiceDownError(f"too many publishes wait for topic '{show_name(self.topic)}'; try again"))
            return
        self._waiting.append((message, done, publisher, sequence))
        if publisher is not None:
            publisher.place(sequence, 0)
        if self._changing is None:
            self._begin_ledger()

    def _append(self, message: Message, done: Published, publisher: Publisher | None, sequence: int) -> None:
        appends = self._appends
        assert appends is not None
        if not appends.append(message, done, publisher, sequence):
            if publisher is not None:
                publisher.drop(sequence)
            return
        is_full = appends.is_full
        if is_full or self._unclosed is not None:
            self._is_held = is_full and not self._roll_at
            if self._changing is None and (not self._roll_at or asyncio.get_running_loop().time() >= self._roll_at):
                self._begin_ledger()

    def on_stored(self, stored: bytes) -> None:
        """Receive the message after `last_id`, which has just become part of the topic."""
        self.last_id += 1
        if self.window is not None and self.window.repeats:
            self.window.on_stored(self.last_id, stored)
        listener = self._listener
        if listener is not None and listener.has_attached:
            if self._tail is None:
                self._tail = Tail(self._store.tails)
            self._tail.put(self.last_id, stored)
            listener.on_message(self.last_id, stored)

    def on_refused(self, error: HedwigError, last: int) -> None:
        """Record that the messages behind the position `last` are surely not stored, or nobody may rely on them.

        Those that wait are refused, since these come first if they are sent again. One that is refused for its content
        does not come again.
        """
        if self.window is not None:
            self.window.forget_after(last, error)
        if not isinstance(error, InvalidArgumentError):
            self._drop_waiting(error)

    def on_failed(self, error: HedwigError) -> None:
        """Give up the topic: the content of the ledger is unknown, or another hub owns it by now."""
        self._give_up(error)

    @property
    def _ledger_id(self) -> int | None:
        """The current ledger."""
        return self._appends.ledger_id if self._appends is not None else None

    @property
    def _failed(self) -> bool:
        """Whether the log cannot append, for good or until the effect of a failed write is known."""
        return self._is_over or (self._appends is not None and self._appends.has_failed)

    def _give_up(self, error: HedwigError) -> None:
        self._drop_all(error)
        self._let_go()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.on_lost(error)

    def _let_go(self) -> None:
        """Append no more; leave open ledgers as they are, for the next owner of the topic."""
        self._end_appends()
        if self.window is not None:
            self.window.end(keeps=False)
        for ledger_id in (self._ledger_id, self._made, self._unclosed):
            if ledger_id is not None:
                self._store.ledgers.let_go(ledger_id)

    def _end_appends(self) -> None:
        self._is_over = True
        if self._appends is not None:
            self._appends.end()

    def _drop_waiting(self, error: HedwigError) -> None:
        """Refuse the waiting publishes: whatever happened to the ledger, the hub has sent none of them."""
        waiting, self._waiting = self._waiting, None
        refusal = self._not_begun(error)
        for _, done, publisher, sequence in waiting or ():
            if publisher is not None:
                publisher.take_back(sequence)
            done(0, (), refusal)

    def _drop_all(self, error: HedwigError) -> None:
        """Refuse the publishes that wait, also those that wait until the log is read."""
        if self.window is not None:
            self.window.refuse_waiting(self._not_begun(error))
        self._drop_waiting(error)

    def _not_begun(self, error: HedwigError) -> HedwigError:
        """Return the error of publishes that are not begun, because of `error`."""
        if error.happened == "no" and not isinstance(error, BadVersionError | NoRecordError | InvalidArgumentError):
            return error
        # It is about another message, or a record that publishers do not know. For them, the hub could not serve.
        return ServiceDownError(f"topic '{show_name(self.topic)}' cannot go on; try again ({error})")

    # ------------------------------------------------------------------------------------------------- ledgers

    def _begin_ledger(self) -> None:
        self._changing = asyncio.get_running_loop().create_future()
        if self._appends is None:
            self._appends = Appends(self._store, self, self._remote)
        self._store.tasks.start(self._make_ledger())

    async def _make_ledger(self) -> None:
        """Make the next ledger and change to it. If that takes long, the current one takes publishes meanwhile."""
        loop, store, appends = asyncio.get_running_loop(), self._store, self._appends
        assert appends is not None
        refused: HedwigError = ServiceDownError("a write before it failed; try again")
        patience = loop.call_later(_ROLL_WAIT_S, self._wait_no_longer)
        try:
            while not self._failed:
                async with store.ledger_turn():
                    if appends.ledger_id is not None:
                        await self._close_former()
                        if not appends.is_full:
                            break
                    if self._made is None:
                        self._check_room()
                        self._made = await store.new_ledger(self.topic)
                    patience.cancel()
                    await self._change_over(appends, self._made)
                patience = loop.call_later(_ROLL_WAIT_S, self._wait_no_longer)
            self._roll_at = 0.0
        except (HedwigError, TimeoutError) as exc:
            refused = _as_error(exc)
            _log.warning("topic '%s': cannot change its ledger for now: %s", show_name(self.topic), refused)
            self._roll_at = loop.time() + _ROLL_PAUSE_S
        except Exception as exc:
            _log.exception("topic '%s': cannot change its ledger", show_name(self.topic))
            self._give_up(ServiceDownError(f"the hub failed: {exc!r}"))
        finally:
            patience.cancel()
            changing, self._changing = self._changing, None
            assert changing is not None, "nobody else ends it"
            changing.set_result(None)
        if self._is_over:
            self._let_go()  # A ledger may have been made meanwhile.
        if appends.ledger_id is None:
            self._drop_waiting(refused)
        self._append_waiting()

    def _check_room(self) -> None:
        """Raise ServiceDownError unless the record has room for one more range and its end."""
        if self._full is not self.ranges:
            if has_room(self.ranges):
                return
            self._full = self.ranges
            if self._listener is not None:
                self._listener.on_ledger_closed()  # Retention should remove ranges from the record.
        raise ServiceDownError(
            f"topic '{show_name(self.topic)}' has {len(self.ranges.ranges):,} ledgers, and its record has no room for "
            "one more; try again when subscribers have consumed some of them"
        )

    def _wait_no_longer(self) -> None:
        """Let the current ledger, if there is one, take publishes until the next one is ready."""
        self._roll_at = asyncio.get_running_loop().time()
        self._append_waiting()

    def _append_waiting(self) -> None:
        self._is_held = False
        if self._failed:
            self._drop_waiting(ServiceDownError("a write before it failed; try again"))
        while self._waiting and self._ledger_id is not None and not self._is_held:
            self._append(*self._waiting.popleft())
        if not self._waiting:
            self._waiting = None

    async def _change_over(self, appends: Appends, made: int) -> None:
        """Append to a new ledger, once the range record names it.

        Raises: HedwigError - the current ledger goes on, or there is none until the outcome of a change in doubt is
            known.
        """
        self._is_held = True
        opened: LedgerRange | None = None
        try:
            await _settled(appends)
            if not self._failed and (appends.ledger_id is None or appends.is_full):
                opened = LedgerRange(ledger_id=made, start=self.last_id + 1)
                await self._change(partial(self._opened, opened=opened))
        finally:
            # An earlier change in doubt may have put it on record, whatever the outcome of this one.
            if all(each.ledger_id != made for each in self.ranges.ranges):
                # Refused appends may have made room in the current ledger again.
                self._made = None
                self._wait_no_longer()
                await self._store.drop(made)
            elif appends.ledger_id is not None:
                # The record names the new ledger, or may. Then no append may follow the end of the current one.
                appends.ledger_id, self._unclosed = None, appends.ledger_id
        if opened is None or self._made is None or self._is_over:
            return
        appends.begin(made)
        self._made = None
        self._roll_at = 0.0
        if self._listener is not None:
            self._listener.on_ledger_closed()
        self._append_waiting()

    def _opened(self, ranges: LedgerRanges, opened: LedgerRange) -> LedgerRanges:
        """Return the ranges with `opened` as the last one. A write whose answer was lost may have added it already."""
        if opened in ranges.ranges:
            return ranges
        return replace(ranges, ranges=(*filter(holds_messages, self._sealed(ranges).ranges), opened))

    async def _close_former(self) -> None:
        """Close the former ledger. Raises: LedgerStoreUnavailableError, TimeoutError."""
        ledger_id = self._unclosed
        if ledger_id is None:
            return
        try:
            await self._store.within(self._store.ledgers.close(ledger_id))
        except (LedgerStoreUnavailableError, TimeoutError):
            raise
        except LedgerError as exc:
            _log.info("topic '%s': ledger %d is not closed: %s", show_name(self.topic), ledger_id, exc)
        self._unclosed = None

    def _sealed(self, ranges: LedgerRanges) -> LedgerRanges:
        """Return the ranges with the end of the last ledger; without that ledger, if it is empty."""
        if not ranges.ranges or ranges.ranges[-1].end is not None:
            return ranges
        *before, last = ranges.ranges
        appends = self._appends
        assert appends is not None, "no other range is open"
        self._note_end(last.ledger_id, appends.stored_ms)
        end = MessageSeqId(self.last_id, appends.remote)
        return replace(ranges, ranges=ended(tuple(before), last, self.last_id - appends.start, end))

    async def _change(self, function: Callable[[LedgerRanges], LedgerRanges]) -> int:
        """Change the range record, and delete the ledgers that it drops; return how many messages these held.

        If another hub owns the record, the topic is given up.

        Raises: as `RangeRecord.change`.
        """
        try:
            gone = await self._record.change(function, self._is_owned)
        except HedwigError as exc:
            if self._record.is_lost:
                late = ServiceDownError(f"a late write of its former owner changed topic '{show_name(self.topic)}'")
                self._give_up(late if self._record.is_as_found else exc)
            raise
        await self._store.deletions.delete(each.ledger_id for each in gone)
        return sum(each.end.local - each.start + 1 for each in gone if each.end and each.start)

    async def _is_owned(self) -> bool:
        return self._listener is not None and await self._listener.is_owned()

    # ------------------------------------------------------------------------------------------------- reading

    def recent(self, local: int) -> bytes | None:
        return self._tail.get(local) if self._tail is not None else None

    def forget_recent(self) -> None:
        """Drop the messages in memory, because no subscriber is attached any more."""
        if self._tail is not None:
            self._tail.clear()
            self._tail = None

    async def read(self, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        if local > self.last_id:
            return ()
        while True:
            each = self._range_of(local)
            try:
                entries = await self._read_of(each, local, messages_max, bytes_max)
            except NoSuchLedgerError:
                # The ledger may have been merged or deleted meanwhile. Then the ranges have changed.
                if self._range_of(local).ledger_id == each.ledger_id:
                    raise
            else:
                return entries[: self.last_id - local + 1]

    def _range_of(self, local: int) -> LedgerRange:
        """Return the range of a message. Raises: NoSuchLedgerError - it was deleted."""
        ranges = self.ranges.ranges
        index = bisect.bisect_right(ranges, local, key=lambda each: each.start or 0) - 1
        each = ranges[max(index, 0)]
        if not (each.start or 0) <= local:
            raise NoSuchLedgerError(f"message {local} of topic '{show_name(self.topic)}' was deleted")
        return each

    async def _read_of(self, each: LedgerRange, local: int, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        store, ledger_id, start = self._store, each.ledger_id, each.start or 0
        for is_at_hand in (each.end is None, True):
            entries = await store.read(ledger_id, local - start, entries_max=messages_max, bytes_max=bytes_max)
            if entries:
                return entries
            if not is_at_hand:
                # A former owner may not have closed it. Then only recovery finds its last entries.
                await store.within(store.ledgers.open_and_fence(ledger_id))
        raise LedgerError(f"ledger {ledger_id} ends before message {local} of topic '{show_name(self.topic)}'")

    async def bytes_from(self, local: int, *, enough: int) -> int:
        size = 0
        while (local := max(local, self.first_id)) <= self.last_id and size <= enough:
            each = self._range_of(local)
            first = local - (each.start or 0)
            try:
                size += await self._store.bytes_from(each.ledger_id, first, enough=enough - size)
            except NoSuchLedgerError:
                # As in `read`.
                if local >= self.first_id and self._range_of(local).ledger_id == each.ledger_id:
                    raise
            else:
                if each.end is None:
                    break
                local = each.end.local + 1
        return size

    # ------------------------------------------------------------------------------------- retention and close

    async def delete_consumed(self, consumed: int) -> int:
        deletable = await self._deletable(consumed)
        deleted = await self._change(lambda ranges: without_consumed(ranges, deletable))
        if self._ended is not None:
            kept = {each.ledger_id for each in self.ranges.ranges}
            self._ended = {key: value for key, value in self._ended.items() if key in kept} or None
        return deleted

    async def _deletable(self, consumed: int) -> int:
        """Return the last consumed message that is not kept. Raises: LedgerError, TimeoutError."""
        self.is_keeping = False
        if not self._store.repeats.is_on:
            return consumed
        appends = self._appends
        if appends is not None and appends.found_ms is None:
            # A range of this owner may have no publishers, and those that it has found may have some.
            appends.found_ms = await self._stored_ms(appends.first - 1) if self.first_id < appends.first else 0
        for each in reversed(self.ranges.ranges):
            if each.end is None or not holds_messages(each) or each.end.local > consumed:
                continue
            if self._ended is None or each.ledger_id not in self._ended:
                self._note_end(each.ledger_id, await self._stored_ms(each.end.local))
            if not self._is_kept(each):
                return each.end.local
            self.is_keeping = True
        return 0

    async def _stored_ms(self, local: int) -> int:
        """Return when a message was stored; 0 if it does not say. Raises: LedgerError, TimeoutError."""
        try:
            stored = await self.read(local, messages_max=1, bytes_max=1)
            return Message.decode(stored[0]).stored_ms or 0
        except (CorruptEntryError, RemoteProtocolError):
            return int(self._store.clock.wall() * 1000)  # It is kept for once as long as if it were new.

    def _note_end(self, ledger_id: int, stored_ms: int) -> None:
        if self._store.repeats.is_on:
            if self._ended is None:
                self._ended = {}
            self._ended[ledger_id] = stored_ms

    def _is_kept(self, each: LedgerRange) -> bool:
        """Say whether a message of a closed range may be published again, as far as this is known."""
        repeats = self._store.repeats
        if self._ended is None or each.end is None or each.end.local <= self.last_id - repeats.messages_max:
            return False
        stored_ms = self._ended.get(each.ledger_id)
        if stored_ms is None:
            return False
        found_ms = self._appends.found_ms if self._appends is not None else None
        return repeats.is_recent(max(stored_ms, found_ms or 0))

    async def end_ledger(self) -> None:
        appends = self._appends
        if self._changing is not None or self._failed or appends is None or appends.ledger_id is None:
            return
        if appends.is_empty:
            return
        self._changing = changing = asyncio.get_running_loop().create_future()
        self._is_held = True
        try:
            async with self._store.ledger_turn():
                await _settled(appends)
                if not self._failed:
                    await self._end_at_hand(appends)
                    await self._close_former()
        finally:
            self._changing = None
            changing.set_result(None)
            if self._is_over:
                self._let_go()
            self._append_waiting()
            if self._waiting:
                self._begin_ledger()

    async def _end_at_hand(self, appends: Appends) -> None:
        await self._close_former()
        try:
            await self._change(self._sealed)
        finally:
            ranges = self.ranges.ranges
            if not ranges or ranges[-1].end is not None:
                # Its end is on record, or may be, so no append may follow that end.
                appends.ledger_id, self._unclosed = None, appends.ledger_id

    async def merge_small(self) -> bool:
        for _ in range(_MERGES_MAX):
            copy = await copy_small(self._store, self.topic, self.ranges)
            if copy is None:
                return False
            try:
                await self._change(partial(with_copy, copy=copy))
            finally:
                if all(each.ledger_id != copy.ledger_id for each in self.ranges.ranges):
                    await self._store.drop(copy.ledger_id)
        return True

    async def close(self) -> None:
        try:
            await self._close()
        finally:
            self._let_go()

    async def _close(self) -> None:
        store = self._store
        while True:
            appends = self._appends
            if appends is not None and appends.ledger_id is not None and not appends.is_idle:
                # If no bookie is left, a close does not wait for one, but an append does.
                await store.within(store.ledgers.close(appends.ledger_id))
                await appends.settle()
            elif self._changing is not None:
                await asyncio.wait([self._changing])
            else:
                break
        if self._failed:
            return
        self._end_appends()
        self._drop_waiting(ServiceDownError(f"topic '{show_name(self.topic)}' is being released; try again"))
        if appends is not None and (ledger_id := appends.ledger_id) is not None:
            last_id = appends.start + await store.within(store.ledgers.close(ledger_id))
            appends.ledger_id = None
            if last_id != self.last_id:
                raise LedgerError(
                    f"ledger {ledger_id} of topic '{show_name(self.topic)}' ends at {last_id}, not at {self.last_id}"
                )
            await self._change(self._sealed)
        await self._close_former()
        await store.within(store.ledgers.settle(self._ledger_ids))

    def abandon(self) -> None:
        self._drop_all(ServiceDownError(f"topic '{show_name(self.topic)}' was released; try again"))

    async def end(self) -> bool:
        self._let_go()
        self.abandon()
        try:
            gone = await self._record.end(self._is_owned)
        except UncertainStateError as exc:
            _log.warning("%s", exc)
            return False
        await self._store.deletions.delete(each.ledger_id for each in gone)
        # No other hub can shut this one out of one ledger of a shared log alone, or read what is not sealed there.
        return not self._is_open_in_log and self._store.ledgers.is_settled(self._ledger_ids)

    @property
    def _ledger_ids(self) -> list[int]:
        return [each.ledger_id for each in self.ranges.ranges]

    @property
    def _is_open_in_log(self) -> bool:
        """Whether the record names a ledger of a shared log as one that may take more messages."""
        return any(each.end is None and is_virtual(each.ledger_id) for each in self.ranges.ranges)


def _as_error(exc: HedwigError | TimeoutError) -> HedwigError:
    return exc if isinstance(exc, HedwigError) else ServiceDownError("the ledgers did not answer in time")


async def _settled(appends: Appends) -> None:
    """Wait for the appends on their way. Raises: LedgerStoreUnavailableError - they take too long."""
    try:
        await appends.settle()
    except TimeoutError as exc:
        raise LedgerStoreUnavailableError("the appends on their way take too long") from exc
