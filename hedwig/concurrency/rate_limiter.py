"""A rate limit: N turns a second, evenly spread, with a small burst allowed."""

from hedwig.clock import Clock

__all__ = ["RateLimiter"]


class RateLimiter:
    """Returns how long to wait for the next turn. The turns of a tenth of a second may be taken at once."""

    def __init__(self, per_s: int, clock: Clock) -> None:
        """With `per_s` 0 there is no limit."""
        self._clock = clock
        self._interval_s = 1 / per_s if per_s else 0.0
        self._ahead_s = max(0.1, self._interval_s)
        self._next_at = clock.monotonic()

    def wait_s(self, turns: int = 1) -> float:
        """Take N turns and return 0, or return the time until the next turn. Later turns wait for all N."""
        now = self._clock.monotonic()
        next_at = max(self._next_at, now - self._ahead_s)
        if next_at > now:
            return next_at - now
        self._next_at = next_at + turns * self._interval_s
        return 0.0
