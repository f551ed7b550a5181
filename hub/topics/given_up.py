"""Topics that a hub gave up for the balance and that no other hub has claimed yet."""

from collections import deque
from typing import Final

from hedwig.clock import Clock

__all__ = ["GivenUp"]

_KEPT_S: Final = 10.0
"""After so long without an owner a topic is one that nobody uses, and no part of the balance."""


class GivenUp:
    """Counts them: without them the mean over all hubs is too low, and a hub would give up more than it should.

    Who claims a topic is not asked. What the others have more than at the last look is taken for what they claimed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lots: deque[tuple[int, float]] = deque()
        """How many at a time, and until when they count; the oldest first."""
        self._load_of_others = 0

    def note(self, number: int) -> None:
        """Count so many more."""
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
