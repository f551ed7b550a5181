"""Prove that loads begin when servers are idle, and do not wait for ever for servers that never are."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hedwig.benchmarks.machine.cpu_time import cpu_s_of
from hedwig.benchmarks.machine.quiescing import settle

BUSY_S = 1.5
WORKING = """
import sys, time
print("at work", flush=True)
until = time.process_time() + float(sys.argv[1])
while time.process_time() < until:
    pass
sys.stdin.read()
"""


@contextmanager
def _process(seconds: float) -> Iterator[int]:
    command = [sys.executable, "-c", WORKING, str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "at work\n"
            yield process.pid
        finally:
            process.kill()


def test_who_is_at_work_is_waited_for() -> None:
    with _process(BUSY_S) as busy, _process(0.0) as idle:
        before_s = cpu_s_of(busy)
        # On a busy machine it gets little of a processor at a time, which is still more than an idle process uses.
        settling = settle([busy, idle], cores_max=0.02, calm_s=2.0, seconds_max=60.0)
        after_s = cpu_s_of(busy)
    assert before_s is not None
    assert after_s is not None
    # Other processes of the machine decide how fast it is; it had done most of its work in any case.
    assert after_s >= BUSY_S / 2
    assert settling.cores <= 0.02
    assert settling.seconds >= 2.0


def test_who_is_always_at_work_is_waited_for_no_longer_than_that() -> None:
    with _process(600.0) as busy:
        # On a busy machine even a process that never waits gets little of a processor.
        settling = settle([busy], cores_max=0.0, calm_s=1.0, seconds_max=2.0)
    assert settling.cores > 0
    assert settling.seconds >= 2.0


def test_nobody_and_those_that_have_ended_are_idle() -> None:
    with _process(600.0) as busy:
        pass
    assert settle([busy], calm_s=0.2).cores == 0
    assert settle([], calm_s=0.2).cores == 0
