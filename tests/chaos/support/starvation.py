"""How long processes stood in line for a processor: what they did late for that reason is not their doing."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

__all__ = ["waited_most_s", "waits_s"]

_PROC: Final = Path("/proc")
_NS: Final = 1e-9


def waits_s(pids: Iterable[int]) -> Mapping[int, float]:
    """Return for how long the main thread of each process was ready to run, and did not, since its start.

    Without those that have ended; empty where the system does not tell.
    """
    found = {}
    for pid in pids:
        try:
            # Of the three numbers: time on a processor, time in line for one, both in ns, and how often.
            found[pid] = int((_PROC / str(pid) / "schedstat").read_text().split()[1]) * _NS
        except (OSError, ValueError, IndexError):
            continue
    return found


def waited_most_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """Return how long the process that waited most did so between two looks."""
    return max((after[pid] - before.get(pid, 0.0) for pid in after), default=0.0)
