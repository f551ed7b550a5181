"""What a hub knows of recent publishes, over all topics: the time that it keeps it, and the memory that it takes."""

import asyncio
from collections import deque
from functools import lru_cache
from typing import Final, Protocol

from hedwig.clock import Clock
from hedwig.hub.options.options import HubOptions
from hedwig.wire import STORED_BY_NOBODY, stored_at, stored_of

__all__ = ["CLOCKS_DIFFER_S", "ROOM", "Publisher", "Repeats"]

CLOCKS_DIFFER_S: Final = 10.0
"""By how much the clocks of hubs may differ, if a hub reads of another's publishes in a log."""
ROOM: Final = 4
"""How many messages of a publisher have room in a window at first."""
_NONE: Final = -1
"""Stands for the position of no message."""
_UNIT_BYTES: Final = 128
"""The memory of one message in a window. Windows count all that they hold in this unit."""
_SLICE: Final = 5000
"""How many windows a sweep visits before it lets other tasks run."""


_begin_of = lru_cache(maxsize=4096)(stored_of)
"""The same bytes for all topics of a publisher, since there may be a million."""


class Window(Protocol):
    """The window of a topic, as Repeats counts and drops it."""

    is_over: bool
    used_at: float
    """When something was published last, in the time of `now_s`."""
    seen_at: float
    """The same, when it was considered last whether this window may go."""

    @property
    def is_busy(self) -> bool:
        """Whether publishes wait, or are on their way to the log."""
        ...

    def end(self, *, keeps: bool) -> None:
        """Drop the content. `keeps`: the log need not be read again, since none of it counts any more."""
        ...


class Publisher:
    """The recent messages of one publisher to one topic. It must be small: most topics have one publisher.

    Usually only the newest message may be repeated, and it has no place in a dictionary.
    """

    __slots__ = ("_local", "answered", "begin", "entries", "highest", "name", "room", "used_at")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.begin = _begin_of(name)
        """How `Stored` begins in its messages."""
        self.highest = 0
        """The highest sequence that is stored or on its way."""
        self.answered = 0
        """The publisher repeats nothing up to this sequence."""
        self.used_at = 0.0
        """When it published last, in the time of `Repeats.now_s`."""
        self.room = ROOM
        """How many messages it may have here before those up to `answered` go."""
        self._local = _NONE
        """The position of the highest message if that is the only one."""
        self.entries: dict[int, int] | None = None
        """The positions of all by their sequence, if there may be several."""

    def __len__(self) -> int:
        return len(self.entries) if self.entries is not None else int(self._local != _NONE)

    def positions(self) -> list[tuple[int, int]]:
        """Return the sequences of its messages and their positions, 0 while a message waits for its position."""
        if self.entries is not None:
            return list(self.entries.items())
        return [] if self._local == _NONE else [(self.highest, self._local)]

    def find(self, sequence: int) -> int | None:
        """Return the position of a message, 0 while it waits for that; None if it is not here."""
        if self.entries is not None:
            return self.entries.get(sequence)
        return self._local if sequence == self.highest and self._local != _NONE else None

    def place(self, sequence: int, local: int) -> None:
        """Record the position of a message, 0 while it waits for that. It is new if it is the highest so far."""
        highest = self.highest
        if sequence > highest:
            self.highest = sequence
            if self.answered >= highest:
                self.entries, self._local = None, local
                return
            if self.entries is None:
                self.entries = {} if self._local == _NONE else {highest: self._local}
            self.entries[sequence] = local
        elif self.entries is not None:
            self.entries[sequence] = local
        elif sequence == highest:
            self._local = local

    def found(self, sequence: int, local: int) -> None:
        """Add a message that was read in the log."""
        if self.entries is None:
            self.entries = {}
        self.entries[sequence] = local
        self.highest = max(self.highest, sequence)
        self.room = max(self.room, len(self.entries))

    def drop(self, sequence: int) -> None:
        """Remove a message."""
        if self.entries is not None:
            self.entries.pop(sequence, None)
        elif sequence == self.highest:
            self._local = _NONE

    def drop_answered(self) -> None:
        """Remove the messages that it does not repeat any more."""
        if self.entries is not None:
            for sequence in [each for each in self.entries if each <= self.answered]:
                del self.entries[sequence]
        elif self.highest <= self.answered:
            self._local = _NONE

    def take_back(self, sequence: int) -> None:
        """Record that a message is not stored. Neither are those behind it."""
        self.drop(sequence)
        if sequence <= self.highest:
            self.entries = dict(self.positions())
            self.highest = sequence - 1


