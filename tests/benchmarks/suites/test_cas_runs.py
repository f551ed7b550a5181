"""Prove that `hedwig-bench cas` measures every access path on real servers, on equal records, and stops cleanly."""

import asyncio
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.drivers.records.record_clients import DATA, SUBSCRIBER
from hedwig.benchmarks.drivers.records.record_drivers import DRIVERS
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.suites.cas.cases import CasCases
from hedwig.benchmarks.suites.cas.servers import given_servers
from hedwig.benchmarks.suites.cas.sizes import OPERATIONS, SMOKE_CAS, cas_cases
from hedwig.metadata import open_metadata
from tests.benchmarks.support.processes import processes_over
from tests.support.checkout import CHECKOUT
from tests.support.servers import RunningServers

INTERRUPTED = 130


@pytest.mark.full
def test_every_driver_does_every_operation(servers: RunningServers, tmp_path: Path) -> None:
    for service in ("hbase", "thrift1", "thrift2"):
        servers.address(service)
    output = tmp_path / "cas.json"
    arguments = ["--sizes", "smoke", "--dir", str(servers.launcher.directory), "--result", str(output)]
    run = subprocess.run(
        [sys.executable, "-m", "hedwig.benchmarks", "cas", *arguments, "--data", str(tmp_path / "data")],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    result = Result.read(output)
    assert result.is_complete
    drivers = [driver for driver in DRIVERS if driver != "gateway-managers"]
    planned = [(case.driver, case.workload) for case in cas_cases(OPERATIONS, drivers, SMOKE_CAS, 1)]
    assert [(each.driver, each.workload) for each in result.measurements] == planned
    for each in result.measurements:
        what = (each.driver, each.workload.name, each.errors, each.wall)
        assert each.wall is None, what
        assert not each.errors, what
        # At the end all operations are done. The machine decides how many of them finish within the short window.
        assert sum(second.get("finished", 0) for second in each.series.values()) >= each.workload.in_flight, what
        assert each.values["client_cpu_s"] > 0, what
        assert ("servers_cpu_s" in each.values) == (each.driver != "sqlite"), what
        if each.workload.name != Operation.CONTENDED_UPDATE:
            assert each.values["refusals"] == 0, what
        assert sum(second.get("refused", 0) for second in each.series.values()) >= each.values["refusals"], what
    assert f"written to {output}" in run.stderr
    page = output.with_name(f"{output.stem}-report") / "report.html"
    assert f"report: {page}" in run.stderr
    assert "update: operations a second" in page.read_text()
    assert servers.launcher.pid("regionserver-1"), "the servers of a directory stay"
    text = markdown(result)
    for operation in OPERATIONS:
        assert f"**{operation}**" in text


@pytest.mark.parametrize(
    "driver", ["native", *(pytest.param(each, marks=pytest.mark.full) for each in ("java", "gateway"))]
)
async def test_all_clients_of_hbase_write_the_same_records(servers: RunningServers, driver: str) -> None:
    """The managers read what the Java program and our drivers write, with the same content."""
    zookeeper = servers.address("hbase") and servers.address("zookeeper")
    name = f"cas{uuid.uuid4().hex[:8]}"
    urls = [f"hbase://{zookeeper}/{name}", f"hbase+thrift://{servers.address('thrift2')}/{name}"]
    for operation in (Operation.UPDATE, Operation.CREATE):
        workload = Workload(
            name=operation, mix={operation.value: 1.0}, topics=20, in_flight=4, seconds=0.3, warmup_s=0.0
        )
        await _carry_out(Case(workload, driver), urls)
    async with await open_metadata(urls[0]) as store:
        topics = [topic async for topic in store.subscriptions.topics(prefix=b"bench-")]
        updated = [topic for topic in topics if b"-new-" not in bytes(topic)]
        assert len(updated) == 20
        assert len(topics) > len(updated), "nothing was created"
        for topic in (*updated, *topics[-5:]):
            stored = await store.subscriptions.read(topic, SUBSCRIBER)
            assert stored is not None
            assert stored.value == DATA


@pytest.mark.parametrize("driver", ["java", pytest.param("native", marks=pytest.mark.full)])
async def test_retries_are_told_by_second(servers: RunningServers, driver: str) -> None:
    zookeeper = servers.address("hbase") and servers.address("zookeeper")
    contended = Operation.CONTENDED_UPDATE
    workload = Workload(name=contended, mix={contended.value: 1.0}, topics=1, in_flight=8, seconds=2.5, warmup_s=0.0)
    measured = await _carry_out(Case(workload, driver), [f"hbase://{zookeeper}/cas{uuid.uuid4().hex[:8]}"])
    refused = [measured.series[second]["refused"] for second in range(2)]
    assert min(refused) > 0
    assert (
        sum(refused) <= measured.values["refusals"] <= sum(each.get("refused", 0) for each in measured.series.values())
    )


async def _carry_out(case: Case, urls: list[str]) -> Measurement:
    def work() -> Measurement:
        with given_servers([case.driver], urls) as servers, CasCases(servers, lambda _: None) as cases:
            measurement = cases.measure(case, 1)
            assert measurement.wall is None, measurement.wall
            assert not measurement.errors
            return measurement

    return await asyncio.to_thread(work)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_who_ends_a_run_keeps_what_was_measured_and_leaves_no_server(number: signal.Signals, tmp_path: Path) -> None:
    output, data = tmp_path / "result.json", tmp_path / "data"
    arguments = ["read", "update", "--sizes", "smoke", "--driver", "zookeeper-plain", "--rounds", "100000"]
    arguments += ["--data", str(data), "--result", str(output)]
    command = [sys.executable, "-m", "hedwig.benchmarks", "cas", *arguments]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        said = []
        for line in run.stderr:
            said.append(line)
            if line.startswith("[2/"):
                break
        assert processes_over(data), "no server of the run's own"
        run.send_signal(number)
        out, err = run.communicate(timeout=120)
    assert run.returncode == INTERRUPTED, (said, err)
    assert "Traceback" not in err
    result = Result.read(output)
    assert not result.is_complete
    assert result.measurements
    assert "the run was not finished" in out
    assert list(data.iterdir()) == []
    assert not processes_over(data)


def test_a_store_that_cannot_be_measured_is_refused_in_one_line() -> None:
    run = CliRunner().invoke(main, ["cas", "--driver", "happybase", "--metadata", "sqlite:///nowhere/at/all.sqlite"])
    assert run.exit_code == 1
    assert "none of happybase can be measured at sqlite:///nowhere/at/all.sqlite" in run.output


def test_writers_that_do_not_share_the_keys_evenly_are_refused() -> None:
    run = CliRunner().invoke(main, ["cas", "--writers", "1,3"])
    assert run.exit_code == 1
    assert "writers per key must divide 64: 1, 2, 4 and so on, not [1, 3]" in run.output


def test_the_help_ends_in_an_example_that_the_command_takes() -> None:
    run = CliRunner().invoke(main, ["cas", "--help"])
    assert run.exit_code == 0
    example = " ".join(run.output.strip().split("\n\n")[-1].split())
    assert example.startswith("Example: hedwig-bench cas ")
    taken = CliRunner().invoke(main, [*example.split()[2:], "--help"])
    assert taken.exit_code == 0
