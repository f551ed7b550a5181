"""Prove that the processor time of a window, however short, is the time used in it, or unknown."""

import os
import subprocess
import sys
import time

import pytest

from hedwig.benchmarks.machine.cpu_time import CpuTimes, CpuTimesBeside
from tests.benchmarks.support.passing_hours import PassingHours

SECOND_NS = 1_000_000_000
WINDOW_S, USED_S = 0.2, 0.1
"""A window like those of a few hundred operations."""


def _burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def _sleep_until(at_ns: float) -> None:
    time.sleep(max(0.0, (at_ns - time.monotonic_ns()) / SECOND_NS))


def _window(times: CpuTimes) -> tuple[int, int, float]:
    """Use a known time in a window, and as much before and after it; return its borders and the time."""
    times.look()
    _burn(USED_S)
    begin_ns, before = time.monotonic_ns(), time.process_time()
    times.look()
    _burn(USED_S)
    _sleep_until(begin_ns + WINDOW_S * SECOND_NS)
    end_ns, used = time.monotonic_ns(), time.process_time() - before
    times.look()
    _burn(USED_S)
    times.look()
    return begin_ns, end_ns, used


def test_of_a_short_window_what_was_used_before_and_after_is_not_counted() -> None:
    times = CpuTimes(([os.getpid()], []))
    begin_ns, end_ns, used = _window(times)
    own, nobody = times.between(begin_ns, end_ns)
    assert used >= USED_S
    assert own == pytest.approx(used, abs=0.01)
    assert nobody is None


def test_the_processes_of_a_role_add_up() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            times = CpuTimes(([os.getpid(), other.pid], [other.pid]))
            begin_ns, end_ns, used = _window(times)
        finally:
            other.kill()
    both, alone = times.between(begin_ns, end_ns)
    assert alone is not None
    assert both == pytest.approx(used + alone, abs=0.01)


def test_between_two_looks_time_is_taken_to_be_used_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take two looks, an hour apart, at a process that uses a quarter of a processor."""
    hours = PassingHours(3600.0, hours=1.0)
    monkeypatch.setattr("hedwig.benchmarks.machine.cpu_time.time", hours)
    monkeypatch.setattr("hedwig.benchmarks.machine.cpu_time.cpu_s_of", lambda _: hours.seconds / 4)
    times = CpuTimes(([1],))
    hours.pass_by(times.look)
    # A border at three hundredths of the window after a look.
    assert times.between(*hours.moments_ns(0.03, 0.97)) == pytest.approx([0.94 * hours.all_s / 4])
    assert times.between(*hours.moments_ns(0.3, 0.97)) == [None]


def test_what_was_not_seen_is_not_known() -> None:
    times = CpuTimes(([os.getpid()],))
    begin_ns, end_ns, _ = _window(times)
    assert times.between(begin_ns - 60 * SECOND_NS, end_ns) == [None]
    assert times.between(begin_ns, end_ns + 60 * SECOND_NS) == [None]
    assert CpuTimes(([os.getpid()],)).between(begin_ns, end_ns) == [None]


def test_of_who_has_ended_nothing_is_known() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    times = CpuTimes(([process.pid, os.getpid()], [os.getpid()]))
    begin_ns, end_ns, _ = _window(times)
    together, alone = times.between(begin_ns, end_ns)
    assert together is None
    assert alone is not None


def test_what_is_looked_at_beside_is_known_of_a_long_time() -> None:
    with CpuTimesBeside(([os.getpid()],), 0.01) as times:
        begin_ns, before = time.monotonic_ns(), time.process_time()
        _burn(1.0)
        end_ns, used = time.monotonic_ns(), time.process_time() - before
    (measured,) = times.between(begin_ns, end_ns)
    assert measured == pytest.approx(used, rel=0.1)


@pytest.mark.full
def test_looks_of_hours_take_little_memory_and_lose_nothing_at_the_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take twenty looks a second for two hours at a process that works only in the first half."""
    hours = PassingHours(0.05, hours=2.0)
    monkeypatch.setattr("hedwig.benchmarks.machine.cpu_time.time", hours)
    monkeypatch.setattr("hedwig.benchmarks.machine.cpu_time.cpu_s_of", lambda _: min(hours.seconds, hours.all_s / 2))
    times = CpuTimes(([1], [2]))
    held = hours.pass_by(times.look)
    assert held < 3_000_000
    begin_ns, end_ns = hours.moments_ns(0.1, 0.6)
    measured = times.between(begin_ns, end_ns)
    assert measured == pytest.approx([0.4 * hours.all_s] * 2, rel=1e-3)
    assert times.between(*hours.moments_ns(0.001, 0.999)) == pytest.approx([0.499 * hours.all_s] * 2, rel=1e-3)
