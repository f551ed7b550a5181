"""An event loop whose time passes only when all tasks wait. So runs take no real time, and give exact results."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualLoop", "VirtualTime"]

T = TypeVar("T")

_SECOND_NS = 1_000_000_000


class VirtualTime:
    """A clock that jumps to the next timer. Timers fire up to `early_s` too early, as those of real loops do."""

    def __init__(self, early_s: float = 0.0) -> None:
        self.seconds = 1_000.0
        self.early_s = early_s

    def now_ns(self) -> int:
        """Return the time in nanoseconds, as the load loop needs it."""
        return round(self.seconds * _SECOND_NS)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, on a loop with this clock."""
        with asyncio.Runner(loop_factory=self.loop) as runner:
            return runner.run(work)

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return a loop with this clock."""
        return VirtualLoop(self)


class _Selector(selectors.DefaultSelector):
    """Advances the clock instead of waiting."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time = time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            # No event comes from outside, so without a timer nothing would ever happen again.
            assert timeout is not None, "everybody waits, and nothing will ever come"
            self.pass_time(timeout)
        return events

    def pass_time(self, seconds: float) -> None:
        """Advance the clock by up to `early_s` less than `seconds`, but always by at least half of it."""
        self._time.seconds += max(seconds / 2, seconds - self._time.early_s)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__(_Selector(time))
        self._virtual = time
        self._clock_resolution = 2 * time.early_s + 1e-9  # asyncio treats times that are this close as the same.

    def time(self) -> float:
        return self._virtual.seconds
