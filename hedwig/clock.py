"""Time as an argument: code that waits or takes timestamps receives a clock, and `main` builds the real one."""

import asyncio
import time
from typing import Protocol, Self

__all__ = ["Clock", "Deadline", "SystemClock"]


class Clock(Protocol):
    """A source of time. Durations use `monotonic`, stored times use `wall`."""

    def monotonic(self) -> float:
        """Return seconds that never go back, from an arbitrary start."""
        ...

    def wall(self) -> float:
        """Return seconds since 1970-01-01 UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait `seconds` seconds."""
        ...


class SystemClock:
    """The clock of this machine."""

    # The functions themselves, without a wrapper, since each request and each check of a queue calls them.
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Deadline:
    """A moment after which an operation gives up."""

    __slots__ = ("_at", "_clock")

    def __init__(self, clock: Clock, at: float) -> None:
        self._clock = clock
        self._at = at

    @classmethod
    def after(cls, clock: Clock, seconds: float) -> Self:
        return cls(clock, clock.monotonic() + seconds)

    def remaining_s(self) -> float:
        """Return the seconds left, never below zero."""
        return max(0.0, self._at - self._clock.monotonic())

    @property
    def expired(self) -> bool:
        return self._clock.monotonic() >= self._at
