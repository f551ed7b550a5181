"""Prove that a process is reported as ended only if that is certain."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hedwig.hub.liveness.process import ProcessMark, has_ended, this_process

CHILD = "import hedwig.hub.liveness.process as p, sys; print(repr(p.this_process()), flush=True); sys.stdin.read()"


@pytest.fixture
def child() -> Iterator[tuple["subprocess.Popen[str]", ProcessMark]]:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, eval(process.stdout.readline(), {"ProcessMark": ProcessMark})
        process.kill()


def test_this_process_runs() -> None:
    here = this_process()
    assert here is not None
    assert here.pid == os.getpid()
    assert not has_ended(here)


def test_a_process_has_ended_once_it_was_killed(child: tuple["subprocess.Popen[str]", ProcessMark]) -> None:
    process, mark = child
    assert not has_ended(mark)
    process.kill()
    # Until its parent reads it, the exit status of a killed process remains.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(mark)
    process.wait()
    assert has_ended(mark)


def test_another_process_of_the_same_number_is_another() -> None:
    here = this_process()
    assert here is not None
    assert has_ended(replace(here, started=here.started - 1))


def test_nothing_is_certain_of_other_machines_and_containers() -> None:
    here = this_process()
    assert here is not None
    gone = replace(here, pid=2**22 + 1)
    assert has_ended(gone)
    assert not has_ended(replace(gone, boot="11111111-2222-3333-4444-555555555555"))
    assert not has_ended(replace(gone, pid_namespace="pid:[1]"))
