"""Prove that one client measures our hub and the original on real bookies, and the ledger client alone."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.drivers.drivers import LEDGERS
from hedwig.benchmarks.main import main
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.suites.hub.servers import HEAP_MB
from hedwig.benchmarks.suites.hub.sizes import MEASUREMENTS, SMOKE, cases
from tests.benchmarks.support.processes import processes_over
from tests.support.checkout import CHECKOUT

INTERRUPTED = 130
ON = ("cluster-4.3", "original")
DRIVERS = ("raw", "java", LEDGERS)


def _command(directory: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-m", "hedwig.benchmarks", "hub", "--sizes", "smoke", "--rate", "0", "--warm", "0.2"]
    return [*command, "--output", str(directory / "result.json"), "--data", str(directory / "data"), *arguments]


def _bench(directory: Path, *arguments: str) -> tuple[Result, str]:
    run = subprocess.run(
        _command(directory, *arguments), cwd=CHECKOUT, capture_output=True, text=True, timeout=420, check=False
    )
    assert run.returncode == 0, run.stderr
    result = Result.read(directory / "result.json")
    assert result.is_complete
    for each in result.measurements:
        _check(each)
    assert list((directory / "data").iterdir()) == []
    assert not processes_over(directory / "data")
    return result, run.stdout


def _check(measurement: Measurement) -> None:
    what = (measurement.on, measurement.driver, measurement.workload.name, measurement.errors, measurement.wall)
    assert measurement.wall is None, what
    assert not measurement.errors, what
    assert measurement.count > 0, what
    assert measurement.values["bookies_cores"] >= 0, what
    assert (measurement.hub_cores is None) == (measurement.driver == LEDGERS), what


@pytest.mark.full
@pytest.mark.timeout(900)
def test_both_hubs_do_everything_and_the_ledger_client_appends(tmp_path: Path) -> None:
    hub_kinds = [word for hub_kind in ON for word in ("--on", hub_kind)]
    result, said = _bench(tmp_path, *hub_kinds, *(word for driver in DRIVERS for word in ("--driver", driver)))
    planned = [
        (case.on, case.driver, case.workload) for case in cases(MEASUREMENTS, DRIVERS, replace(SMOKE, rates=()), 1, ON)
    ]
    assert [(each.on, each.driver, each.workload) for each in result.measurements] == planned
    assert {each.on for each in result.measurements if each.driver == LEDGERS} == {"cluster-4.3"}
    for each in result.measurements:
        if each.driver == "java":
            assert each.reported["mean"].endswith(" ms"), each.on
        elif each.workload.operations:
            assert each.count == each.workload.operations, (each.on, each.workload.name)
        if each.workload.name == "deliver":
            assert each.histograms["delivery"].count == each.count
    assert "our hub ÷ the original" in said
    assert "our hub ÷ the ledger client alone" in said
    assert result.terms["quorums"].startswith("ensemble 3, write 2, ack 2")
    flags = result.environment["jvm_flags"]["servers"]
    assert {kind: f"-Xmx{HEAP_MB[kind]}m" for kind in ("zookeeper", "bookie43", "java-hedwig")} == {
        kind: each[0] for kind, each in flags.items()
    }


def _end_at(directory: Path, case: str, arguments: list[str]) -> Result:
    """End a run once it reaches a case, and return its result, which is not whole. Check that no server is left."""
    command = _command(directory, *arguments)
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        said = []
        for line in run.stderr:
            said.append(line)
            if line.startswith(case):
                break
        assert processes_over(directory / "data"), "no server of the run's own"
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=120)
    assert run.returncode == INTERRUPTED, (said, err)
    assert "Traceback" not in err
    assert not processes_over(directory / "data")
    result = Result.read(directory / "result.json")
    assert not result.is_complete
    assert "the run was not finished" in out
    return result


ON_OUR_CLUSTER = ["publish", "--driver", "raw", "--driver", LEDGERS, "--on", "cluster"]


@pytest.mark.full
def test_with_metadata_in_hbase_a_run_that_is_ended_keeps_what_was_measured(tmp_path: Path) -> None:
    """The run ends after both drivers have finished. Continuing it starts all servers again: that is for long runs."""
    result = _end_at(tmp_path, "[3/", [*ON_OUR_CLUSTER, "subscribe", "--metadata", "hbase"])
    assert [each.driver for each in result.measurements] == ["raw", LEDGERS]
    assert {"zookeeper", "bookie", "hbase-master", "regionserver"} == set(result.environment["jvm_flags"]["servers"])
    for each in result.measurements:
        _check(each)


@pytest.mark.full
@pytest.mark.parametrize("metadata", ["zookeeper", "hbase"])
def test_a_run_that_was_ended_goes_on_later(metadata: str, tmp_path: Path) -> None:
    arguments = [*ON_OUR_CLUSTER, "--metadata", metadata]
    (first,) = _end_at(tmp_path, "[2/2", arguments).measurements
    after, _ = _bench(tmp_path, *arguments, "--resume")
    assert [each.driver for each in after.measurements] == ["raw", LEDGERS]
    assert after.measurements[0].to_json() == first.to_json()
    assert {"zookeeper", "bookie"} <= set(after.environment["jvm_flags"]["servers"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--on", "cluster", "--address", "127.0.0.1:1"], "--on a hub to start: give only one"),
        (["--resume"], "--resume continues the file that --output names"),
        (["--quorums", "2,3,1"], "is not ensemble, write and ack quorum, like 3,2,2"),
        (["idle-topics", "--on", "original"], "nothing to measure: none of"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(arguments: list[str], reason: str, tmp_path: Path) -> None:
    output = [] if "--resume" in arguments else ["--output", str(tmp_path / "result.json")]
    run = CliRunner().invoke(main, ["hub", *arguments, *output, "--data", str(tmp_path / "data")])
    assert run.exit_code in (1, 2)
    assert reason in run.output


def test_a_run_with_other_terms_is_not_gone_on_with(tmp_path: Path) -> None:
    arguments = ["hub", "publish", "--sizes", "smoke", "--driver", "raw", "--rate", "0"]
    arguments += ["--data", str(tmp_path / "data"), "--output", str(tmp_path / "result.json")]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    run = CliRunner().invoke(main, [*arguments, "--resume", "--seed", "2"])
    assert run.exit_code == 1
    assert "the earlier run had other terms" in run.output
