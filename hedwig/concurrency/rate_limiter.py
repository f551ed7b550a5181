"""A pace: so many a second, evenly, with a little in advance."""

from hedwig.clock import Clock

__all__ = ["RateLimiter"]


class RateLimiter:
    """Says how long to wait for the next turn. A tenth of a second's turns may be taken at once."""

    def __init__(self, per_s: int, clock: Clock) -> None:
        """`per_s` 0 is no limit."""
        self._clock = clock
        self._interval_s = 1 / per_s if per_s else 0.0
        self._ahead_s = max(0.1, self._interval_s)
        self._next_at = clock.monotonic()

    def wait_s(self) -> float:
        """Return 0 and take a turn, or how long it is until there is one."""
        now = self._clock.monotonic()
        next_at = max(self._next_at, now - self._ahead_s)
        if next_at > now:
            return next_at - now
        self._next_at = next_at + self._interval_s
        return 0.0
