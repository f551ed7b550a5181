"""Prove that `hedwig-bench metadata` measures real stores, survives their walls, and continues an ended run."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.machine.disk_flushes import FLUSHES
from hedwig.benchmarks.machine.heaps import HEAP_MB_MIN
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.stores.cases import MEMORY
from hedwig.benchmarks.stores.servers import RESTARTED, StoreServers, children_max, terms
from hedwig.benchmarks.suites.metadata.flushes import flush_tables
from hedwig.benchmarks.suites.metadata.sizes import SMOKE, Stage, Step, stages
from hedwig.benchmarks.suites.metadata.workloads import ORDER, workload_files
from hedwig.metadata import open_metadata
from tests.benchmarks.support.processes import processes_over
from tests.support.checkout import CHECKOUT

INTERRUPTED = 130
(STAGE,) = stages(workload_files(), ORDER, SMOKE, 1)
FEW = ("claim", "consume", "read-subscriptions")
"""Enough workloads for tests that do not depend on which ones run."""
(FEW_STAGE,) = stages(workload_files(), FEW, SMOKE, 1)


def _command(directory: Path, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "hedwig.benchmarks",
        "metadata",
        *arguments,
        "--sizes",
        "smoke",
        "--run",
        str(directory),
    ]


def _run(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        _command(directory, *arguments), cwd=CHECKOUT, capture_output=True, text=True, timeout=290, check=False
    )


def _assert_done(result: Result, backend: str, stage: Stage = STAGE) -> None:
    own = [each for each in result.measurements if each.driver == backend]
    for step in stage.steps:
        wanted = [stage.fill(step, 1), *step.workloads]
        wanted += [stage.restart(step, 1)] if backend in RESTARTED else []
        assert [each.workload for each in own if each.workload.topics == step.topics] == wanted
    begun = [each.started or "" for each in own]
    assert "" not in begun
    assert begun == sorted(begun), "measurements stand in the order in which they began"
    for each in own:
        what = (backend, each.workload.name, each.wall, each.errors)
        assert each.wall is None, what
        assert not each.errors, what
        assert each.on == "synced"
        if each.workload.name == "restart":
            kinds = [each.values[f"{kind}_read_s"] for kind in ("owners", "ranges", "subscriptions")]
            assert 0 < each.values["first_read_s"] <= min(kinds), what
            assert max(kinds) == each.values["all_read_s"] < each.values["written_s"], what
            heaps = {name: size for name, size in each.values.items() if name.endswith("_live_heap_bytes")}
            assert heaps.pop("store_live_heap_bytes") == sum(heaps.values()) > 0, what
            assert not each.reported, what
            continue
        assert sum(second.get("finished", 0) for second in each.series.values()) > 0, what
        assert each.values["store_rss_bytes_max"] > 0, what
        assert each.started_s is not None
        if each.workload.name != "fill" and backend in RESTARTED:
            assert ("settling_s" in each.values) == (each.workload == _step_of(each, stage).workloads[0]), what
        if each.workload.name == "fill":
            assert each.count == each.offered, what
            assert each.values["disk_bytes"] > 0, what


def _step_of(measurement: Measurement, stage: Stage) -> Step:
    return next(step for step in stage.steps if step.topics == measurement.workload.topics)


def _assert_reported(directory: Path, output: str) -> None:
    """Check that a run left its result and its report, and nothing else."""
    names = {each.name for each in directory.iterdir()}
    assert {"result.json", "report.html"} < names
    assert all(name.endswith(".png") for name in names - {"result.json", "report.html"})
    assert f"report: {directory / 'report.html'}" in output


def test_the_embedded_store_does_every_workload_once(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", "--backend", "sqlite", "-o", "json")
    assert run.returncode == 0, run.stderr
    result = Result.read(tmp_path / "run" / "result.json")
    assert json.loads(run.stdout) == result.to_json()
    assert result.is_complete
    _assert_done(result, "sqlite")
    _assert_reported(tmp_path / "run", run.stderr)
    assert "min left] synced, round 1: sqlite, claim" in run.stderr
    text = markdown(result)
    for name in ("fill", *ORDER):
        assert f"**synced: {name}**" in text


def test_a_run_that_is_done_is_not_done_again_and_may_have_more_rounds(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", *FEW, "--backend", "sqlite")
    assert run.returncode == 0, run.stderr
    result = Result.read(tmp_path / "run" / "result.json")
    # The run is done, so nothing is repeated.
    again = _run(tmp_path / "run", *FEW, "--backend", "sqlite")
    assert again.returncode == 0, again.stderr
    after = Result.read(tmp_path / "run" / "result.json")
    assert [each.to_json() for each in after.measurements] == [each.to_json() for each in result.measurements]
    # A later run may add rounds.
    more = _run(tmp_path / "run", *FEW, "--backend", "sqlite", "--rounds", "2")
    assert more.returncode == 0, more.stderr
    extended = Result.read(tmp_path / "run" / "result.json")
    assert extended.terms["sizes"]["rounds"] == 2
    loads = [each for each in extended.measurements if each.workload.name in ORDER]
    assert Counter(each.round for each in loads) == {1: len(loads) / 2, 2: len(loads) / 2}
    first = [each.to_json() for each in extended.measurements if each.round == 1]
    assert first == [each.to_json() for each in result.measurements]
    other = _run(tmp_path / "run", *FEW, "--backend", "sqlite", "--seed", "2")
    assert other.returncode == 1
    assert "the earlier run had other options: give the same ones, or another --run" in other.stderr


def test_who_ends_a_run_keeps_what_was_measured_and_can_go_on(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    command = _command(directory, *FEW, "--backend", "sqlite")
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        printed: list[str] = []
        for line in run.stderr:
            printed.append(line)
            if "sqlite, consume" in line:
                break
        else:
            pytest.fail(f"it ended by itself: {''.join(printed)}")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=120)
    assert run.returncode == INTERRUPTED, "".join([*printed, err])
    assert "Traceback" not in err
    assert "the run was not finished" in out
    assert not processes_over(directory)
    _assert_reported(directory, err)
    assert "Not finished" in (directory / "report.html").read_text()
    first = Result.read(directory / "result.json")
    assert not first.is_complete
    assert 1 < len(first.measurements) < sum(1 + len(step.workloads) for step in FEW_STAGE.steps)
    again = _run(directory, *FEW, "--backend", "sqlite")
    assert again.returncode == 0, again.stderr
    result = Result.read(directory / "result.json")
    assert result.is_complete
    kept = len(first.measurements)
    assert [each.to_json() for each in result.measurements[:kept]] == [each.to_json() for each in first.measurements]
    _assert_done(result, "sqlite", FEW_STAGE)


@pytest.mark.full
def test_a_fill_that_takes_longer_than_it_may_is_a_wall(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", "claim", "--backend", "sqlite", "--topics", "3000000", "--fill-max", "11")
    assert run.returncode == 0, run.stderr
    (only,) = Result.read(tmp_path / "run" / "result.json").measurements
    assert (only.workload.name, only.wall) == ("fill", "the time for it was over")
    assert 0 < only.count < only.offered
    # The run reported its progress on the way.
    (line,) = [line for line in run.stderr.splitlines() if " records, " in line]
    assert re.search(
        r"^    \[\d+%, about \d+ min left\] sqlite: [\d,]+ of 10,500,000 records, [\d,]+/s, about \d+ min more$", line
    )


@pytest.mark.full
@pytest.mark.timeout(600)
def test_servers_are_started_measured_restarted_and_ended(tmp_path: Path) -> None:
    """A few workloads on ZooKeeper, and on HBase with its log forced to the disk, also through the gateway."""
    backends, names = ("zookeeper", "hbase", "hbase+thrift"), ("claim", "consume", "unsubscribe", "read-subscriptions")
    (stage,) = stages(workload_files(), names, replace(SMOKE, topics=(20,)), 1)
    arguments = [*names, "--topics", "20", *(word for backend in backends for word in ("--backend", backend))]
    run = subprocess.run(
        _command(tmp_path / "run", *arguments),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    result = Result.read(tmp_path / "run" / "result.json")
    assert result.is_complete
    for backend in backends:
        _assert_done(result, backend, stage)
    assert not processes_over(tmp_path / "run")
    flags = result.environment["jvm_flags"]["synced"]
    # Both sides have the same heap.
    assert flags["zookeeper/zookeeper"][0] == "-Xmx1024m"
    of_hbase = [int(each[0].removeprefix("-Xmx").removesuffix("m")) for name, each in flags.items() if "hbase/" in name]
    assert len(of_hbase) == 4
    assert sum(of_hbase) == 1024
    assert "hbase.wal.hsync=true" in result.terms["synced"]
    _assert_forced(result)
    for each in result.measurements:
        if each.workload.name not in ("fill", "restart"):
            for name in ("client_cpu_s", "servers_cpu_s", "idle_servers_cpu_s"):
                # For a few milliseconds the time used inside may be unknown.
                assert each.values.get(name, 0.0) >= 0
                assert name in each.values or each.workload.is_bounded, (name, each.workload.name)
            kinds = {"zookeeper"} if each.driver == "zookeeper" else {"zookeeper", "hbase-master", "regionserver"}
            held = {name for second in each.series.values() for name in second if "rss_bytes" in str(second[name])}
            assert kinds <= held, (each.driver, each.workload.name, held)


def _assert_forced(result: Result) -> None:
    """Check that the disk was flushed for the changes, if the disk counts flushes."""
    if (result.environment["disk_flushes_per_sync"] or 0.0) < 0.9:
        assert flush_tables(result) == [], "what is not counted proves nothing"
        return
    assert flush_tables(result)
    changes = [each for each in result.measurements if each.workload.name == "consume" and each.workload.is_open_loop]
    assert {each.driver for each in changes} == {"zookeeper", "hbase", "hbase+thrift"}
    for each in changes:
        # Changes that arrive together share a flush, many on a busy machine, and samples are longer than such a load.
        assert each.values[FLUSHES] > 0.05 * each.rate_per_s, each.driver


@pytest.mark.full
def test_a_server_that_ends_is_a_wall_and_the_run_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    # Long enough for a server that has just restarted, on a machine that others use too.
    lengths = ("--seconds", "1", "--offered-seconds", "1")
    names = ("claim", "read-owner", "recreate")
    command = _command(directory, *names, "--backend", "zookeeper", "--topics", "20", *lengths)
    killed = False
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        said = []
        for line in run.stderr:
            said.append(line)
            if "zookeeper, read-owner" in line and not killed:
                killed = True
                _kill_zookeeper(directory)
        run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert killed
    result = Result.read(directory / "result.json")
    assert result.is_complete
    walls = [each for each in result.measurements if each.wall is not None]
    assert walls, said
    assert walls[0].workload.name == "read-owner"
    assert "zookeeper-1 ended" in (walls[0].wall or "")
    assert "zookeeper-1 ended" in markdown(result)
    after = [each for each in result.measurements if each.workload.name == "recreate"]
    assert after
    assert [each.wall for each in after] == [None] * len(after)
    assert all(each.count for each in after)
    assert not processes_over(directory)


def test_a_wall_tells_how_the_servers_stood_that_lived(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    run = _run(directory, "read-owner", "--backend", "zookeeper", "--topics", "50000", "--fill-max", "1")
    assert run.returncode == 0, run.stderr
    result = Result.read(directory / "result.json")
    (wall,) = result.measurements
    assert wall.wall == "the time for it was over"
    (server,) = wall.reported[MEMORY]
    assert server["server"] == "zookeeper-1"
    assert server["heap_max_bytes"] == SMOKE.heap_mb << 20
    assert 0 < server["heap_used_bytes"] < server["heap_max_bytes"]
    assert server["rss_bytes"] > 0
    assert "zookeeper-1 lives: " in markdown(result)


def test_a_run_may_have_unsynced_stages_alone_but_must_have_one(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    arguments = ["claim", "--backend", "sqlite", "--topics", "0"]
    run = _run(directory, *arguments, "--unsynced-topics", "20")
    assert run.returncode == 0, run.stderr
    result = Result.read(directory / "result.json")
    assert {each.on for each in result.measurements} == {"unsynced"}
    assert "unsynced" in result.terms
    assert "synced" not in result.terms
    assert "unsynced: " in (directory / "report.html").read_text()
    refused = _run(tmp_path / "none", *arguments, "--unsynced-topics", "0")
    assert (refused.returncode, refused.stderr) == (
        1,
        "error: nothing to measure: give --topics or --unsynced-topics above 0\n",
    )


@pytest.mark.full
def test_stores_are_filled_in_turns(tmp_path: Path) -> None:
    """Two backends without HBase's servers: the first one of a step is the last one of the next step."""
    directory = tmp_path / "run"
    arguments = ["read-owner", "--backend", "sqlite", "--backend", "zookeeper", "--topics", "20,40,60"]
    run = _run(directory, *arguments)
    assert run.returncode == 0, run.stderr
    filled = [
        each.driver for each in Result.read(directory / "result.json").measurements if each.workload.name == "fill"
    ]
    assert filled == ["sqlite", "zookeeper", "zookeeper", "sqlite", "sqlite", "zookeeper"]


