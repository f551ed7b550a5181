"""Prove that samples of processes are read right: the sum of a role, the rate in between, no dead processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.machine.downsampling import Downsampled
from hedwig.benchmarks.machine.environment import sync_rate
from hedwig.benchmarks.machine.sampling import Sampler, Usage, usage_of
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.cases import SERIES_WIDTH, note_used
from hedwig.benchmarks.stores.fill_rate import Seconds
from tests.benchmarks.support.passing_hours import PassingHours

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
    """Run a process that used a known time, holds known memory, and now waits."""
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
    # Ticks last 10 ms, and the first and the last sample may be up to one tick off the borders.
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


# ------------------------------------------------------------------------------------------------------------- hours

KINDS = ("zookeeper", "hbase-master", "regionserver", "thrift2", "client")
PEAK_AT_S = 1_000.25
"""The time of a sample that is left out once there are many."""


@pytest.mark.parametrize("samples_max", [7, 8, 100])
def test_samples_become_fewer_and_stay_even(samples_max: int) -> None:
    samples: Downsampled[int] = Downsampled(samples_max)
    for number in range(5_000):
        samples.add(number)
        *even, newest = samples
        assert len(samples) == len(even) + 1 <= samples_max
        assert newest == number
        if number < samples_max - 1:
            assert even == list(range(number))
        if len(even) > 1:
            apart = even[1]
            assert even == list(range(0, even[-1] + 1, apart))
            assert newest - even[-1] <= apart <= max(1, 2 * number / (samples_max - 2))


@pytest.fixture(scope="module")
def sampled() -> tuple[Sampler, PassingHours, int]:
    """Return a sampler of five kinds of processes over more than an hour, the hours, and how many bytes it holds.

    In the first half each process works, and writes 1 MB a second. In the other half the disk is flushed ten times a
    second.
    """
    hours = PassingHours(0.25, hours=1.1)

    def usage(_: int) -> Usage:
        at_work = min(hours.seconds, hours.all_s / 2)
        held = 3_000 if hours.seconds == PEAK_AT_S else 1_000
        return Usage(rss_bytes=held << 20, cpu_s=at_work, written_bytes=round(at_work * 1e6))

    processes = {kind: [number] for number, kind in enumerate(KINDS)}
    sampler = Sampler(processes, flushes=lambda: round(10 * max(0.0, hours.seconds - hours.all_s / 2)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hedwig.benchmarks.machine.sampling.time", hours)
        patched.setattr("hedwig.benchmarks.machine.sampling.usage_of", usage)
        return sampler, hours, hours.pass_by(sampler._sample)


@pytest.mark.full
def test_hours_are_sampled_in_little_memory_without_loss_at_the_borders(
    sampled: tuple[Sampler, PassingHours, int],
) -> None:
    sampler, hours, held = sampled
    assert held < 11_000_000
    for begin, end, worked in ((0.0, 1.0, 0.5), (0.0, 0.5, 1.0), (0.1, 0.6, 0.8), (0.5, 1.0, 0.0)):
        borders = hours.moments_ns(begin, end)
        assert sampler.cores("regionserver", *borders) == pytest.approx(worked, abs=1e-3)
        assert sampler.written_bytes_per_s("client", *borders) == pytest.approx(worked * 1e6, abs=1e3)
        assert sampler.flushes_per_s(*borders) == pytest.approx(10 * (1 - worked), abs=1e-2)
    assert sampler.rss_bytes_max("zookeeper") == 3_000 << 20


def test_what_is_noted_of_a_fill_of_hours_has_as_many_seconds_as_its_times(
    sampled: tuple[Sampler, PassingHours, int],
) -> None:
    """Each group of seconds has its last sample, as a single second has."""
    sampler, hours, _ = sampled
    (begin_ns, end_ns), seconds = hours.moments_ns(0.0, 1.0), Seconds()
    for second in range(round(hours.all_s) + 1):
        seconds.note(second, 3, 1_000)
    summary = Summary(begin_ns=begin_ns, end_ns=end_ns, series=seconds.series, series_width_s=seconds.width)
    measurement = Measurement(workload=Workload(name="fill"), driver="hbase", round=1)
    measurement.take(Summary.from_json(summary.to_json()), is_delivery=False)
    note_used(measurement, sampler, {kind: [1] for kind in KINDS}, begin_ns, summary, 1.0, 1.0)
    assert measurement.values[SERIES_WIDTH] == seconds.width == 2
    assert list(measurement.series) == list(range(0, round(hours.all_s) + 1, 2))
    for number, noted in measurement.series.items():
        assert set(noted) >= {"finished", "response", *KINDS}
        # Samples are half a second apart by then.
        assert noted["client"]["cpu_s"] == pytest.approx(min(number + 1.5, hours.all_s / 2))
    assert len(json.dumps(measurement.to_json(), indent=1)) < 2_000_000
