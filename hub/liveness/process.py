"""Which process a hub is, told so that another one on the same machine can prove that it has ended."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ProcessMark", "has_ended", "this_process"]

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process among all that ever were: `boot` names one start of one machine, `pid_namespace` a container of it.

    `started` is the time of the process's start, in clock ticks since that of the machine.
    """

    boot: str
    pid_namespace: str
    pid: int
    started: int


def this_process() -> ProcessMark | None:
    """Return the mark of this process; None where the system does not tell."""
    try:
        boot, namespace, pid = _BOOT.read_text().strip(), str(_PID_NAMESPACE.readlink()), os.getpid()
        started, _ = _look(pid)
    except (OSError, ValueError):
        return None
    return ProcessMark(boot, namespace, pid, started)


def has_ended(process: ProcessMark) -> bool:
    """Say whether it is certain that a process will never do anything again; False if that cannot be told from here."""
    here = this_process()
    if here is None or (here.boot, here.pid_namespace) != (process.boot, process.pid_namespace):
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # It is another user's, and may be the one or its successor.
    try:
        started, is_remains = _look(process.pid)
    except (OSError, ValueError):
        return False
    return started != process.started or is_remains


def _look(pid: int) -> tuple[int, bool]:
    """Return the start of a process, and whether all but its exit status is gone. Raises OSError, ValueError."""
    # After the name, which is in parentheses and may hold any character.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if len(fields) < 20:
        raise ValueError(f"/proc/{pid}/stat has only {len(fields)} fields after the name")
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    return started, state in "ZX" and threads <= 1
