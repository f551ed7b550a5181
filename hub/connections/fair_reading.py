"""Fair reading: shares the time for requests among channels, and never takes a whole turn of the event loop.

A read of 256 KiB may hold ten thousand requests, and hundreds of channels may have read in one turn. If one turn has
too little time for all, the channel that has had the least processor time is next. So a channel with few requests is
served at once, beside any number of channels with many.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Final, Protocol

from hedwig.clock import Clock

__all__ = ["FairReading", "ReadingChannel"]

_TURN_S: Final = 0.02
"""How long the requests that were read may take in one turn of the event loop."""
_SHARE_S: Final = 0.001
"""How long a channel may go on before the next one is chosen."""


class ReadingChannel(Protocol):
    """A channel that has read requests."""

    had_s: float
    """The processor time that it had while others waited, at first 0. FairReading sets it."""

    def begin_next(self) -> bool:
        """Begin the next request that was read; return whether there is another."""
        ...


class FairReading:
    """Makes channels begin the requests that they have read: at once if there is time, else the neediest first."""

    def __init__(self, clock: Clock, processor_s: Callable[[], float] = time.thread_time) -> None:
        """`processor_s` returns the processor seconds of this thread; the time of other threads must not count."""
        self._clock = clock
        self._processor_s = processor_s
        self._waiting: list[tuple[float, int, ReadingChannel]] = []
        """A heap: the channels with the least time come first, and of equals the first to arrive."""
        self._numbers = itertools.count()
        self._least_s = 0.0
        """The time of the last channel chosen. A channel gets no credit for having been idle before."""
        self._end = 0.0
        """When the time for requests in this turn of the loop ends."""
        self._is_turn_begun = False

    def begin(self, reader: ReadingChannel) -> bool:
        """Make `reader` begin its requests; return whether it has begun them all.

        If not, the rest follows in later turns. Do not call this again for `reader` before that is done.
        """
        now = self._clock.monotonic()
        if not self._is_turn_begun:
            self._begin_turn(now)
        if not self._waiting and now < self._end and self._go_on(reader, self._end):
            return True
        self._wait(reader)
        return False

    def _wait(self, reader: ReadingChannel) -> None:
        reader.had_s = max(reader.had_s, self._least_s)
        heapq.heappush(self._waiting, (reader.had_s, next(self._numbers), reader))

    def _begin_turn(self, now: float) -> None:
        self._is_turn_begun = True
        self._end = now + _TURN_S
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_turn_begun = False
        if not self._waiting:
            return
        now = self._clock.monotonic()
        self._begin_turn(now)
        while self._waiting and now < self._end:
            self._least_s, _, reader = heapq.heappop(self._waiting)
            before = self._processor_s()
            is_done = self._go_on(reader, now + _SHARE_S)
            reader.had_s += self._processor_s() - before
            if not is_done:
                self._wait(reader)
            now = self._clock.monotonic()

    def _go_on(self, reader: ReadingChannel, until: float) -> bool:
        """Make `reader` begin requests until `until`, at least one; return whether none is left."""
        while reader.begin_next():
            if self._clock.monotonic() >= until:
                return False
        return True
