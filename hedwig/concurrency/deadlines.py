"""Deadlines of many items at the cost of one timer."""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Deadlines"]

T = TypeVar("T")

_STEPS: Final = 20
"""A deadline is exact to one part in N of its time."""
_STEP_MAX_S: Final = 1.0


class Deadlines(Generic[T]):
    """Reports the items that have begun but not ended within a fixed time, which is the same for all.

    Time counts in steps of the event loop. A process that was stopped finds in its sockets the data that arrived
    meanwhile. So a pause of any length counts as one step.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, late: Callable[[T], None]) -> None:
        """`late` is called once for each late item. With 0 seconds, no item is ever late."""
        self._loop = loop
        self._step_s = min(_STEP_MAX_S, seconds / _STEPS)
        self._steps_max = round(seconds / self._step_s) if seconds else 0
        self._late = late
        self._step = 0
        self._began: dict[T, int] = {}
        """The step in which each item began. Since all have the same time, the first one is due first."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, each: T) -> None:
        """Count the time of `each` from now on, if it is not counted yet."""
        if self._steps_max and each not in self._began:
            self._began[each] = self._step
            if self._timer is None:
                self._timer = self._loop.call_later(self._step_s, self._look)

    def end(self, each: T) -> None:
        """Stop counting the time of `each`, if it is counted."""
        self._began.pop(each, None)

    def _look(self) -> None:
        self._step += 1
        self._timer = None
        while self._began:
            each = next(iter(self._began))
            if self._step - self._began[each] <= self._steps_max:
                # The step in which an item began does not count, since the step may have been about to end.
                self._timer = self._loop.call_later(self._step_s, self._look)
                return
            del self._began[each]
            self._late(each)
