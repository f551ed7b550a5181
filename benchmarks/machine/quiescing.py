"""Waiting until servers are idle, so that the next load does not pay for work that a fill leaves behind."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.benchmarks.machine.cpu_time import cpu_s_of

__all__ = ["CALM_S", "CORES_MAX", "SECONDS_MAX", "Quiescing", "settle"]

CORES_MAX: Final = 0.1
CALM_S: Final = 4.0
SECONDS_MAX: Final = 60.0
_TICK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Quiescing:
    """How long the wait took, and how many processors were still busy in its last moments."""

    seconds: float
    cores: float


def settle(
    pids: Sequence[int], *, cores_max: float = CORES_MAX, calm_s: float = CALM_S, seconds_max: float = SECONDS_MAX
) -> Quiescing:
    """Wait until processes together have used at most `cores_max` processors for `calm_s`; wait at most `seconds_max`.

    Processes that have ended use none.
    """
    began = time.monotonic()
    seen: deque[tuple[float, dict[int, float]]] = deque()
    while True:
        now = time.monotonic()
        seen.append((now, {pid: used for pid in pids if (used := cpu_s_of(pid)) is not None}))
        while len(seen) > 1 and now - seen[1][0] >= calm_s:
            seen.popleft()
        cores = _cores(seen)
        if (now - seen[0][0] >= calm_s and cores <= cores_max) or now - began >= seconds_max:
            return Quiescing(now - began, cores)
        time.sleep(_TICK_S)


def _cores(seen: Sequence[tuple[float, dict[int, float]]]) -> float:
    (first, before), (last, after) = seen[0], seen[-1]
    return (
        sum(used - before[pid] for pid, used in after.items() if pid in before) / (last - first)
        if last > first
        else 0.0
    )
