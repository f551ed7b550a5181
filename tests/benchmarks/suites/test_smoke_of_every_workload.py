"""Prove that every workload runs on every driver that can do it, against a real hub, and leaves a whole result."""

import subprocess
import sys
from pathlib import Path

import pytest

from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.suites.hub.cases import HubCases
from hedwig.benchmarks.suites.hub.process import HubProcess
from hedwig.benchmarks.suites.hub.sizes import MEASUREMENTS, SMOKE, cases
from tests.support.checkout import CHECKOUT

LATENCIES = ("service", "response")


def _bench(directory: Path, *arguments: str) -> Result:
    """Run the command as its users do, at tiny sizes."""
    output = directory / "result.json"
    command = [sys.executable, "-m", "hedwig.benchmarks", "hub", "--sizes", "smoke", "--output", str(output)]
    run = subprocess.run(
        [*command, "--data", str(directory / "data"), *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    result = Result.read(output)
    assert result.is_complete
    assert f"written to {output}" in run.stderr
    for measurement in result.measurements:
        assert measurement.wall is None, measurement.wall
        assert not measurement.errors, (measurement.workload.name, measurement.errors)
    assert not list((directory / "data").iterdir())
    return result


def _check_operations(measurement: Measurement) -> None:
    workload = measurement.workload
    assert measurement.count > 0
    assert measurement.seconds > 0
    for name in LATENCIES:
        assert measurement.histograms[name].count > 0
    if workload.operations:
        assert measurement.count == workload.operations
        assert measurement.histograms["service"].count == workload.operations
    finished = sum(second.get("finished", 0) for second in measurement.series.values())
    assert finished >= measurement.count // max(1, workload.subscribers)
    assert measurement.hub_rss_bytes_max is not None
    assert measurement.hub_rss_bytes_max > 1 << 20
    assert any("hub" in second for second in measurement.series.values())


def test_raw_sockets_do_everything(tmp_path: Path) -> None:
    result = _bench(tmp_path, "--driver", "raw")
    planned = [case.workload for case in cases(MEASUREMENTS, ["raw"], SMOKE, 1)]
    assert [measurement.workload for measurement in result.measurements] == planned
    by_name = {measurement.workload.name: measurement for measurement in result.measurements}
    assert set(by_name) == set(MEASUREMENTS)
    for measurement in result.measurements:
        if measurement.workload.name != "idle-connections":
            _check_operations(measurement)
    for name in ("idle-topics", "idle-connections"):
        assert by_name[name].values["rss_bytes_after"] > 1 << 20
    assert by_name["deliver"].histograms["delivery"].count == by_name["deliver"].count
    environment = result.environment
    assert environment["disk_syncs_per_s"] > 0
    assert environment["memory_bytes"] > 1 << 20
    assert environment["libraries"]["protobuf"]
    assert result.terms["seed"] == 1


@pytest.mark.full
def test_our_client_does_what_the_raw_sockets_do(tmp_path: Path) -> None:
    asked = ("publish", "deliver", "subscribe")
    result = _bench(tmp_path, *asked, "--driver", "client", "--rate", "0", "--subscriptions", "20")
    assert {measurement.workload.name for measurement in result.measurements} == set(asked)
    for measurement in result.measurements:
        _check_operations(measurement)


def test_the_java_program_publishes_and_subscribes(tmp_path: Path) -> None:
    result = _bench(tmp_path, "publish", "subscribe", "--driver", "java", "--rate", "0")
    published, subscribed = result.measurements
    assert (published.driver, subscribed.driver) == ("java", "java")
    assert published.count > 0
    assert published.reported["mean"].endswith(" ms")
    assert subscribed.count >= SMOKE.java_subscriptions - 1
    assert published.hub_rss_bytes_max is not None


def test_two_generators_share_a_load(tmp_path: Path) -> None:
    workload = Workload(
        name="subscribe", mix={Operation.SUBSCRIBE.value: 1.0}, topics=5, in_flight=10, operations=41, seconds=60.0
    )
    measurement = HubCases(directory=tmp_path, processes=2).measure(Case(workload, "raw"), 1)
    assert measurement.wall is None, measurement.wall
    assert measurement.generator_processes == 2
    assert (measurement.count, measurement.histograms["service"].count) == (41, 41)


def test_a_hub_that_runs_already_is_measured_again_and_again(tmp_path: Path) -> None:
    """Subscriptions must be new each time, so each measurement uses its own names."""
    workload = Workload(
        name="subscribe", mix={Operation.SUBSCRIBE.value: 1.0}, topics=5, in_flight=10, operations=20, seconds=60.0
    )
    with HubProcess(tmp_path) as hub:
        running = HubCases(directory=tmp_path / "unused", address=hub.address, pid=hub.pid)
        for number in (1, 2):
            measurement = running.measure(Case(workload, "raw"), number)
            assert measurement.wall is None, measurement.wall
            assert (measurement.count, measurement.workload) == (20, workload)
        refused = running.measure(Case(Workload(name="idle-topics"), "raw"), 1)
    assert refused.wall == "idle-topics needs a hub of its own; leave --address out"


@pytest.mark.parametrize(
    ("case", "settings", "reason"),
    [
        (Case(Workload(name="publish"), "raw"), ["frame_bytes_max=1"], "the hub ended while it started: "),
        (Case(Workload(name="publish"), "raw"), ["read_only=true"], "preparing 50 topics by publish failed: "),
        (Case(Workload(name="x", mix={"deliver": 1}), "java"), [], "the Java client's program cannot run deliver"),
    ],
    ids=["the hub does not start", "the hub refuses", "the driver cannot"],
)
def test_what_cannot_be_measured_is_a_result(case: Case, settings: list[str], reason: str, tmp_path: Path) -> None:
    measurement = HubCases(directory=tmp_path, settings=settings).measure(case, 1)
    assert measurement.wall is not None
    assert measurement.wall.startswith(reason)
    assert measurement.count == 0
