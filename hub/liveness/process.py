"""The identity of a hub's process, by which another process on the same machine can prove that it has ended."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ProcessMark", "has_ended", "this_process"]

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """The unique identity of a process: `boot` names one start of one machine, `pid_namespace` a container on it.

    `started` is the start time of the process, in clock ticks since the start of the machine.
    """

    boot: str
    pid_namespace: str
    pid: int
    started: int


def this_process() -> ProcessMark | None:
    """Return the mark of this process; None if the system does not provide it."""
    try:
        boot, namespace, pid = _BOOT.read_text().strip(), str(_PID_NAMESPACE.readlink()), os.getpid()
        started, _ = _look(pid)
    except (OSError, ValueError):
        return None
    return ProcessMark(boot, namespace, pid, started)


def has_ended(process: ProcessMark) -> bool:
    """Say whether a process has certainly ended; False if this process cannot find out."""
    here = this_process()
    if here is None or (here.boot, here.pid_namespace) != (process.boot, process.pid_namespace):
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # The PID belongs to another user. It may be that process, or a later one.
    try:
        started, is_remains = _look(process.pid)
    except (OSError, ValueError):
        return False
    return started != process.started or is_remains


def _look(pid: int) -> tuple[int, bool]:
    """Return the start of a process, and whether only its exit status remains. Raises: OSError; ValueError."""
    # The fields after the name, which is in parentheses and may hold any character.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if len(fields) < 20:
        raise ValueError(f"/proc/{pid}/stat has only {len(fields)} fields after the name")
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    return started, state in "ZX" and threads <= 1
