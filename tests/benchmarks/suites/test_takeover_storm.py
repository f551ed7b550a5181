"""Prove that a takeover storm on real servers kills a hub, sees its topics served again, and leaves a whole result."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.machine.heaps import STORM_HEAP_MB_MIN
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.parts import report_page
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.suites.hub.servers import HEAP_MB
from hedwig.benchmarks.suites.takeover.sizes import TakeoverSizes
from tests.benchmarks.support.processes import processes_over
from tests.support.checkout import CHECKOUT

TOPICS = 400
USED = 40
SIZES = ["--topics", str(TOPICS), "--used", str(USED), "--attached", "20", "--hubs", "3", "--rate", "80"]


@pytest.mark.full
def test_topics_of_a_killed_hub_are_served_again_while_others_go_on(tmp_path: Path) -> None:
    output, data = tmp_path / "result.json", tmp_path / "data"
    command = [sys.executable, "-m", "hedwig.benchmarks", "takeover", "--quick", *SIZES, "--ask", "1"]
    command += ["--session-timeout", "2", "--before", "2", "--after", "2"]
    command += ["--result", str(output), "--data", str(data)]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr
    result = Result.read(output)
    assert result.is_complete
    (measurement,) = result.measurements
    assert measurement.wall is None, measurement.wall
    values, histograms = measurement.values, measurement.histograms
    # Each hub has about a third, so few that a hub with none would be no accident.
    assert 0 < values["used_of_killed"] < USED
    assert 0 < values["asked_of_killed"] < TOPICS - USED
    assert histograms["served"].count == values["used_of_killed"] + values["asked_of_killed"]
    assert values["not_served"] == values["unfinished_topics"] == 0
    # No hub takes a topic over before the killed hub must have stopped. In the end all topics are served.
    assert histograms["served"].percentile_us(0) > 0
    assert values["all_served_s"] >= histograms["served"].percentile_us(50) / 1e6
    assert histograms["delivered"].count > 0
    for phase in ("before", "during", "after"):
        assert histograms[f"others_{phase}"].count > 0, phase
        assert values[f"zookeeper_per_s_{phase}"] > 0, phase
        assert values[f"regionserver_cores_{phase}"] >= 0, phase
    assert measurement.errors, "nobody felt it"
    assert measurement.errors.total() == sum(second.get("failed", 0) for second in measurement.series.values()), (
        "failed attempts are reported by phase and by second"
    )
    counters = [second["counters"] for second in measurement.series.values() if "counters" in second]
    claims = [each["claims"] for each in counters if "claims" in each]
    assert claims[-1] - claims[0] >= histograms["served"].count
    calls = [each["hbase"] for each in counters if "hbase" in each]
    assert calls[-1] > calls[0]
    flags = result.environment["jvm_flags"]["synced"]
    heaps = TakeoverSizes().heaps | {"bookie": HEAP_MB["bookie"]}
    assert set(heaps) == {"zookeeper", "bookie", "hbase-master", "regionserver"}
    wanted = {f"hbase/{kind}": f"-Xmx{size}m" for kind, size in heaps.items()}
    assert {kind: each[0] for kind, each in flags.items()} == wanted
    assert "topics of the killed hub, session timeout 2 s" in run.stdout
    assert list(data.iterdir()) == []
    assert not processes_over(data)


@pytest.mark.full
def test_with_metadata_in_zookeeper_the_hubs_take_topics_of_a_filled_store_over(tmp_path: Path) -> None:
    output, data = tmp_path / "result.json", tmp_path / "data"
    command = [sys.executable, "-m", "hedwig.benchmarks", "takeover", "--quick", *SIZES, "--metadata", "zookeeper"]
    command += ["--stored", "1000", "--session-timeout", "2", "--before", "2", "--after", "2", "--rounds", "2"]
    command += ["--result", str(output), "--data", str(data)]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr
    measurements = Result.read(output).measurements
    assert len(measurements) == 2
    for measurement in measurements:
        assert measurement.wall is None, measurement.wall
        assert measurement.histograms["served"].count == measurement.values["used_of_killed"] > 0
        assert "regionserver_cores_before" not in measurement.values
    assert run.stderr.count("zookeeper-1 ready") == 2, "no round has the records of another in its store"
    text = " ".join(run.stdout.split())
    assert "metadata ZooKeeper, synced to the disk" in text
    assert "the ZooKeeper of liveness and of BookKeeper's metadata is the metadata store as well" in text
    assert not processes_over(data)


@pytest.mark.full
@pytest.mark.parametrize("store", ["zookeeper", "hbase"])
def test_hubs_take_topics_over_of_which_records_alone_name_the_dead_one(store: str, tmp_path: Path) -> None:
    output, data = tmp_path / "result.json", tmp_path / "data"
    command = [
        sys.executable,
        "-m",
        "hedwig.benchmarks",
        "takeover",
        "--quick",
        *SIZES,
        "--metadata",
        store,
        "--ask",
        "1",
    ]
    command += ["--stored", "1000", "--write-owners", "--session-timeout", "2", "--before", "2", "--after", "2"]
    command += ["--result", str(output), "--data", str(data)]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr
    (measurement,) = Result.read(output).measurements
    assert measurement.wall is None, measurement.wall
    values = measurement.values
    assert values["asked_of_killed"] == (TOPICS - USED) // 3
    assert measurement.histograms["served"].count == values["used_of_killed"] + values["asked_of_killed"]
    assert measurement.histograms["served"].percentile_us(0) > 0, "none of them had a living owner"
    assert "as if the hubs had claimed them" in " ".join(run.stdout.split())


@pytest.mark.full
@pytest.mark.timeout(600)
def test_stores_and_sizes_take_turns_each_with_servers_of_its_own(tmp_path: Path) -> None:
    output, data = tmp_path / "result.json", tmp_path / "data"
    command = [sys.executable, "-m", "hedwig.benchmarks", "takeover", "--quick", "--topics", "60,120", "--hubs", "2"]
    command += ["--metadata", "zookeeper", "--metadata", "hbase", "--used", "10", "--attached", "5", "--rate", "20"]
    command += ["--session-timeout", "2", "--before", "1", "--after", "1", "--ask", "1"]
    command += ["--result", str(output), "--data", str(data)]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=450, check=False)
    assert run.returncode == 0, run.stderr
    result = Result.read(output)
    measured = [(each.on, each.workload.topics) for each in result.measurements]
    assert measured == [("zookeeper", 60), ("hbase", 60), ("zookeeper", 120), ("hbase", 120)]
    for each in result.measurements:
        assert each.wall is None, each.wall
        assert ("regionserver_cores_before" in each.values) == (each.on == "hbase")
        assert 0 < each.values["used_of_killed"] + each.values["asked_of_killed"] < each.workload.topics
    assert run.stderr.count("zookeeper-1 ready") == 4
    assert {kind.split("/")[0] for kind in result.environment["jvm_flags"]["synced"]} == {"zookeeper", "hbase"}
    text = " ".join(run.stdout.split())
    assert "metadata ZooKeeper, synced to the disk; HBase 2.6.1-hadoop3, one region server" in text
    assert "metadata in ZooKeeper: 2,048 MiB in all" in text
    assert "topics 60, 10 of them published to, 5 with a subscriber; 120, 10 of them" in text
    for on, topics in measured:
        assert f"{on}, {topics} topics: topics of the killed hub, session timeout 2 s" in run.stdout
    beside, *charts = [chart.title for chart in report_page([("x", result)]).charts()]
    assert beside == "A hub is killed: seconds until all its topics are served again"
    names = {"zookeeper": "ZooKeeper", "hbase": "HBase 2.6.1-hadoop3"}
    assert charts == [f"A hub is killed: {topics} topics, 2 hubs, metadata in {names[on]}" for on, topics in measured]
    assert list(data.iterdir()) == []
    assert not processes_over(data)
    again = subprocess.run(
        [*command, "--resume"], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )
    assert again.returncode == 0, again.stderr
    assert "ready" not in again.stderr, "nothing was left to measure"
    other = subprocess.run(
        [*command, "--resume", "--seed", "2"], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )
    assert other.returncode == 1
    assert "give the same options, or another --result" in other.stderr


@pytest.mark.parametrize("heap_mb", [TakeoverSizes().heap_mb, 4096])
def test_both_stores_have_the_same_heap_in_all_and_are_synced(heap_mb: int) -> None:
    on_hbase, on_zookeeper = (TakeoverSizes(metadata=each, heap_mb=heap_mb) for each in ("hbase", "zookeeper"))
    assert set(on_hbase.heaps) == {"zookeeper", "hbase-master", "regionserver"}
    assert sum(on_hbase.heaps.values()) == heap_mb
    assert on_zookeeper.heaps == {"zookeeper": heap_mb}
    assert on_hbase.is_synced
    assert on_zookeeper.is_synced
    with pytest.raises(ValueError, match="MiB of heap are too few for HBase"):
        TakeoverSizes(heap_mb=STORM_HEAP_MB_MIN - 1)


def test_sizes_that_make_no_sense_are_refused_in_one_line() -> None:
    run = CliRunner().invoke(main, ["takeover", "--topics", "10", "--used", "11"])
    assert run.exit_code == 2
    assert "the used topics must be from 1 to all" in run.output


def test_the_topics_of_a_storm_are_in_the_store_before() -> None:
    assert TakeoverSizes(topics=1000, stored=999).topics_stored == 1000
    assert TakeoverSizes(topics=1000, stored=1001).topics_stored == 1001


def test_going_on_needs_the_file_of_the_run() -> None:
    run = CliRunner().invoke(main, ["takeover", "--resume"])
    assert run.exit_code == 2
    assert "--resume continues the file that --result names: give --result too" in run.output


def test_the_help_ends_in_an_example_that_the_command_takes() -> None:
    run = CliRunner().invoke(main, ["takeover", "--help"])
    assert run.exit_code == 0
    example = " ".join(run.output.strip().split("\n\n")[-1].split())
    assert example.startswith("Example: hedwig-bench takeover ")
    taken = CliRunner().invoke(main, [*example.split()[2:], "--help"])
    assert taken.exit_code == 0
