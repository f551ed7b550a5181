"""Which of the hubs that are alive should own a topic that has no owner."""

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import Final

from hedwig.hub.liveness.live_hub import LiveHub

__all__ = ["Placement", "choose"]

_FLOOR_SHARE: Final = 0.25
"""Of the mean load: a hub with nothing draws most topics to it, but not all at once, since loads are seconds old."""


class Placement(StrEnum):
    """How to choose."""

    UNIFORM = "uniform"
    BY_LOAD = "load"


def choose(hubs: Sequence[LiveHub], placement: Placement, random: Random) -> LiveHub:
    """Return one of `hubs`, of which there is at least one; a hub that is draining only if all are."""
    candidates = [hub for hub in hubs if not hub.is_draining] or list(hubs)
    if placement is Placement.UNIFORM or len(candidates) == 1:
        return random.choice(candidates)
    floor = 1 + _FLOOR_SHARE * sum(hub.load for hub in candidates) / len(candidates)
    return random.choices(candidates, [1 / (floor + hub.load) for hub in candidates])[0]
