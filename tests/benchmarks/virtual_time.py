"""An event loop whose time passes only when everybody waits, so that loads take no time and come out exact."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualTime"]

T = TypeVar("T")

_SECOND_NS = 1_000_000_000


class VirtualTime:
    """A clock that jumps to the next timer; timers fire up to `early_s` too early, as those of real loops do."""

    def __init__(self, early_s: float = 0.0) -> None:
        self.seconds = 1_000.0
        self.early_s = early_s

    def now_ns(self) -> int:
        """Return the time as the load loop wants it."""
        return round(self.seconds * _SECOND_NS)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, on a loop that lives by this clock."""
        with asyncio.Runner(loop_factory=lambda: _VirtualLoop(self)) as runner:
            return runner.run(work)


class _Selector(selectors.DefaultSelector):
    """Lets time pass instead of waiting."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time = time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            # Nothing here comes from outside, so without a timer nothing would ever happen again.
            assert timeout is not None, "everybody waits, and nothing will ever come"
            # Less than asked for, but always forward.
            self._time.seconds += max(timeout / 2, timeout - self._time.early_s)
        return found


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, time: VirtualTime) -> None:
        super().__init__(_Selector(time))
        self._virtual = time
        self._clock_resolution = 2 * time.early_s + 1e-9  # What asyncio takes for the same moment.

    def time(self) -> float:
        return self._virtual.seconds
