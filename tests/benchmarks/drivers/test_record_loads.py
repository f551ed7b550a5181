"""Prove that loads on metadata records show the known delays, refusals and failures of their client."""

import asyncio
import subprocess
import sys
import time

import pytest

from hedwig.benchmarks.drivers.records.record_target import RecordTarget
from hedwig.benchmarks.load.load import Load
from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.load.workloads import Operation, Workload, topic_name
from hedwig.benchmarks.machine.cpu_time import cpu_s_between, cpu_s_of
from tests.benchmarks.support.known_records import KnownRecords
from tests.support.virtual_time import VirtualTime

MS = 1_000
READ_S, WRITE_S = 0.005, 0.010
ONE_PER_CENT = 0.01


def _workload(operation: Operation, in_flight: int, records: int) -> Workload:
    return Workload(
        name=operation.value,
        mix={operation.value: 1.0},
        topics=records,
        in_flight=in_flight,
        seconds=10.0,
        warmup_s=2.0,
    )


def _measured(workload: Workload, client: KnownRecords) -> Summary:
    clock = VirtualTime()

    async def run() -> Summary:
        target = RecordTarget(workload, client)
        load = Load(workload, target, now_ns=clock.now_ns)
        await target.open(load)
        recording = await load.run(clock.now_ns() + 1_000_000_000)
        await target.close()
        assert len(asyncio.all_tasks()) == 1, "tasks are left"
        return recording.summarize()

    return clock.run(run())


@pytest.mark.parametrize(
    ("operation", "delay_s"),
    [
        (Operation.READ, READ_S),
        (Operation.CREATE, WRITE_S),
        (Operation.UPDATE, WRITE_S),
        (Operation.PARTIAL_UPDATE, WRITE_S),
    ],
)
@pytest.mark.parametrize("in_flight", [1, 16])
def test_known_delays_come_out(operation: Operation, delay_s: float, in_flight: int) -> None:
    client = KnownRecords(READ_S, WRITE_S)
    summary = _measured(_workload(operation, in_flight, 100), client)
    assert summary.count / summary.seconds == pytest.approx(in_flight / delay_s, rel=ONE_PER_CENT)
    assert summary.service.percentile_us(50) == pytest.approx(delay_s * 1000 * MS, rel=ONE_PER_CENT)
    assert summary.service.max_us == pytest.approx(delay_s * 1000 * MS, rel=ONE_PER_CENT)
    assert (summary.errors, summary.refusals) == ({}, 0)
    if operation in (Operation.UPDATE, Operation.PARTIAL_UPDATE):
        assert client.parts == {operation is Operation.PARTIAL_UPDATE}


def test_every_create_makes_a_record() -> None:
    client = KnownRecords(READ_S, WRITE_S)
    workload = _workload(Operation.CREATE, 4, 10)
    summary = _measured(workload, client)
    begun = len(client.versions)
    assert begun >= summary.count
    assert set(client.versions) == {topic_name(f"{workload.prefix}-new", number) for number in range(begun)}


def test_one_writer_for_each_key_meets_nobody() -> None:
    summary = _measured(_workload(Operation.CONTENDED_UPDATE, 64, 64), KnownRecords(READ_S, WRITE_S))
    assert summary.refusals == 0
    assert summary.service.max_us == pytest.approx((READ_S + WRITE_S) * 1000 * MS, rel=ONE_PER_CENT)


@pytest.mark.parametrize("writers", [2, 8, 64])
def test_writers_of_one_key_are_refused_as_often_as_they_meet(writers: int) -> None:
    """The writers run in step: all have read by the same moment, one of them writes, and the others read again."""
    client = KnownRecords(READ_S, WRITE_S)
    keys = 64 // writers
    summary = _measured(_workload(Operation.CONTENDED_UPDATE, 64, keys), client)
    # Each round of a key takes a read and a write, whichever writer wins.
    assert summary.count / summary.seconds == pytest.approx(keys / (READ_S + WRITE_S), rel=2 * ONE_PER_CENT)
    assert summary.refusals / summary.count == pytest.approx(writers - 1, rel=2 * ONE_PER_CENT)
    assert not summary.errors
    # The writes equal the counted operations, also before and after the window: no update got lost.
    assert client.writes == sum(version - 1 for version in client.versions.values())
    assert client.writes == sum(second.finished for second in summary.series.values())
    # All seconds but the first and the last have the same number of refusals.
    by_second = [summary.series[second].refused for second in range(1, 9)]
    assert by_second == pytest.approx([summary.refusals / summary.seconds] * 8, rel=0.1)


def test_failures_show_and_the_others_go_on() -> None:
    workload = _workload(Operation.READ, 4, 4)
    client = KnownRecords(READ_S, WRITE_S, broken=frozenset({topic_name(workload.prefix, 0)}))
    summary = _measured(workload, client)
    assert list(summary.errors) == ["ConnectionRefusedError"]
    assert summary.errors["ConnectionRefusedError"] == pytest.approx(summary.count / 3, rel=2 * ONE_PER_CENT)


def test_a_record_that_vanishes_is_a_failure() -> None:
    workload = _workload(Operation.UPDATE, 1, 1)

    class Forgetful(KnownRecords):
        async def update(self, key: bytes, version: int, *, part: bool) -> tuple[bool, int | None]:
            self.versions.clear()
            return await super().update(key, version, part=part)

    summary = _measured(workload, Forgetful(READ_S, WRITE_S))
    assert set(summary.errors) == {"a record is missing"}
    assert summary.count == 0


# ------------------------------------------------------------------------------------------------------- processor time

BURN = """
import sys, threading, time
def burn():
    end = time.thread_time() + 0.15
    while time.thread_time() < end:
        pass
threads = [threading.Thread(target=burn) for _ in range(2)]
for each in threads: each.start()
for each in threads: each.join()
print(time.process_time(), flush=True)
sys.stdin.read()
"""


def test_processor_time_of_another_process_is_what_it_knows_itself() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as burner:
        try:
            assert burner.stdout is not None
            own = float(burner.stdout.readline())
            seen = cpu_s_of(burner.pid)
            assert own >= 0.3
            assert seen is not None
            # Since then it has only printed and waited.
            assert own <= seen <= own + 0.1
            now = time.monotonic_ns()
            idle, nobody = cpu_s_between(now, now, ([burner.pid], []))
            assert idle is not None
            assert 0 <= idle < 0.1
            assert nobody is None
        finally:
            burner.kill()
    assert cpu_s_of(burner.pid) is None
