"""Processor time of other processes, to the nanosecond."""

import time
from collections.abc import Sequence

__all__ = ["cpu_s_between", "cpu_s_of"]

_OF_A_PROCESS = 2


def cpu_s_of(pid: int) -> float | None:
    """Return the processor time of a process and all of its threads so far, None if it has ended.

    Source: Linux's dynamic clocks, whose number is the complement of the process id, and three bits for the kind. What
    /proc tells comes in ticks of 10 ms.
    """
    try:
        return time.clock_gettime((~pid << 3) | _OF_A_PROCESS)
    except OSError:
        return None


def cpu_s_between(begin_ns: int, end_ns: int, roles: Sequence[Sequence[int]]) -> list[float | None]:
    """Wait from now until the monotonic time `end_ns`; return the time that the processes of each role used inside.

    A role has None if it has no processes, or one of them ended.
    """
    before = _at(begin_ns, roles)
    after = _at(end_ns, roles)
    return [None if first is None or last is None else last - first for first, last in zip(before, after, strict=True)]


def _at(moment_ns: int, roles: Sequence[Sequence[int]]) -> list[float | None]:
    time.sleep(max(0.0, (moment_ns - time.monotonic_ns()) / 1e9))
    return [_sum(pids) for pids in roles]


def _sum(pids: Sequence[int]) -> float | None:
    times = [cpu_s_of(pid) for pid in pids]
    known = [each for each in times if each is not None]
    return sum(known) if known and len(known) == len(times) else None
