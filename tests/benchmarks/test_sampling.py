"""Prove that what processes use is read right: a role's sum, a rate in between, nothing of the dead."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.environment import sync_rate
from benchmarks.sampling import Sampler, usage_of

BURNT_S = 0.3
HELD_BYTES = 64 << 20
BUSY = f"""
import sys, time
held = b"x" * {HELD_BYTES}
while time.process_time() < {BURNT_S}:
    pass
print("done", flush=True)
sys.stdin.read()
"""


@contextmanager
def _busy() -> Iterator[int]:
    """Run a process that has used a known time and holds known memory, and now waits."""
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        yield process.pid


def test_memory_and_time_of_a_process() -> None:
    with _busy() as pid:
        usage = usage_of(pid)
    assert usage is not None
    assert usage.cpu_s >= BURNT_S - 0.05
    assert HELD_BYTES < usage.rss_bytes < 4 * HELD_BYTES
    assert usage_of(pid) is None


def test_processes_of_a_role_are_summed() -> None:
    with _busy() as first, _busy() as second:
        with Sampler({"load": [first, second], "nobody": []}) as sampler:
            pass
        assert (sampler.rss_bytes_max("load") or 0) > 2 * HELD_BYTES
    assert sampler.rss_bytes_max("nobody") is None
    assert sampler.cores("nobody", 0, 1) is None


def test_time_used_is_a_share_of_the_time_in_between() -> None:
    begin_ns = time.monotonic_ns()
    with Sampler({"me": [os.getpid()]}) as sampler:
        before = time.process_time()
        while time.process_time() - before < BURNT_S:
            pass
    end_ns = time.monotonic_ns()
    cores = sampler.cores("me", begin_ns, end_ns)
    assert cores is not None
    # Ticks are of 10 ms, and the first and the last sample are up to one apart from the borders.
    assert cores * (end_ns - begin_ns) / 1e9 == pytest.approx(BURNT_S, abs=0.15)
    assert 0 in sampler.series(begin_ns)


def test_the_sync_rate_leaves_nothing_behind(tmp_path: Path) -> None:
    assert sync_rate(tmp_path / "data", 0.2) > 0
    assert list((tmp_path / "data").iterdir()) == []


def test_flushes_are_told_as_a_rate_or_as_unknown() -> None:
    counted = iter(range(0, 100_000, 10))
    begin_ns = time.monotonic_ns()
    with Sampler({}, flushes=lambda: next(counted)) as sampler, Sampler({}) as nothing:
        time.sleep(1.1)
    end_ns = time.monotonic_ns()
    rate = sampler.flushes_per_s(begin_ns, end_ns)
    assert rate is not None
    assert 20 < rate < 60, "ten for each of four samples a second"
    assert nothing.flushes_per_s(begin_ns, end_ns) is None
