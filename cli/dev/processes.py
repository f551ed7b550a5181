"""Server processes: start one in a session of its own, recognise it later, signal it, and wait for its end."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hedwig.cli.dev.errors import DevError

__all__ = [
    "ProcessIdentity",
    "identify_child",
    "is_paused",
    "marked_processes",
    "send_signal",
    "spawn",
    "still_runs",
    "wait_gone",
    "wait_paused",
]

_PROC = Path("/proc")
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be mistaken for a later one with the same pid.

    `started` is the start time as the system states it (clock ticks since boot on Linux). Compare it for equality only.
    """

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class _Facts:
    state: str
    started: str
    command: str
    separator: str  # between the arguments in `command`


def spawn(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    """Start `command` as the leader of a new session, with both outputs appended to `log`; return its pid.

    A session of its own keeps the Ctrl-C of the caller's terminal away from the server. posix_spawn leaves no Popen
    object behind, which would have to live as long as the server does.

    Raises: DevError - the program cannot be executed.
    """
    null, out = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        return os.posix_spawn(
            command[0],
            list(command),
            dict(environment),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, out, 2),
                *((os.POSIX_SPAWN_CLOSE, number) for number in _inherited_files()),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP),
        )
    except OSError as exc:
        raise DevError(f"cannot start {command[0]}: {exc.strerror}; check that it is an executable program") from exc
    finally:
        os.close(null)
        os.close(out)


def identify_child(pid: int) -> ProcessIdentity:
    """Return the identity of a process that was spawned just now. Works also if it has ended already."""
    facts = _facts(pid)
    return ProcessIdentity(pid, facts.started if facts else "")


def still_runs(identity: ProcessIdentity, marker: str) -> bool:
    """Say whether exactly this process lives: same pid, same start time, and `marker` among its arguments.

    The marker tells it from a process of an earlier boot of the machine. For a moment after its start a process has no
    arguments.
    """
    facts = _facts(identity.pid)
    return (
        facts is not None and facts.started == identity.started and (not facts.command or _has_argument(facts, marker))
    )


def is_paused(identity: ProcessIdentity) -> bool:
    """Say whether SIGSTOP has stopped the process."""
    facts = _facts(identity.pid)
    return facts is not None and facts.state in {"T", "t"}


def wait_paused(identity: ProcessIdentity, marker: str, timeout_s: float) -> bool:
    """Wait until SIGSTOP takes effect; say whether the process is paused, or gone, within `timeout_s`.

    On a busy machine its threads run on until one of them gets a processor and receives the signal.
    """
    deadline = time.monotonic() + timeout_s
    while not is_paused(identity) and still_runs(identity, marker):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def marked_processes(prefix: str) -> dict[str, ProcessIdentity]:
    """Find every live process with an argument that starts with `prefix`, by the rest of that argument.

    This also finds a process that was started but not recorded, because the launcher was killed in between.
    """
    processes = {}
    for pid in _pids():
        facts = _facts(pid)
        if facts is None:
            continue
        edge = facts.separator
        _, mark, rest = f"{edge}{facts.command}".partition(f"{edge}{prefix}")
        if mark:
            processes[rest.partition(edge)[0]] = ProcessIdentity(pid, facts.started)
    return processes


def send_signal(identity: ProcessIdentity, marker: str, number: signal.Signals) -> bool:
    """Signal the process if it still runs; say whether it did."""
    if not still_runs(identity, marker):
        return False
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_gone(identity: ProcessIdentity, marker: str, timeout_s: float) -> bool:
    """Wait until the process has ended; say whether it did within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while still_runs(identity, marker):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _inherited_files() -> list[int]:
    """Return the files that a child would inherit although no caller passed them on, such as a lock of the caller."""
    inherited = []
    for entry in list(Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):  # The descriptor of the listing itself is closed again.
            if int(entry.name) > 2 and os.get_inheritable(int(entry.name)):
                inherited.append(int(entry.name))
    return inherited


def _has_argument(facts: _Facts, argument: str) -> bool:
    edge = facts.separator
    return f"{edge}{argument}{edge}" in f"{edge}{facts.command}{edge}"


def _facts(pid: int) -> _Facts | None:
    """Read what the system knows of a live process; None for a zombie. Reaps a zombie that is our child."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return _facts_from_proc(pid) if _PROC.joinpath("self/stat").exists() else _facts_from_ps(pid)


def _facts_from_proc(pid: int) -> _Facts | None:
    try:
        stat = _PROC.joinpath(str(pid), "stat").read_text(errors="replace")
        command = _PROC.joinpath(str(pid), "cmdline").read_text(errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The program name, in parentheses, may contain blanks and parentheses.
    fields = stat.rpartition(")")[2].split()
    # A zombie with more than one thread is a process that is still ending. Its sockets may still be open.
    if fields[0] in {"Z", "X"} and int(fields[17]) <= 1:
        return None
    return _Facts(state=fields[0], started=fields[19], command=command, separator="\0")


def _facts_from_ps(pid: int) -> _Facts | None:
    """Do the same if there is no /proc."""
    ran = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "state=", "-o", "lstart=", "-o", "command="],
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )
    # The state, the five words of the start time, the unchanged command line.
    words = ran.stdout.strip().split(maxsplit=6)
    if ran.returncode != 0 or len(words) < 7 or words[0].startswith("Z"):
        return None
    return _Facts(state=words[0][0], started=" ".join(words[1:6]), command=words[6], separator=" ")


def _pids() -> list[int]:
    if _PROC.joinpath("self/stat").exists():
        return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    listed = subprocess.run(["ps", "-ax", "-o", "pid="], capture_output=True, text=True, check=False, timeout=10)
    return [int(word) for word in listed.stdout.split()]
