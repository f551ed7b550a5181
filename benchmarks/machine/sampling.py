"""The memory, processor time and bytes written of processes, sampled from outside while they work."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from hedwig.benchmarks.machine.downsampling import Downsampled
from hedwig.benchmarks.machine.periodic import Periodic

__all__ = ["Sampler", "Usage", "usage_of"]

_INTERVAL_S: Final = 0.25
_SECOND_NS: Final = 1_000_000_000
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The memory that a process holds, and what it has used since it started. Sizes are in bytes."""

    rss_bytes: int
    cpu_s: float
    written_bytes: int


def usage_of(pid: int) -> Usage | None:
    """Return the usage of a process now, None if it has ended."""
    directory = Path("/proc", str(pid))
    try:
        # The second field is the program's name, which may contain any text; the others follow its parenthesis.
        stat = (directory / "stat").read_text().rpartition(")")[2].split()
        resident = int((directory / "statm").read_text().split()[1])
        io = dict(line.split(": ") for line in (directory / "io").read_text().splitlines())
    except (OSError, IndexError):
        return None
    return Usage(
        rss_bytes=resident * _PAGE,
        cpu_s=(int(stat[11]) + int(stat[12])) / _TICKS,
        written_bytes=int(io["write_bytes"]),
    )


class Sampler(Periodic):
    """Samples processes by role, four times a second in `with` and at its end; the processes of a role add up.

    After 34 minutes samples are thinned (`Downsampled`), which bounds them. Those of five roles take at most some
    10 MB, however many hours they cover. The highest memory of a role is that of all samples, also the dropped ones.
    flushes: returns how often the disk was flushed so far; None: not known.
    """

    def __init__(self, processes: Mapping[str, list[int]], *, flushes: Callable[[], int | None] = lambda: None) -> None:
        self._processes = processes
        self._flushes = flushes
        self._samples: Downsampled[tuple[int, dict[str, Usage]]] = Downsampled()
        self._flushed: Downsampled[tuple[int, int]] = Downsampled()
        self._rss_bytes_max: dict[str, int] = {}
        super().__init__("sampler", _INTERVAL_S)

    def _sample(self) -> None:
        usages: dict[str, Usage] = {}
        for role, pids in self._processes.items():
            parts = [usage for pid in pids if (usage := usage_of(pid)) is not None]
            # A role with an ended process has no total any more: the total would seem to shrink.
            if parts and len(parts) == len(pids):
                usages[role] = _sum(parts)
                self._rss_bytes_max[role] = max(usages[role].rss_bytes, self._rss_bytes_max.get(role, 0))
        self._samples.add((time.monotonic_ns(), usages))
        if (flushes := self._flushes()) is not None:
            self._flushed.add((time.monotonic_ns(), flushes))

    def cores(self, role: str, begin_ns: int, end_ns: int) -> float | None:
        """Return how many processors a role kept busy on average in between, None with fewer than two samples."""
        seen = self._seen(role)
        return _rate([(at, usage.cpu_s) for at, usage in seen], begin_ns, end_ns)

    def written_bytes_per_s(self, role: str, begin_ns: int, end_ns: int) -> float | None:
        """Return the rate at which a role wrote to disks in between, None with fewer than two samples."""
        seen = self._seen(role)
        return _rate([(at, usage.written_bytes) for at, usage in seen], begin_ns, end_ns)

    def flushes_per_s(self, begin_ns: int, end_ns: int) -> float | None:
        """Return how often per second the disk was flushed in between, None if that is not known."""
        return _rate(list(self._flushed), begin_ns, end_ns)

    def rss_bytes_max(self, role: str) -> int | None:
        """Return the highest memory of a role in any sample."""
        return self._rss_bytes_max.get(role)

    def series(self, start_ns: int, width_s: int = 1) -> dict[int, dict[str, Any]]:
        """Return the last sample of each second after `start_ns`, by its number; per role as JSON.

        width_s: each entry covers this many seconds, under the number of the first one.
        """
        by_second: dict[int, dict[str, Any]] = {}
        for at_ns, usages in self._samples:
            second = (at_ns - start_ns) // _SECOND_NS
            if second >= 0:
                by_second[second - second % width_s] = {role: asdict(usage) for role, usage in usages.items()}
        return by_second

    def _seen(self, role: str) -> list[tuple[int, Usage]]:
        return [(at, usages[role]) for at, usages in self._samples if role in usages]


def _rate(seen: Sequence[tuple[int, float]], begin_ns: int, end_ns: int) -> float | None:
    """Return how fast a number grew per second, from the last sample before the beginning to the first after the end.

    If there is no such sample, use the nearest one inside. None if no time remains between the two samples.
    """
    if not seen:
        return None
    first = next((sample for sample in reversed(seen) if sample[0] <= begin_ns), seen[0])
    last = next((sample for sample in seen if sample[0] >= end_ns), seen[-1])
    if last[0] <= first[0]:
        return None
    return (last[1] - first[1]) * _SECOND_NS / (last[0] - first[0])


def _sum(parts: list[Usage]) -> Usage:
    return Usage(
        rss_bytes=sum(part.rss_bytes for part in parts),
        cpu_s=sum(part.cpu_s for part in parts),
        written_bytes=sum(part.written_bytes for part in parts),
    )
