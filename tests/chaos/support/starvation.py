"""How long processes waited for a processor. They are not to blame for what was late for that reason."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

__all__ = ["waited_most_s", "waits_s"]

_PROC: Final = Path("/proc")
_NS: Final = 1e-9


def waits_s(pids: Iterable[int]) -> Mapping[int, float]:
    """Return for how long the main thread of each process was ready to run, and did not run, since its start.

    It leaves out processes that have ended. It is empty on systems that do not report this.
    """
    waits = {}
    for pid in pids:
        try:
            # The three numbers: time on a processor and time waiting for one, both in ns, and how often it ran.
            waits[pid] = int((_PROC / str(pid) / "schedstat").read_text().split()[1]) * _NS
        except (OSError, ValueError, IndexError):
            continue
    return waits


def waited_most_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """Return the longest wait of any process between two looks."""
    return max((after[pid] - before.get(pid, 0.0) for pid in after), default=0.0)
