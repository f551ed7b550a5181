"""Deadlines of many at the cost of one timer."""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Deadlines"]

T = TypeVar("T")

_STEPS: Final = 20
"""A deadline is met to within a part of so many."""
_STEP_MAX_S: Final = 1.0


class Deadlines(Generic[T]):
    """Tells which of those that began have not ended within a fixed time, the same for all.

    Time counts in steps of the event loop's own. A process that was stopped finds what came meanwhile in its sockets,
    so such a pause is one step, however long it was.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, late: Callable[[T], None]) -> None:
        """`late` is called for each that is late, once; 0 seconds: never."""
        self._loop = loop
        self._step_s = min(_STEP_MAX_S, seconds / _STEPS)
        self._steps_max = round(seconds / self._step_s) if seconds else 0
        self._late = late
        self._step = 0
        self._began: dict[T, int] = {}
        """The steps in which they began; since all have the same time, the first of them is due first."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, each: T) -> None:
        """Count the time of `each` from now on, if it is not counted yet."""
        if self._steps_max and each not in self._began:
            self._began[each] = self._step
            if self._timer is None:
                self._timer = self._loop.call_later(self._step_s, self._look)

    def end(self, each: T) -> None:
        """Count the time of `each` no more, if it is counted."""
        self._began.pop(each, None)

    def _look(self) -> None:
        self._step += 1
        self._timer = None
        while self._began:
            each = next(iter(self._began))
            if self._step - self._began[each] <= self._steps_max:
                # The step in which it began does not count, since it may have been about to end.
                self._timer = self._loop.call_later(self._step_s, self._look)
                return
            del self._began[each]
            self._late(each)
