"""Chooses the live hub that should own a topic without an owner."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import Final

from hedwig.clock import Clock
from hedwig.hub.liveness.live_hub import LiveHub

__all__ = ["Placed", "Placement", "choose"]

_FLOOR_SHARE: Final = 0.25
"""The part of the mean load that is added to each load.

An empty hub then gets most topics, but not all of them: new topics are often the busiest.
"""
_NOTHING_PLACED: Final[Mapping[str, int]] = MappingProxyType({})


class Placement(StrEnum):
    """How to choose a hub."""

    UNIFORM = "uniform"
    BY_LOAD = "load"


class Placed:
    """How many topics this hub has chosen each hub for, by second, since the loads that it knows lag behind."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, Counter[int]] = {}

    def note(self, address: str) -> None:
        """Count a topic for which the hub at `address` was chosen."""
        self._counts.setdefault(address, Counter())[int(self._clock.monotonic())] += 1

    def since(self, address: str, at_s: float) -> int:
        """Return the number of topics since `at_s`, by the monotonic clock."""
        counts = self._counts.get(address)
        return 0 if counts is None else sum(number for second, number in counts.items() if second >= int(at_s))

    def forget_before(self, at_s: float) -> None:
        """Forget what was before `at_s`."""
        for address, counts in list(self._counts.items()):
            for second in [second for second in counts if second < int(at_s)]:
                del counts[second]
            if not counts:
                del self._counts[address]


def choose(
    hubs: Sequence[LiveHub], placement: Placement, random: Random, placed: Mapping[str, int] = _NOTHING_PLACED
) -> LiveHub:
    """Return one of `hubs`, which must not be empty; a draining hub only if all are draining.

    `placed` says, by address, for how many topics each was chosen of late, all for the same time. By load, hubs of
    equal loads are chosen in turn, and one with less load more often: less often, though, the more it was chosen.
    """
    candidates = [hub for hub in hubs if not hub.is_draining] or list(hubs)
    if placement is Placement.UNIFORM or len(candidates) == 1:
        return random.choice(candidates)
    floor = 1 + _FLOOR_SHARE * sum(hub.load for hub in candidates) / len(candidates)

    def cost(hub: LiveHub) -> tuple[float, float]:
        return (1 + placed.get(hub.info.address, 0)) * (floor + hub.load), random.random()

    return min(candidates, key=cost)
