"""Fair reading: what channels have read is begun a share after the other, and never for a whole turn of the event loop.

A read of 256 KiB may hold ten thousand requests, and hundreds of channels may have read in one turn. While there is
more to begin than one turn has time for, the channel that has had least of the processor is next. So whoever asks for
little is served at once, beside any number of channels that ask for much.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Final, Protocol

from hedwig.clock import Clock

__all__ = ["FairReading", "Reader"]

_TURN_S: Final = 0.02
"""How much of one turn of the event loop may be spent on requests that were read."""
_SHARE_S: Final = 0.001
"""How long a channel may go on before it is looked which one is next."""


class Reader(Protocol):
    """A channel that has read requests."""

    had_s: float
    """What FairReading has noted of it, at first 0: the processor's time that it had while others waited."""

    def begin_next(self) -> bool:
        """Begin the next request that was read; return whether there is another."""
        ...


class FairReading:
    """Has channels begin the requests that they have read: at once if there is time, else the neediest first."""

    def __init__(self, clock: Clock, processor_s: Callable[[], float] = time.thread_time) -> None:
        """`processor_s` counts the seconds that this thread has had. Time that others took must not be laid to it."""
        self._clock = clock
        self._processor_s = processor_s
        self._waiting: list[tuple[float, int, Reader]] = []
        """A heap: those who have had least come first, and of equals who came first."""
        self._numbers = itertools.count()
        self._least_s = 0.0
        """What the last one in turn had had. Nobody gets more for having asked for nothing up to now."""
        self._end = 0.0
        """When the time for requests in this turn of the loop is over."""
        self._is_turn_begun = False

    def begin(self, reader: Reader) -> bool:
        """Have `reader` begin what it has read, and return whether that is done.

        If it is not, the rest follows in later turns, and `reader` must not come here again before that is done.
        """
        now = self._clock.monotonic()
        if not self._is_turn_begun:
            self._begin_turn(now)
        if not self._waiting and now < self._end and self._go_on(reader, self._end):
            return True
        self._wait(reader)
        return False

    def _wait(self, reader: Reader) -> None:
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

    def _go_on(self, reader: Reader, until: float) -> bool:
        """Have `reader` begin requests until that time, one at the least; return whether none is left."""
        while reader.begin_next():
            if self._clock.monotonic() >= until:
                return False
        return True