class Repeats:
    """The windows of a hub, within one bound on their memory.

    A window that was not used for long is dropped. Its log reads it anew if it is needed again.
    """

    def __init__(self, options: HubOptions, clock: Clock, *, is_on: bool) -> None:
        """`is_on`: whether this hub stores a message once that is published again."""
        self.window_s = options.repeat_window_s if is_on else 0.0
        """For how long a publish is recognised, and its message kept."""
        self.messages_max = options.repeat_window_messages
        """How many messages of a topic are kept for that, and read for it."""
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_stale = self.is_on
        """Whether `refresh` must be called before the following are used."""
        self.now_s = 0.0
        """The time of the clock that never goes back."""
        self.stored_ms = 0
        """When a message is stored that is stored now, in milliseconds since 1970; 0 if messages do not say it."""
        self.end = b""
        """How `Stored` ends in such a message."""
        self.stored_by_nobody = b""
        """The whole of `Stored` for one without a publisher; empty if messages do not say when they are stored."""
        self._units_max = options.repeat_bytes_max // _UNIT_BYTES
        self._units = 0
        self._windows: deque[Window] = deque()
        """All windows, and some that are over, from the one that may go next."""

    @property
    def is_on(self) -> bool:
        return self.window_s > 0

    @property
    def held_bytes(self) -> int:
        """The memory of all windows, roughly."""
        return self._units * _UNIT_BYTES

    def refresh(self) -> None:
        """Read the clocks. Call it if `is_stale`: one reading serves all messages of a turn of the event loop."""
        self.is_stale = False
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()  # CPython 3.11 makes a system call to find it.
        loop.call_soon(self._expire)
        self.now_s = self._clock.monotonic()
        self.stored_ms = int(self._clock.wall() * 1000)
        self.end = stored_at(self.stored_ms)
        self.stored_by_nobody = STORED_BY_NOBODY + self.end

    def _expire(self) -> None:
        self.is_stale = True

    def is_recent(self, stored_ms: int) -> bool:
        """Say whether a message that was stored at this time may be published again, and must be known then."""
        return stored_ms > 1000 * (self._clock.wall() - self.window_s) if self.window_s else False

    def add(self, window: Window) -> None:
        """Add a new window, which may go as soon as it is not busy."""
        self._windows.append(window)

    def count(self, units: int) -> None:
        """Record that a window has grown, or shrunk, by so many units. Others may go, unless they are busy."""
        self._units += units
        if self._units > self._units_max and units > 0:
            self._make_room()

    def _make_room(self) -> None:
        """Drop the windows that were not used since they were visited last, until a tenth of the room is free."""
        for _ in range(2 * len(self._windows)):
            if not self._windows or self._units <= self._units_max - self._units_max // 10:
                return
            window = self._windows.popleft()
            if window.is_over:
                continue
            if window.used_at > window.seen_at or window.is_busy:
                window.seen_at = window.used_at
                self._windows.append(window)
            else:
                window.end(keeps=False)

    async def sweep(self) -> None:
        """Drop the windows of topics to which nothing was published for the length of a window."""
        before = self._clock.monotonic() - self.window_s
        for number in range(len(self._windows)):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            if not self._windows:
                return
            window = self._windows.popleft()
            if window.is_over:
                continue
            if window.used_at < before and not window.is_busy:
                window.end(keeps=True)
            else:
                self._windows.append(window)
