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
from functools import partial
from typing import Final, Protocol, TypeAlias

from hedwig.errors import (
    CorruptEntryError,
    HedwigError,
    LedgerError,
    MalformedRequestError,
    NoSuchLedgerError,
    RemoteProtocolError,
    ServiceDownError,
)
from hedwig.hub.logs.log import Published
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.repeats import CLOCKS_DIFFER_S
from hedwig.model import RegionSeqId, Topic
from hedwig.names import show_name
from hedwig.wire import Attempt, Message, OriginEncoder

__all__ = ["RepeatWindow"]

_log = logging.getLogger(__name__)

_PUBLISHER_UNITS: Final = 8
"""The memory of a publisher in a window, beside its messages. Most windows have only one."""
_READ_MESSAGES: Final = 256
_READ_BYTES: Final = 1 << 20
_READ_BYTES_MAX: Final = 16 << 20
"""How many bytes of a log are read for a window."""
_READ_SHARE: Final = 0.25
"""For which part of the time of an operation a log is read. What is read by then makes a shorter window."""
_PURGED_FROM: Final = 16
"""From how many publishers on a window drops those that have published nothing for its length."""

_Waiting: TypeAlias = tuple[Attempt, Message, Published]


class WindowedLog(Protocol):
    """The log of a topic, as its window uses it."""

    topic: Topic
    last_id: int

    @property
    def first_id(self) -> int: ...
    def recent(self, local: int) -> bytes | None: ...
    async def read(self, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]: ...

    def append(self, message: Message, done: Published, origin: bytes) -> None:
        """Make a message part of the topic, as `publish` does, with its origin in the form of OriginEncoder."""
        ...

    def on_window_over(self, window: "RepeatWindow", known_since: float | None) -> None:
        """Drop the window. If `known_since` is given, nothing that was published since then is in need of one."""
        ...


class _Publisher:
    """The messages of one publisher in the window."""

    __slots__ = ("answered", "encoder", "entries", "highest", "repeats", "used_at")

    def __init__(self, name: bytes) -> None:
        self.encoder = OriginEncoder(name)
        self.highest = 0
        """The highest sequence that is stored or under way."""
        self.answered = 0
        """The publisher repeats nothing up to this sequence."""
        self.entries: dict[int, int | Message] = {}
        """The positions of its messages by their sequence; a message itself while it is under way."""
        self.repeats: dict[int, list[Published]] | None = None
        """The repeats that wait for messages under way."""
        self.used_at = 0.0


