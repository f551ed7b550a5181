"""What processes use, sampled from outside while they work: memory, processor time, bytes written."""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.periodic import Periodic

__all__ = ["Sampler", "Usage", "usage_of"]

_INTERVAL_S: Final = 0.25
_SECOND_NS: Final = 1_000_000_000
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process holds and has used since it started. Sizes in bytes."""

    rss_bytes: int
    cpu_s: float
    written_bytes: int


def usage_of(pid: int) -> Usage | None:
    """Return what a process uses now, None if it has ended."""
    place = Path("/proc", str(pid))
    try:
        # The second field is the program's name, which may contain anything; the others follow its parenthesis.
        stat = (place / "stat").read_text().rpartition(")")[2].split()
        resident = int((place / "statm").read_text().split()[1])
        io = dict(line.split(": ") for line in (place / "io").read_text().splitlines())
    except (OSError, IndexError):
        return None
    return Usage(
        rss_bytes=resident * _PAGE,
        cpu_s=(int(stat[11]) + int(stat[12])) / _TICKS,
        written_bytes=int(io["write_bytes"]),
    )


class Sampler(Periodic):
    """Samples processes, each under a role, four times a second in `with` and at its end; those of a role add up."""

    def __init__(self, processes: Mapping[str, list[int]]) -> None:
        self._processes = processes
        self._samples: list[tuple[int, dict[str, Usage]]] = []
        super().__init__("sampler", _INTERVAL_S)

    def _sample(self) -> None:
        found: dict[str, Usage] = {}
        for role, pids in self._processes.items():
            parts = [usage for pid in pids if (usage := usage_of(pid)) is not None]
            # A role one of whose processes has ended has no total any more: it would seem to shrink.
            if parts and len(parts) == len(pids):
                found[role] = _sum(parts)
        self._samples.append((time.monotonic_ns(), found))

    def cores(self, role: str, begin_ns: int, end_ns: int) -> float | None:
        """Return the processors that a role kept busy on average in between, None if it was not seen twice."""
        first, last = self._borders(role, begin_ns, end_ns)
        if first is None or last is None or last[0] <= first[0]:
            return None
        return (last[1].cpu_s - first[1].cpu_s) * _SECOND_NS / (last[0] - first[0])

    def written_bytes_per_s(self, role: str, begin_ns: int, end_ns: int) -> float | None:
        """Return the rate at which a role wrote to disks in between, None if it was not seen twice."""
        first, last = self._borders(role, begin_ns, end_ns)
        if first is None or last is None or last[0] <= first[0]:
            return None
        return (last[1].written_bytes - first[1].written_bytes) * _SECOND_NS / (last[0] - first[0])

    def rss_bytes_max(self, role: str) -> int | None:
        """Return the most memory that a role was seen with."""
        return max((usages[role].rss_bytes for _, usages in self._samples if role in usages), default=None)

    def series(self, start_ns: int) -> dict[int, dict[str, Any]]:
        """Return the last sample of each second after `start_ns`, by its number; per role as JSON."""
        found: dict[int, dict[str, Any]] = {}
        for at_ns, usages in self._samples:
            second = (at_ns - start_ns) // _SECOND_NS
            if second >= 0:
                found[second] = {role: asdict(usage) for role, usage in usages.items()}
        return found

    def _borders(self, role: str, begin_ns: int, end_ns: int) -> tuple[tuple[int, Usage] | None, ...]:
        """Return the last sample before the beginning and the first after the end, or the nearest inside."""
        seen = [(at, usages[role]) for at, usages in self._samples if role in usages]
        if not seen:
            return None, None
        before = [sample for sample in seen if sample[0] <= begin_ns]
        after = [sample for sample in seen if sample[0] >= end_ns]
        return before[-1] if before else seen[0], after[0] if after else seen[-1]


def _sum(parts: list[Usage]) -> Usage:
    return Usage(
        rss_bytes=sum(part.rss_bytes for part in parts),
        cpu_s=sum(part.cpu_s for part in parts),
        written_bytes=sum(part.written_bytes for part in parts),
    )
