"""Limits of a search: its time and its memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Budget", "Limits"]

_STEPS_BETWEEN_LOOKS: Final = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """`deadline_s` holds for all keys of a history together, `configurations_max` for each key, like its memory."""

    deadline_s: float = 120.0
    configurations_max: int = 2_000_000


class Budget:
    """The unused part of the limits."""

    def __init__(self, limits: Limits, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._deadline = monotonic() + limits.deadline_s
        self._configurations_max = limits.configurations_max
        self._until_look = 0

    def is_spent(self, configurations: int) -> bool:
        """Say, at each configuration, whether the search must stop."""
        if configurations > self._configurations_max:
            return True
        self._until_look -= 1
        if self._until_look > 0:
            return False
        self._until_look = _STEPS_BETWEEN_LOOKS
        return self._monotonic() > self._deadline
