"""Topics that a hub gave up for the balance and that no other hub has claimed yet."""

from collections import deque
from typing import Final

from hedwig.clock import Clock

__all__ = ["GivenUp"]

_KEPT_S: Final = 10.0
"""After N seconds without an owner, the hub takes a topic as unused and no longer counts it."""


class GivenUp:
    """Counts these topics. Without them the mean over all hubs is too low, and a hub would give up too many.

    It does not ask which hub claimed a topic. It takes the growth of the other hubs' loads as claims.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lots: deque[tuple[int, float]] = deque()
        """The number of each lot, and until when it counts; the oldest first."""
        self._load_of_others = 0

    def note(self, number: int) -> None:
        """Count `number` more."""
        self._lots.append((number, self._clock.monotonic() + _KEPT_S))

    def unclaimed(self, load_of_others: int) -> int:
        """Return how many have no owner yet, now that the other hubs together have `load_of_others` topics."""
        claimed = max(0, load_of_others - self._load_of_others)
        self._load_of_others = load_of_others
        now = self._clock.monotonic()
        while self._lots:
            number, until = self._lots[0]
            if now < until and claimed < number:
                self._lots[0] = number - claimed, until
                break
            self._lots.popleft()
            claimed = max(0, claimed - number)
        return sum(number for number, _ in self._lots)