class RepeatWindow:
    """The window of one log. `publish` judges each publish that comes with an attempt, and stores it if it is new."""

    __slots__ = (
        "_log",
        "_publishers",
        "_since",
        "_store",
        "_under_way",
        "_units",
        "_waiting",
        "is_over",
        "used_at",
        "was_used",
    )

    def __init__(self, store: LogContext, log: WindowedLog, known_since: float | None) -> None:
        """`known_since`: no publish is stored that was begun after this moment. None: `read_back` must find out."""
        self._store = store
        self._log = log
        self._publishers: dict[bytes, _Publisher] = {}
        self._since = -math.inf if known_since is None else known_since
        """From when on the window is complete, in the time of `Repeats.now`."""
        self._waiting: deque[_Waiting] | None = deque() if known_since is None else None
        """The publishes that wait for `read_back`. None once it is done."""
        self._under_way = 0
        self._units = 0
        self.used_at = store.repeats.now()
        self.was_used = True
        self.is_over = False
        store.repeats.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether publishes wait, or are under way."""
        return self._waiting is not None or self._under_way > 0

    # ---------------------------------------------------------------------------------------------- judging

    def publish(self, attempt: Attempt, message: Message, done: Published) -> None:
        """Store a message unless it is stored already, or must not be. `done` is as in TopicLog.publish."""
        if self._waiting is not None:
            if len(self._waiting) >= self._store.options.topic_requests_max:
                topic = show_name(self._log.topic)
                done(0, (), ServiceDownError(f"too many publishes wait for topic '{topic}'; try again"))
            else:
                self._waiting.append((attempt, message, done))
            return
        self.was_used = True
        self.used_at = now = self._store.repeats.now()
        sequence = attempt.sequence
        publisher = self._publishers.get(attempt.publisher)
        is_new = publisher is None
        if publisher is None:
            if (refusal := self._why_unknown(attempt, now)) is not None:
                done(0, (), refusal)
                return
            publisher = self._add(attempt.publisher, now)
            publisher.answered = max(attempt.answered, sequence - 1)
        else:
            if attempt.answered > publisher.answered:
                self._forget(publisher, attempt.answered)
            if sequence <= publisher.highest:
                self._repeat(publisher, attempt, message, done)
                return
            if attempt.previous > publisher.highest:
                done(0, (), _gap(attempt))
                return
            if len(publisher.entries) > self._store.repeats.messages_max:
                self._trim(publisher)
        publisher.used_at = now
        publisher.highest = sequence
        publisher.entries[sequence] = message
        self._under_way += 1  # From here on it is busy, so it cannot be dropped to make room.
        self._grow(1 + (_PUBLISHER_UNITS if is_new else 0))
        self._log.append(message, partial(self._stored, publisher, sequence, done), publisher.encoder.encode(sequence))

    def _why_unknown(self, attempt: Attempt, now: float) -> HedwigError | None:
        """Return why a publish is refused whose publisher is not in the window; None if it is new."""
        if attempt.previous:
            return _gap(attempt)
        if not attempt.age_ms:
            return None
        age_s = attempt.age_ms / 1000 + CLOCKS_DIFFER_S
        known_s = min(now - self._since, self._store.repeats.window_s)
        if age_s <= known_s:
            return None
        return ServiceDownError(
            f"the message may have been published {attempt.age_ms / 1000:g} s ago; this hub knows what was published "
            f"in the last {max(0.0, known_s - CLOCKS_DIFFER_S):.0f} s"
        )

    def _repeat(self, publisher: _Publisher, attempt: Attempt, message: Message, done: Published) -> None:
        found = publisher.entries.get(attempt.sequence)
        if isinstance(found, int):
            self._store.tasks.start(self._answer(found, attempt, message, done))
        elif found is None:
            done(0, (), _not_found(publisher, attempt))
        elif not message.is_copy_of(found):
            done(0, (), _other_content(attempt))
        else:
            if publisher.repeats is None:
                publisher.repeats = {}
            publisher.repeats.setdefault(attempt.sequence, []).append(done)

    async def _answer(self, local: int, attempt: Attempt, message: Message, done: Published) -> None:
        """Answer a repeat with the position of the message, if that is the same message."""
        try:
            stored = self._log.recent(local)
            if stored is None:
                stored = (await self._store.within(self._log.read(local, messages_max=1, bytes_max=1)))[0]
            found = Message.decode(stored)
        except (HedwigError, TimeoutError) as exc:
            done(0, (), ServiceDownError(f"message {local}, which is published again, cannot be read: {exc}"))
            return
        except BaseException:
            done(0, (), ServiceDownError("the topic was released; try again"))
            raise
        if message.is_copy_of(found):
            done(local, found.remote, None)
        else:
            done(0, (), _other_content(attempt))

    def _stored(
        self,
        publisher: _Publisher,
        sequence: int,
        done: Published,
        local: int,
        remote: tuple[RegionSeqId, ...],
        error: HedwigError | None,
    ) -> None:
        self._under_way -= 1
        entries = publisher.entries
        if error is not None:
            if entries.pop(sequence, None) is not None:
                self._shrink(1)
            publisher.highest = max(max(entries, default=0), publisher.answered)
        elif sequence in entries:  # Else the publisher does not wait for it any more.
            entries[sequence] = local
        done(local, remote, error)
        if publisher.repeats is not None:
            for repeat in publisher.repeats.pop(sequence, ()):
                repeat(local, remote, error)
            if not publisher.repeats:
                publisher.repeats = None

    # ------------------------------------------------------------------------------------------- its content

    def _add(self, name: bytes, now: float) -> _Publisher:
        count = len(self._publishers)
        if count >= _PURGED_FROM and count & (count - 1) == 0:
            self._purge(now)
        publisher = self._publishers[name] = _Publisher(name)
        return publisher

    def _purge(self, now: float) -> None:
        """Drop the publishers that have published nothing for the length of the window, and half if too many remain."""
        before = now - self._store.repeats.window_s
        if len(self._publishers) >= self._store.repeats.messages_max:
            times = sorted(each.used_at for each in self._publishers.values())
            before = max(before, times[len(times) // 2])
            self._since = max(self._since, before)
        for name, publisher in list(self._publishers.items()):
            if publisher.used_at <= before and all(isinstance(each, int) for each in publisher.entries.values()):
                del self._publishers[name]
                self._shrink(_PUBLISHER_UNITS + len(publisher.entries))

    def _forget(self, publisher: _Publisher, answered: int) -> None:
        """Drop the messages that a publisher does not repeat any more."""
        entries, count = publisher.entries, len(publisher.entries)
        if answered - publisher.answered <= count:
            for sequence in range(publisher.answered + 1, answered + 1):
                entries.pop(sequence, None)
        else:
            for sequence in [each for each in entries if each <= answered]:
                del entries[sequence]
        publisher.answered = answered
        publisher.highest = max(publisher.highest, answered)
        self._shrink(count - len(entries))

    def _trim(self, publisher: _Publisher) -> None:
        """Drop the older half of the messages of a publisher that does not say which it repeats no more."""
        entries = publisher.entries
        for sequence in sorted(entries)[: len(entries) // 2]:
            if isinstance(entries[sequence], int):
                del entries[sequence]
                self._shrink(1)

    def _grow(self, units: int) -> None:
        self._units += units
        self._store.repeats.count(units)

    def _shrink(self, units: int) -> None:
        self._units -= units
        self._store.repeats.count(-units)

    # ----------------------------------------------------------------------------------------------- its end

    def refuse_waiting(self, error: HedwigError) -> None:
        """Refuse the publishes that wait for the log to be read. Nothing was done for them."""
        waiting, self._waiting = self._waiting or (), deque() if self._waiting is not None else None
        for _, _, done in waiting:
            done(0, (), error)

    def end(self, *, keeps: bool) -> None:
        """Drop the content. `keeps`: the log need not be read again, since none of it counts any more."""
        if not self.is_over:
            self.is_over = True
            self._shrink(self._units)
            self._log.on_window_over(self, self._since if keeps else None)

    # ------------------------------------------------------------------------------------ read from the log

    async def read_back(self) -> None:
        """Read the end of the log, as far as the window reaches, and then judge the publishes that wait."""
        topic = show_name(self._log.topic)
        refusal: HedwigError = ServiceDownError(f"topic '{topic}' was released; try again")
        try:
            await self._read_back()
            waiting, self._waiting = self._waiting or (), None
            self._under_way += 1  # It must not be dropped before all of them are judged.
            for each in waiting:
                self.publish(*each)
            self._under_way -= 1
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
        read = _Read(repeats.wall() * 1000, repeats.window_s * 1000)
        until = repeats.now() + self._store.options.operation_timeout_s * _READ_SHARE
        end = log.last_id + 1
        first, size = max(log.first_id, end - repeats.messages_max), 1
        while end > first and not read.is_enough:
            begin = max(first, end - size)
            if not await self._read_page(begin, end, read, until):
                break
            end, size = begin, min(4 * size, _READ_MESSAGES)
        # Messages are deleted once they are older than the window, or before so many others.
        is_by_age = log.first_id in (1, first) and first != log.last_id + 1 - repeats.messages_max
        is_whole = read.is_whole or (not read.is_enough and end <= first and is_by_age)
        now = repeats.now()
        self._since = now - (repeats.window_s if is_whole else read.oldest_age_s)
        for name, sequence, local, age_s in read.found:
            publisher = self._publishers.get(name)
            if publisher is None:
                publisher = self._publishers[name] = _Publisher(name)
                publisher.used_at = now - age_s
            publisher.entries[sequence] = local
            publisher.highest = max(publisher.highest, sequence)
        self._grow(len(read.found) + _PUBLISHER_UNITS * len(self._publishers))

    async def _read_page(self, begin: int, end: int, read: "_Read", until: float) -> bool:
        """Read the messages from `begin` on; return False if it is too late for that. The last one is always read."""
        log, at = self._log, begin
        page: list[tuple[int, Message]] = []
        while at < end:
            if self._store.repeats.now() > until and end <= log.last_id:
                return False
            try:
                stored = await log.read(at, messages_max=end - at, bytes_max=_READ_BYTES)
                messages = [Message.decode(each) for each in stored]
            except NoSuchLedgerError:
                if log.first_id <= at:
                    raise
                at, read.is_whole = log.first_id, True  # It was deleted meanwhile, so it is older than the window.
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


def _gap(attempt: Attempt) -> HedwigError:
    return ServiceDownError(f"message {attempt.previous} of its publisher is not stored yet, and comes before it")


def _other_content(attempt: Attempt) -> HedwigError:
    return MalformedRequestError(f"its publisher has published another message with the sequence {attempt.sequence}")


def _not_found(publisher: _Publisher, attempt: Attempt) -> HedwigError:
    higher = f"its publisher has published message {publisher.highest}, and it is {attempt.sequence}"
    if attempt.age_ms:
        return ServiceDownError(f"{higher}, of which this hub does not know any more whether it was published")
    return MalformedRequestError(f"{higher}; sequences must grow")
