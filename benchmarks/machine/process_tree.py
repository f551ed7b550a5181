"""The peak memory of a command together with all processes that it starts."""

from pathlib import Path
from typing import Final

from hedwig.benchmarks.machine.periodic import Periodic

__all__ = ["TreeMemory"]

_INTERVAL_S: Final = 0.5


class TreeMemory(Periodic):
    """Adds up, twice a second, the memory of a process and its descendants; shared pages count once.

    The kernel divides a page among the processes that have it (`Pss` in /proc/PID/smaps_rollup). So forked children do
    not count again the pages that they share with their parent.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.bytes_max = 0
        super().__init__("tree memory", _INTERVAL_S)

    def _sample(self) -> None:
        self.bytes_max = max(self.bytes_max, sum(map(_held_bytes, _descendants(self._pid))))


def _descendants(pid: int) -> list[int]:
    """Return a process and its descendants, without processes that have become orphans."""
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # The second field is the program's name, which may contain any text; the others follow its parenthesis.
            parent = int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(process.name))
    pids = [pid]
    for each in pids:
        pids += children.get(each, [])
    return pids


def _held_bytes(pid: int) -> int:
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_bytes().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:")), 0)
