"""Chooses the live hub that should own a topic without an owner."""

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import Final

from hedwig.hub.liveness.live_hub import LiveHub

__all__ = ["Placement", "choose"]

_FLOOR_SHARE: Final = 0.25
"""The part of the mean load that is added to each load.

An empty hub then gets most topics, but not all at once, because the known loads are seconds old.
"""


class Placement(StrEnum):
    """How to choose a hub."""

    UNIFORM = "uniform"
    BY_LOAD = "load"


def choose(hubs: Sequence[LiveHub], placement: Placement, random: Random) -> LiveHub:
    """Return one of `hubs`, which must not be empty; a draining hub only if all are draining."""
    candidates = [hub for hub in hubs if not hub.is_draining] or list(hubs)
    if placement is Placement.UNIFORM or len(candidates) == 1:
        return random.choice(candidates)
    floor = 1 + _FLOOR_SHARE * sum(hub.load for hub in candidates) / len(candidates)
    return random.choices(candidates, [1 / (floor + hub.load) for hub in candidates])[0]
