"""Processor time of other processes, to the nanosecond."""

import bisect
import time
from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.machine.downsampling import Downsampled
from hedwig.benchmarks.machine.periodic import Periodic

__all__ = ["CpuTimes", "CpuTimesBeside", "cpu_s_between", "cpu_s_of"]

_OF_A_PROCESS = 2
_AGAIN_NS: Final = 5_000_000
_OFF_MAX: Final = 0.05
"""Share of a window by which the nearest look may be off its border; beyond that the time used would be a guess."""


def cpu_s_of(pid: int) -> float | None:
    """Return the processor time of a process and all of its threads so far, None if it has ended.

    Source: Linux's dynamic clocks, whose number is the complement of the process id, and three bits for the kind.
    /proc reports only ticks of 10 ms.
    """
    try:
        return time.clock_gettime((~pid << 3) | _OF_A_PROCESS)
    except OSError:
        return None


def cpu_s_between(begin_ns: int, end_ns: int, roles: Sequence[Sequence[int]]) -> list[float | None]:
    """Wait until the monotonic time `end_ns`; return the time that the processes of each role used since `begin_ns`.

    A role has None if it has no processes, or one of them ended.
    """
    before = _at(begin_ns, roles)
    after = _at(end_ns, roles)
    return [None if first is None or last is None else last - first for first, last in zip(before, after, strict=True)]


class CpuTimes:
    """What the processes of each role had used, at the moments of the caller's looks.

    It is for windows whose borders are known only afterwards: those of a number of operations.
    For three roles it holds less than 3 MB: from 8,192 looks on they are thinned (`Downsampled`).
    In a window with that many looks, the part between two looks, taken as evenly used, is a four-thousandth of it.
    """

    def __init__(self, roles: Sequence[Sequence[int]]) -> None:
        self._roles = roles
        self._looks: Downsampled[tuple[int, list[float | None]]] = Downsampled()
        self._last_ns = 0

    def look(self) -> None:
        """Read the processor times now."""
        self._last_ns = time.monotonic_ns()
        self._looks.add((self._last_ns, [_sum(pids) for pids in self._roles]))

    def look_again(self) -> None:
        """Read the processor times now, if the last look is some milliseconds ago."""
        if time.monotonic_ns() - self._last_ns >= _AGAIN_NS:
            self.look()

    def between(self, begin_ns: int, end_ns: int) -> list[float | None]:
        """Return the time that the processes of each role used between two monotonic times.

        A role has None if it has no processes, or one of them ended. All roles have None if a border lies outside the
        looks, or too far from the nearest one to tell what was used inside.
        """
        before, after = self._moment(begin_ns, end_ns - begin_ns), self._moment(end_ns, end_ns - begin_ns)
        return [
            None if first is None or last is None else last - first for first, last in zip(before, after, strict=True)
        ]

    def _moment(self, at_ns: int, window_ns: int) -> list[float | None]:
        """Return what each role had used at a moment, by interpolation between the looks before and after it."""
        looks = list(self._looks)
        index = bisect.bisect_left(looks, at_ns, key=_moment_of)
        if index in (0, len(looks)):
            return [None] * len(self._roles)
        (before_ns, used_before), (after_ns, used_after) = looks[index - 1 : index + 1]
        if min(at_ns - before_ns, after_ns - at_ns) > _OFF_MAX * window_ns:
            return [None] * len(self._roles)
        share = (at_ns - before_ns) / (after_ns - before_ns)
        return [
            None if first is None or last is None else first + share * (last - first)
            for first, last in zip(used_before, used_after, strict=True)
        ]


class CpuTimesBeside(Periodic):
    """Looks at processor times every `interval_s` in `with`."""

    def __init__(self, roles: Sequence[Sequence[int]], interval_s: float) -> None:
        self._times = CpuTimes(roles)
        super().__init__("processor times", interval_s)

    def _sample(self) -> None:
        self._times.look()

    def between(self, begin_ns: int, end_ns: int) -> list[float | None]:
        """Return the time that the processes of each role used, as `CpuTimes` does; call it after `with`."""
        return self._times.between(begin_ns, end_ns)


def _moment_of(look: tuple[int, Sequence[float | None]]) -> int:
    return look[0]


def _at(moment_ns: int, roles: Sequence[Sequence[int]]) -> list[float | None]:
    time.sleep(max(0.0, (moment_ns - time.monotonic_ns()) / 1e9))
    return [_sum(pids) for pids in roles]


def _sum(pids: Sequence[int]) -> float | None:
    times = [cpu_s_of(pid) for pid in pids]
    known = [each for each in times if each is not None]
    return sum(known) if known and len(known) == len(times) else None
