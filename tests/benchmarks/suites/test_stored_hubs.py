"""Prove that one hub is measured with its metadata in stores of many topics, and what its cases consist of."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.suites.hub.stored_sizes import STORED_MEASUREMENTS, STORED_SIZES, STORES, stored_cases, warming
from tests.benchmarks.support.processes import processes_over
from tests.support.checkout import CHECKOUT

SIZES = STORED_SIZES["smoke"]
(TOPICS,) = SIZES.topics


def _bench(directory: Path, *arguments: str) -> Result:
    command = [
        sys.executable,
        "-m",
        "hedwig.benchmarks",
        "hub",
        "--sizes",
        "smoke",
        "--output",
        str(directory / "result.json"),
    ]
    run = subprocess.run(
        [*command, "--data", str(directory / "data"), *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert list((directory / "data").iterdir()) == []
    assert not processes_over(directory / "data")
    return Result.read(directory / "result.json")


def _check(result: Result, backends: tuple[str, ...]) -> None:
    assert result.is_complete
    planned = [(case.workload, case.on) for case in stored_cases(STORED_MEASUREMENTS, ["raw"], SIZES, 1, backends)]
    assert [(each.workload, each.on) for each in result.measurements] == planned
    for each in result.measurements:
        what = (each.on, each.workload.name, each.wall, each.errors)
        assert each.wall is None, what
        assert not each.errors, what
        _check_one(each)
    text = markdown(result)
    for name in ("fill", *STORED_MEASUREMENTS):
        assert f"**{name}" in text
    assert "an acknowledged write is on the disk" in result.terms["metadata"]


def _check_one(each: Measurement) -> None:
    if each.workload.name == "fill":
        assert each.count == 2 * TOPICS, "a topic is a record of ledger ranges and a subscription"
        return
    timed = each.histograms["response"].count
    if each.workload.operations:
        assert timed == SIZES.sample
    if each.workload.is_open_loop:
        # The last operations may finish after the time in which they should have begun.
        assert 0 < each.count <= timed
    elif each.workload.is_bounded:
        assert each.count == timed
    else:
        # In a window of time, operations that began before it are only counted; those that end after it are only timed.
        assert each.count > 0
        assert abs(each.count - timed) <= each.workload.in_flight
    assert each.values["stores_cores"] >= 0
    assert each.values["stores_rss_bytes_max"] > 1 << 20
    assert each.hub_rss_bytes_max is not None
    if each.workload.name == "fail-over":
        assert 0 < each.values["hub_serves_s"] < each.values["all_served_s"]


def test_a_hub_on_zookeeper_does_every_case_once(tmp_path: Path) -> None:
    result = _bench(tmp_path, "--on", "zookeeper")
    _check(result, ("zookeeper",))
    (flags,) = result.environment["jvm_flags"]["synced"].values()
    assert flags[0] == f"-Xmx{SIZES.heap_mb}m"


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_same_hub_stands_beside_itself_on_hbase(tmp_path: Path) -> None:
    result = _bench(tmp_path, "--on", "zookeeper", "--on", "hbase")
    _check(result, STORES)
    roles = {name for each in result.measurements for name in each.values if name.endswith("_rss_bytes_max")}
    assert {"zookeeper_rss_bytes_max", "regionserver_rss_bytes_max", "hbase-master_rss_bytes_max"} <= roles
    kinds = {"zookeeper/zookeeper", "hbase/zookeeper", "hbase/hbase-master", "hbase/regionserver"}
    assert set(result.environment["jvm_flags"]["synced"]) == kinds


@pytest.mark.full
def test_a_store_that_cannot_be_filled_is_a_result(tmp_path: Path) -> None:
    sizes = ["--on", "zookeeper", "--topics", "200k", "--fill-max", "1", "--heap", "1024"]
    result = _bench(tmp_path, "own", *sizes)
    fill, own = result.measurements
    assert fill.wall == "the time for it was over"
    assert 0 < fill.count < 2 * 200_000
    assert own.wall == "the store could not be filled: the time for it was over"
    assert "the store could not be filled" in markdown(result)


def test_cases_share_no_topic_and_a_sample_is_the_same_for_the_same_seed() -> None:
    for preset in STORED_SIZES.values():
        samples: dict[int, dict[int, set[int]]] = {}
        for case in stored_cases(STORED_MEASUREMENTS, ["raw"], preset, 1, ["hbase"]):
            workload = case.workload
            if workload.topics > 10_000 or not workload.sample:
                continue
            chosen = _chosen(workload)
            assert len(chosen) == workload.sample
            assert chosen == _chosen(Workload.from_json(workload.to_json()))
            of_step = samples.setdefault(workload.topics, {})
            assert of_step.setdefault(workload.first, chosen) == chosen
            warm = warming(workload)
            assert warm.operations == len(_chosen(warm))
            of_step.setdefault(warm.first, _chosen(warm))
        assert samples
        for parts in samples.values():
            assert len(parts) == 8, "four samples, and what warms them up"
            assert len(set.union(*parts.values())) == sum(map(len, parts.values()))


def _chosen(workload: Workload) -> set[int]:
    topic_of = workload.topic_chooser()
    return {topic_of(number) for number in range(3 * workload.sample)}


def test_a_sample_is_of_topics_that_there_are() -> None:
    with pytest.raises(ValueError, match="nor exceed the topics together"):
        Workload(name="x", topics=10, sample=6, first=5)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--on", "hbase", "--on", "cluster"], "need a run of their own, without another --on"),
        (["deliver", "--on", "hbase"], "deliver cannot be measured --on hbase"),
        (["own"], "own cannot be measured --on embedded"),
        (["--on", "hbase", "--driver", "java"], "on stores only these drivers run: raw, client"),
        (["--on", "hbase", "--topics", "3"], "a store needs 5 topics at least"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(arguments: list[str], reason: str, tmp_path: Path) -> None:
    run = CliRunner().invoke(
        main, ["hub", *arguments, "--output", str(tmp_path / "result.json"), "--data", str(tmp_path / "data")]
    )
    assert run.exit_code in (1, 2)
    assert reason in run.output


@pytest.mark.full
def test_a_run_that_was_ended_goes_on_with_a_store_that_is_filled_again(tmp_path: Path) -> None:
    arguments = ["own", "publish-first", "--on", "zookeeper", "--sizes", "smoke", "--rate", "0"]
    arguments += ["--output", str(tmp_path / "result.json"), "--data", str(tmp_path / "data")]
    command = [sys.executable, "-m", "hedwig.benchmarks", "hub", *arguments]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if line.startswith("[3/3"):
                break
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=120)
    assert run.returncode == 130
    assert not processes_over(tmp_path / "data")
    before = Result.read(tmp_path / "result.json")
    assert not before.is_complete
    assert [each.workload.name for each in before.measurements] == ["fill", "own"]
    after = _bench(tmp_path, "own", "publish-first", "--on", "zookeeper", "--rate", "0", "--resume")
    assert after.is_complete
    assert [each.workload.name for each in after.measurements] == ["fill", "own", "publish-first"]
    kept = [each.to_json() for each in before.measurements]
    assert [each.to_json() for each in after.measurements[:2]] == kept
    assert after.measurements[2].wall is None
