"""Prove that a process counts as a server only if it is that very process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hedwig.cli.dev import processes
from hedwig.cli.dev.errors import DevError
from hedwig.cli.dev.processes import (
    ProcessIdentity,
    identify_child,
    is_paused,
    marked_processes,
    send_signal,
    spawn,
    still_runs,
    wait_gone,
)
from tests.cli.dev.support.conditions import wait_until

MARKER = "-Dhedwig.dev.server=/some where/zookeeper-1"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"

Start = Callable[..., ProcessIdentity]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a sleeping process with the given arguments; it ends after the test."""
    started: list[ProcessIdentity] = []

    def start_one(*arguments: str) -> ProcessIdentity:
        log = tmp_path / f"{len(started)}.log"
        identity = identify_child(spawn([sys.executable, "-c", SLEEP, *arguments], os.environ, log))
        started.append(identity)
        wait_until(lambda: log.read_text() == "up\n", "the process runs")
        return identity

    yield start_one
    for identity in started:
        if identify_child(identity.pid) == identity:
            os.kill(identity.pid, signal.SIGKILL)
            wait_until(lambda it=identity: identify_child(it.pid) != it, "the process ends")  # type: ignore[misc]


def test_a_started_process_is_recognised_until_it_ends(start: Start) -> None:
    identity = start(MARKER)
    assert still_runs(identity, MARKER)
    assert send_signal(identity, MARKER, signal.SIGKILL)
    assert wait_gone(identity, MARKER, 10)
    assert not send_signal(identity, MARKER, signal.SIGKILL)


def test_another_start_time_is_another_process(start: Start) -> None:
    identity = start(MARKER)
    assert not still_runs(replace(identity, started="1"), MARKER)
    assert not send_signal(replace(identity, started="1"), MARKER, signal.SIGKILL)
    assert still_runs(identity, MARKER)


@pytest.mark.parametrize("arguments", [(), (MARKER + "0",), ("x" + MARKER,)], ids=["none", "longer", "not the start"])
def test_another_command_line_is_another_process(start: Start, arguments: tuple[str, ...]) -> None:
    identity = start(*arguments)
    assert not still_runs(identity, MARKER)
    assert not send_signal(identity, MARKER, signal.SIGKILL)


def test_unrecorded_processes_are_found_by_their_mark(start: Start) -> None:
    first, tenth = start(MARKER), start(MARKER + "0")
    prefix = MARKER.removesuffix("zookeeper-1")
    assert marked_processes(prefix) == {"zookeeper-1": first, "zookeeper-10": tenth}


def test_a_paused_process_still_runs(start: Start) -> None:
    identity = start(MARKER)
    assert not is_paused(identity)
    send_signal(identity, MARKER, signal.SIGSTOP)
    wait_until(lambda: is_paused(identity), "the process is paused")
    assert still_runs(identity, MARKER)
    send_signal(identity, MARKER, signal.SIGCONT)
    wait_until(lambda: not is_paused(identity), "the process goes on")


def test_systems_without_proc_give_the_same_answers(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path / "no such file system")
    pid = start(MARKER).pid
    identity = identify_child(pid)
    assert still_runs(identity, MARKER)
    assert not still_runs(identity, MARKER.removesuffix("1"))
    assert marked_processes(MARKER.removesuffix("1"))["1"].pid == pid
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_paused(identity), "the process is paused")
    assert send_signal(identity, MARKER, signal.SIGKILL)
    assert wait_gone(identity, MARKER, 10)


def test_a_server_inherits_no_open_files_and_no_terminal(tmp_path: Path) -> None:
    held, other_end = os.pipe()
    os.set_inheritable(other_end, True)
    log = tmp_path / "log"
    script = "import os; print(os.getsid(0) == os.getpid(), sorted(map(int, os.listdir('/dev/fd')))[:3], flush=True)"
    try:
        identity = identify_child(
            spawn([sys.executable, "-c", script + "; import time; time.sleep(600)"], os.environ, log)
        )
        wait_until(lambda: log.read_text().endswith("\n"), "the process reports")
        os.close(other_end)
        # The pipe ends only if the running process does not hold its other end.
        os.set_blocking(held, False)
        assert os.read(held, 1) == b""
        assert log.read_text().startswith("True [0, 1, 2]")
    finally:
        os.close(held)
        os.kill(identity.pid, signal.SIGKILL)
        wait_until(lambda: identify_child(identity.pid) != identity, "the process ends")


def test_a_program_that_cannot_run_is_named() -> None:
    with pytest.raises(DevError, match=r"^cannot start /no/such/java: No such file or directory; check"):
        spawn(["/no/such/java"], {}, Path(os.devnull))


def test_a_zombie_is_gone() -> None:
    # Nobody has reaped it: only its entry in the process table remains.
    child = subprocess.Popen([sys.executable, "-c", "input()", MARKER], stdin=subprocess.PIPE)
    identity = identify_child(child.pid)
    assert child.stdin is not None
    child.stdin.close()
    assert wait_gone(identity, MARKER, 10)
    child.wait()
