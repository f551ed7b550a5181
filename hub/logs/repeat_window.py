"""The window of a topic: its recent publishes, by publisher and sequence, so that a repeat is stored once.

A publisher that gets no answer sends its message again. The window says whether the message is stored already, and
where. It is complete from a moment on: since this hub owns the topic, or since the oldest message that it has read in
the log. The messages of a publisher are stored in the order of their sequences. So one that is higher than all that the
window knows of its publisher is not stored yet.
"""

import logging
import math
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from hedwig.errors import (
    CorruptEntryError,
    HedwigError,
    InvalidArgumentError,
    LedgerError,
    MalformedRequestError,
    NoSuchLedgerError,
    RemoteProtocolError,
    ServiceDownError,
    UncertainAnswerError,
)
from hedwig.hub.logs.log import Published
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.repeats import CLOCKS_DIFFER_S, ROOM, Publisher
from hedwig.model import Topic
from hedwig.names import show_name
from hedwig.wire import Message

__all__ = ["RepeatWindow"]

_log = logging.getLogger(__name__)

_PUBLISHER_UNITS: Final = 5
"""The memory of a publisher in a window, beside its messages. Most windows have only one."""
_READ_MESSAGES: Final = 256
_READ_BYTES: Final = 1 << 20
_READ_BYTES_MAX: Final = 16 << 20
"""How many bytes of a log are read for a window."""
_READ_SHARE: Final = 0.25
"""For which part of the time of an operation a log is read. What is read by then makes a shorter window."""
_PURGED_FROM: Final = 16
"""From how many publishers on a window drops those that have published nothing for its length."""
_UNITS_MAX: Final = 8
"""How much a window may hold, in units for each message that is kept. Beyond, the older half of its publishers goes."""

_Waiting: TypeAlias = tuple[Message, Published, bytes, int, int, int, int]
"""The arguments of `RepeatWindow.publish`."""


class WindowedLog(Protocol):
    """The log of a topic, as its window uses it."""

    topic: Topic
    last_id: int

    @property
    def first_id(self) -> int: ...
    @property
    def is_appending(self) -> bool: ...
    def recent(self, local: int) -> bytes | None: ...
    async def read(self, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]: ...

    def append(self, message: Message, done: Published, publisher: Publisher, sequence: int) -> None:
        """Make a message part of the topic, as `publish` does, and tell its publisher the position."""
        ...

    def publish_once(
        self,
        message: Message,
        done: Published,
        publisher: bytes,
        sequence: int,
        previous: int,
        answered: int,
        age_ms: int,
    ) -> None: ...

    def on_window_over(self, window: "RepeatWindow", known_since: float | None) -> None:
        """Drop the window. If `known_since` is given, nothing that was published since then is in need of one."""
        ...