@pytest.mark.parametrize(("topics", "names"), [(20, 1_000_000), (1_000_000, 2_000_000), (10_000_000, 20_000_000)])
def test_a_listing_may_bring_all_topics_and_the_wide_ones_beside_them(topics: int, names: int) -> None:
    assert children_max(topics) == names


async def test_a_store_has_its_limit_of_names_and_tells_who_is_idle(tmp_path: Path) -> None:
    with StoreServers(
        tmp_path / "servers",
        ["sqlite", "zookeeper"],
        heap_mb=HEAP_MB_MIN,
        durability="synced",
        topics_max=1_000_000,
        progress=lambda _: None,
    ) as stores:
        await asyncio.to_thread(stores.up)
        url = stores.url("zookeeper")
        assert url.endswith("?children_max=2000000")
        async with await open_metadata(url) as store:
            assert [topic async for topic in store.topics()] == []
        (server,) = stores.servers()
        assert stores.roles("zookeeper") == {"zookeeper": [server]}
        assert stores.idle("zookeeper") == []
        assert stores.idle("sqlite") == [server]
        assert stores.out_of_memory("zookeeper") == []


def test_the_terms_say_through_what_each_store_is_reached() -> None:
    said = terms(["zookeeper", "hbase"], 1024, "synced", 1_000_000)
    assert f"kazoo {version('kazoo')}" in said
    assert "children_max in the URL is twice the most topics of the run, at least 1,000,000" in said
    assert "HBase is reached: through our own client of its RPC" in said
    assert "one region server, 4 regions a table" in said


def _kill_zookeeper(directory: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes()
            except OSError:
                continue
            if str(directory).encode() in command and b"QuorumPeerMain" in command:
                os.kill(int(path.parent.name), signal.SIGKILL)
                return
    raise AssertionError("the run has no ZooKeeper")


def test_what_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    for arguments, why in (
        (["metadata", "no-such"], "there is no workload 'no-such': choose from claim, consume"),
        (["metadata", "--topics", "50,20"], "a ladder must rise from at least 20 topics, not [50, 20]"),
        (["metadata", "--seconds", "1", "--warmup", "1"], "must be shorter than loads of 1 s"),
    ):
        run = CliRunner().invoke(main, [*arguments, "--run", str(tmp_path / "run")])
        assert run.exit_code == 1
        assert why in run.output
        assert not (tmp_path / "run").exists()


def test_the_help_ends_in_an_example_that_the_command_takes() -> None:
    run = CliRunner().invoke(main, ["metadata", "--help"])
    assert run.exit_code == 0
    example = " ".join(run.output.strip().split("\n\n")[-1].split())
    assert example.startswith("Example: hedwig-bench metadata ")
    taken = CliRunner().invoke(main, [*example.split()[2:], "--help"])
    assert taken.exit_code == 0