class RepeatWindow:
    """The window of one log. `publish` judges each publish that has a publisher, and stores it if it is new."""

    __slots__ = (
        "_latest",
        "_log",
        "_more",
        "_purged_at",
        "_repeats",
        "_since",
        "_store",
        "_units",
        "_waiting",
        "is_over",
        "repeats",
        "seen_at",
        "used_at",
    )

    def __init__(self, store: LogContext, log: WindowedLog, known_since: float | None) -> None:
        """`known_since`: no publish is stored that was begun after this moment. None: the log is read to find out."""
        self._store = store
        self._repeats = store.repeats
        self._log = log
        self._latest: Publisher | None = None
        """The publisher of the last message."""
        self._more: dict[bytes, Publisher] | None = None
        """All publishers, if there is more than one."""
        self._since = -math.inf if known_since is None else known_since
        """From when on the window is complete, in the time of `Repeats.now_s`."""
        self._waiting: deque[_Waiting] | None = None
        """The publishes that wait until the log is read."""
        self.repeats: dict[int, list[tuple[Message, Published]]] | None = None
        """The repeats of messages on their way, by the position that these will have."""
        self._units = 0
        self._purged_at = _PURGED_FROM
        """At how many publishers those that are gone are dropped."""
        self._repeats.refresh()
        self.used_at = self._repeats.now_s
        self.seen_at = 0.0
        """The same, when it was considered last whether this window may go."""
        self.is_over = False
        self._repeats.add(self)
        if known_since is None:
            self._waiting = deque()
            store.tasks.start(self._read())

    @property
    def is_reading(self) -> bool:
        """Whether publishes wait until the log is read."""
        return self._waiting is not None

    @property
    def is_busy(self) -> bool:
        """Whether publishes wait, or are on their way to the log."""
        return self._waiting is not None or self._log.is_appending

    # ---------------------------------------------------------------------------------------------- judging

    def publish(
        self,
        message: Message,
        done: Published,
        name: bytes,
        sequence: int,
        previous: int,
        answered: int,
        age_ms: int,
    ) -> None:
        """Store a message unless it is stored already, or must not be. Arguments: TopicLog.publish_once."""
        if self._waiting is not None:
            if len(self._waiting) >= self._store.options.topic_requests_max:
                topic = show_name(self._log.topic)
                done(0, (), ServiceDownError(f"too many publishes wait for topic '{topic}'; try again"))
            else:
                self._waiting.append((message, done, name, sequence, previous, answered, age_ms))
            return
        repeats = self._repeats
        if repeats.is_stale:
            repeats.refresh()
        now = repeats.now_s
        publisher = self._latest
        if publisher is None or publisher.name != name:
            publisher = self._more.get(name) if self._more is not None else None
            if publisher is not None:
                self._latest = publisher
        grown = 0
        if publisher is None:
            if (refusal := self._why_unknown(sequence, previous, age_ms, now)) is not None:
                done(0, (), refusal)
                return
            if self._more is not None and len(self._more) >= self._purged_at:
                self._purge(now, halves=len(self._more) >= repeats.messages_max)
            publisher = self._add(Publisher(name))
            publisher.answered = publisher.highest = sequence - 1
            grown = _PUBLISHER_UNITS
        else:
            if sequence <= publisher.highest:
                self._repeat(publisher, sequence, age_ms, message, done)
                return
            if previous > publisher.highest:
                done(0, (), _gap(previous))
                return
            if answered > publisher.answered:
                publisher.answered = answered
            if (entries := publisher.entries) is not None and len(entries) >= publisher.room:
                grown = self._prune(publisher)
        self.used_at = publisher.used_at = now
        self._log.append(message, done, publisher, sequence)
        if grown and not self.is_over:
            self._grow(grown)
            if self._units > _UNITS_MAX * repeats.messages_max:
                self._purge(now, halves=True)

    def knows(self, name: bytes, sequence: int) -> bool:
        publisher = self._latest
        if publisher is None or publisher.name != name:
            publisher = self._more.get(name) if self._more is not None else None
        return publisher is not None and sequence <= publisher.highest

    def _why_unknown(self, sequence: int, previous: int, age_ms: int, now: float) -> HedwigError | None:
        """Return why a publish is refused whose publisher is not in the window; None if it is new."""
        if previous:
            return _gap(previous)
        if not age_ms:
            return None
        known_s = min(now - self._since, self._repeats.window_s) - CLOCKS_DIFFER_S
        if age_ms / 1000 <= known_s:
            return None
        return ServiceDownError(
            f"message {sequence} of its publisher may have been published {age_ms / 1000:g} s ago, and this hub knows "
            f"what was published in the last {max(0.0, known_s):.0f} s"
        )

    def _repeat(self, publisher: Publisher, sequence: int, age_ms: int, message: Message, done: Published) -> None:
        local = publisher.find(sequence)
        if local is None:
            done(0, (), _not_found(publisher, sequence, age_ms))
        elif not local:
            done(0, (), ServiceDownError("the message waits for a ledger already; try again"))
        elif local > self._log.last_id:
            if self.repeats is None:
                self.repeats = {}
            self.repeats.setdefault(local, []).append((message, done))
        else:
            self._store.tasks.start(self._answer(local, message, done))

    async def _answer(self, local: int, message: Message, done: Published) -> None:
        """Answer a repeat of a stored message."""
        try:
            stored = self._log.recent(local)
            if stored is None:
                stored = (await self._store.within(self._log.read(local, messages_max=1, bytes_max=1)))[0]
            _compare(local, stored, message, done)
        except (HedwigError, TimeoutError) as exc:
            done(0, (), ServiceDownError(f"message {local}, which is published again, cannot be read: {exc}"))
        except BaseException:
            done(0, (), ServiceDownError("the topic was released; try again"))
            raise

    def on_stored(self, local: int, stored: bytes) -> None:
        """Answer the repeats of a message that has become part of the topic."""
        for message, done in (self.repeats or {}).pop(local, ()):
            _compare(local, stored, message, done)
        self.repeats = self.repeats or None

    def forget_after(self, last: int, error: HedwigError) -> None:
        """Drop the messages behind the position `last`, which are refused with this error."""
        for publisher in self._publishers():
            for sequence in [each for each, local in publisher.positions() if local > last]:
                if isinstance(error, InvalidArgumentError):
                    publisher.drop(sequence)  # It is not sent again, so those behind it go on.
                else:
                    publisher.take_back(sequence)
        self._refuse_repeats(last, error)

    def _refuse_repeats(self, last: int, error: HedwigError) -> None:
        for local in [each for each in self.repeats or () if each > last]:
            for _, done in (self.repeats or {}).pop(local):
                done(0, (), error)
        self.repeats = self.repeats or None

    # ------------------------------------------------------------------------------------------- its content

    def _publishers(self) -> list[Publisher]:
        if self._more is not None:
            return list(self._more.values())
        return [] if self._latest is None else [self._latest]

    def _add(self, publisher: Publisher) -> Publisher:
        if self._latest is not None:
            if self._more is None:
                self._more = {self._latest.name: self._latest}
            self._more[publisher.name] = publisher
        self._latest = publisher
        return publisher

    def _purge(self, now: float, *, halves: bool) -> None:
        """Drop the publishers that have published nothing for the length of the window, or the older half of all."""
        before = now - self._repeats.window_s
        publishers = self._publishers()
        if halves:
            before = max(before, sorted(each.used_at for each in publishers)[len(publishers) // 2])
            self._since = max(self._since, before)
        last = self._log.last_id
        self._latest = self._more = None
        for publisher in publishers:
            if publisher.used_at <= before and all(0 < local <= last for _, local in publisher.positions()):
                self._grow(-_PUBLISHER_UNITS - publisher.room + ROOM)
            else:
                self._add(publisher)
        self._purged_at = max(_PURGED_FROM, 2 * len(self._publishers()))

    def _prune(self, publisher: Publisher) -> int:
        """Drop messages that are not repeated any more, or make room for more; return by how much the window grows."""
        publisher.drop_answered()
        if 2 * len(publisher) <= publisher.room:
            return 0
        if publisher.room < self._repeats.messages_max:
            publisher.room *= 2
            return publisher.room // 2
        positions = sorted(publisher.positions())
        for sequence, local in positions[: len(positions) // 2]:  # Its publisher does not say what it does not repeat.
            if 0 < local <= self._log.last_id:
                publisher.drop(sequence)
        return 0

    def _grow(self, units: int) -> None:
        self._units += units
        self._repeats.count(units)

    # ----------------------------------------------------------------------------------------------- its end

    def refuse_waiting(self, error: HedwigError) -> None:
        """Refuse the publishes that wait until the log is read. Nothing was done for them."""
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, deque()
            for _, done, *_ in waiting:
                done(0, (), error)

    def end(self, *, keeps: bool) -> None:
        """Drop the content. `keeps`: the log need not be read again, since none of it counts any more."""
        if not self.is_over:
            self.is_over = True
            self._grow(-self._units)
            self._refuse_repeats(0, UncertainAnswerError("the topic was given up before the outcome was known"))
            self._log.on_window_over(self, self._since if keeps else None)

    # ------------------------------------------------------------------------------------ read from the log

    async def _read(self) -> None:
        """Read the end of the log, as far as the window reaches, and then judge the publishes that wait."""
        topic = show_name(self._log.topic)
        refusal: HedwigError = ServiceDownError(f"topic '{topic}' was released; try again")
        try:
            await self._read_back()
            waiting, self._waiting = self._waiting or (), None
            for each in waiting:
                self._log.publish_once(*each)  # The window may be over by now.
        except (HedwigError, TimeoutError) as exc:
            refusal = ServiceDownError(
                f"the last messages of topic '{topic}' cannot be read for now; try again ({exc})"
            )
            _log.warning("%s", refusal)
        finally:
            if self._waiting is not None:
                self.refuse_waiting(refusal)
                self._waiting = None
                self.end(keeps=False)

    async def _read_back(self) -> None:
        """Read page by page from the end. Each page is larger than the one before: of idle topics the first is enough.

        Raises: HedwigError, TimeoutError.
        """
        log, repeats = self._log, self._store.repeats
        repeats.refresh()
        read = _Read(repeats.stored_ms, repeats.window_s * 1000)
        until = repeats.now_s + self._store.options.operation_timeout_s * _READ_SHARE
        last = log.last_id  # Messages without a publisher may follow meanwhile.
        end, size = last + 1, 1
        first = max(log.first_id, end - repeats.messages_max)
        while end > first and not read.is_enough:
            begin = max(first, end - size)
            if not await self._read_page(begin, end, read, until):
                break
            end, size = begin, min(4 * size, _READ_MESSAGES)
        # What is deleted is older than the window, or before so many others, or has no publisher.
        is_by_age = log.first_id in (1, first) and first != last + 1 - repeats.messages_max
        is_whole = read.is_whole or (not read.is_enough and end <= first and is_by_age)
        repeats.refresh()
        now = repeats.now_s
        self._since = now - (repeats.window_s if is_whole else read.oldest_age_s)
        publishers: dict[bytes, Publisher] = {}
        for name, sequence, local, age_s in read.found:
            publisher = publishers.get(name)
            if publisher is None:
                publisher = publishers[name] = self._add(Publisher(name))
                publisher.used_at = now - age_s
            publisher.found(sequence, local)
        self._grow(sum(_PUBLISHER_UNITS + each.room - ROOM for each in publishers.values()))

    async def _read_page(self, begin: int, end: int, read: "_Read", until: float) -> bool:
        """Read the messages from `begin` on; return False if it is too late for that. The last one is always read."""
        log, at = self._log, begin
        page: list[tuple[int, Message]] = []
        while at < end:
            if end <= log.last_id and self._store.clock.monotonic() > until:
                return False
            try:
                stored = await log.read(at, messages_max=end - at, bytes_max=_READ_BYTES)
                messages = [Message.decode(each) for each in stored]
            except NoSuchLedgerError:
                if log.first_id <= at:
                    raise
                at, read.is_whole = log.first_id, True  # It was deleted meanwhile: see _read_back.
                continue
            except (CorruptEntryError, RemoteProtocolError) as exc:
                _log.error("message %d of topic '%s' is damaged: %s", at, show_name(log.topic), exc)
                # It may be of any publisher. So what is before it does not tell what is stored.
                page, at, read.is_damaged = [], at + 1, True
                continue
            if not messages:
                raise LedgerError(f"the log ends before message {at}")
            page += enumerate(messages, at)
            at += len(messages)
            read.bytes += sum(map(len, stored))
        for local, message in reversed(page):
            read.add(local, message)
        return True


class _Read:
    """What was read of a log, from its end on."""

    def __init__(self, now_ms: float, window_ms: float) -> None:
        self._now_ms = now_ms
        self._window_ms = window_ms
        self.found: list[tuple[bytes, int, int, float]] = []
        """The publisher, sequence, position and age in seconds of each message with an origin."""
        self.oldest_age_s = 0.0
        self.bytes = 0
        self.is_whole = False
        """Whether all messages were read that the window must know."""
        self.is_damaged = False

    @property
    def is_enough(self) -> bool:
        return self.is_whole or self.is_damaged or self.bytes > _READ_BYTES_MAX

    def add(self, local: int, message: Message) -> None:
        """Add the message before those that were read."""
        stored_ms = message.stored_ms
        if stored_ms is None or stored_ms < self._now_ms - self._window_ms:
            self.is_whole = True  # Older releases write no time, and no origins.
            return
        self.oldest_age_s = max(self.oldest_age_s, (self._now_ms - stored_ms) / 1000)
        if (origin := message.origin) is not None:
            self.found.append((origin.publisher, origin.sequence, local, self.oldest_age_s))


def _compare(local: int, stored: bytes, message: Message, done: Published) -> None:
    """Answer a repeat with the position of the message, if that is the same message. Raises: RemoteProtocolError."""
    found = Message.decode(stored)
    if message.is_copy_of(found):
        done(local, found.remote, None)
    else:
        done(0, (), MalformedRequestError(f"another message of its publisher has this sequence: {local}"))


def _gap(previous: int) -> HedwigError:
    return ServiceDownError(f"message {previous} of its publisher is not stored yet, and comes before it")


def _not_found(publisher: Publisher, sequence: int, age_ms: int) -> HedwigError:
    higher = f"its publisher has published message {publisher.highest}, and it is {sequence}"
    if age_ms:
        return ServiceDownError(f"{higher}, of which this hub does not know any more whether it was published")
    return MalformedRequestError(f"{higher}; sequences must grow")
