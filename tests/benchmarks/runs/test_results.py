"""Prove that results survive their file, that rounds are merged, and that tables show what readers must know."""

import asyncio
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.workloads import Choice, Operation, Workload
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Measurement, Result, alike, failure_words, file_of_run
from hedwig.benchmarks.runs.start_times import StartTimes
from hedwig.benchmarks.suites.hub.tables import rows
from hedwig.histograms import Histogram
from tests.benchmarks.support.known_target import KnownTarget, measured

ENVIRONMENT = {
    "cpu": "a processor",
    "cpus": 2,
    "memory_bytes": 24 << 30,
    "disk_syncs_per_s": 1234.5,
    "load_average": 0.1,
    "kernel": "Linux",
    "python": "CPython",
    "libraries": {"click": "8"},
    "sqlite": "3",
    "java": None,
    "commit": "0123456789abcdef",
    "is_dirty": True,
}


def _round(number: int, delay_s: float, workload: Workload | None = None) -> Measurement:
    done = workload or Workload(name="publish", in_flight=10, seconds=2.0, warmup_s=0.0)
    measurement = Measurement(workload=done, driver="raw", round=number)
    measurement.take(measured(done, KnownTarget(delay_s)), is_delivery=False)
    measurement.hub_cores, measurement.generator_cores, measurement.hub_rss_bytes_max = 0.5, 0.1, 50 << 20
    return measurement


def _result(*measurements: Measurement, is_complete: bool = True) -> Result:
    return Result(
        program="hedwig-bench hub",
        started="2026-01-01 00:00:00 UTC",
        environment=dict(ENVIRONMENT),
        terms={"replicas": "none", "seed": 1},
        measurements=list(measurements),
        is_complete=is_complete,
    )


@pytest.mark.parametrize("name", ["hub.json", "hub.json.xz"])
def test_a_result_survives_its_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "results" / name
    written = _result(_round(1, 0.010), _round(2, 0.020))
    written.write(path)
    read = Result.read(path)
    assert read.to_json() == written.to_json()
    assert read.measurements[0].histograms["service"].percentiles_us() == (
        written.measurements[0].histograms["service"].percentiles_us()
    )
    assert [each.name for each in path.parent.iterdir()] == [name]


def test_a_compressed_result_is_that_of_its_directory_and_smaller(tmp_path: Path) -> None:
    written = _result(_round(1, 0.010), _round(2, 0.020))
    for name in ("result.json.xz", "plain.json"):
        written.write(tmp_path / name)
    assert Result.read(tmp_path).to_json() == written.to_json()
    assert file_of_run(tmp_path).name == "result.json.xz", "a run in this directory is resumed"
    assert (tmp_path / "result.json.xz").stat().st_size < (tmp_path / "plain.json").stat().st_size
    (tmp_path / "result.json.xz").write_bytes(b"no archive")
    with pytest.raises(BenchmarkError, match=r"cannot read .*result\.json\.xz as a result: LZMAError"):
        Result.read(tmp_path)


def test_a_result_of_another_program_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    replace(_result(_round(1, 0.010)), program="hedwig-bench other").write(path)
    for command in (["show"], ["report", "-o", str(tmp_path / "page")]):
        run = CliRunner().invoke(main, [*command, str(path)])
        *_, last = run.output.splitlines()
        assert (run.exit_code, last) == (
            1,
            "error: the result is of hedwig-bench other, which hedwig-bench does not know",
        )


def test_a_pipe_gets_a_result_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_text)
        _result().write(pipe)
        assert json.loads(read.result(30))["program"] == _result().program
    assert [each.is_fifo() for each in tmp_path.iterdir()] == [True]


def _fill_the_disk(path: Path) -> Path:
    """Make the next write of a file fail as on a full disk."""
    partial = path.with_name(f"{path.name}.partial")
    partial.symlink_to("/dev/full")
    return partial


def test_on_a_full_disk_the_file_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    _fill_the_disk(path)
    with pytest.raises(BenchmarkError) as caught:
        _result().write(path)
    assert str(caught.value) == (
        f"cannot write the result {path}: No space left on device; make room on its disk, and begin again"
    )
    assert list(tmp_path.iterdir()) == []
    _result(_round(1, 0.010)).write(path)
    before = path.read_bytes()
    _fill_the_disk(path)
    with pytest.raises(BenchmarkError, match="; make room on its disk; the earlier result is whole"):
        _result(_round(1, 0.010), _round(2, 0.010)).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_result_that_cannot_be_written_for_another_reason_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BenchmarkError, match=r"cannot write the result .*; see that it can be written, and begin"):
        _result().write(tmp_path / "file" / "result.json")
    with pytest.raises(BenchmarkError, match=r"cannot write the result /dev/full: No space left on device"):
        _result().write(Path("/dev/full"))


def test_files_from_before_seconds_told_of_refusals_are_read(tmp_path: Path) -> None:
    path = tmp_path / "hub.json"
    _result(_round(1, 0.010)).write(path)
    values = json.loads(path.read_text())
    for second in values["measurements"][0]["series"].values():
        assert second.pop("refused") == 0
    path.write_text(json.dumps(values))
    assert Result.read(path).to_json() == values


def test_a_workload_survives_its_file() -> None:
    workload = Workload(
        name="mixed", mix={"publish": 3.0, "subscribe": 1.0}, topics=7, choice=Choice.ZIPF, rate_per_s=10.0
    )
    assert Workload.from_json(json.loads(json.dumps(workload.to_json()))) == workload


def test_rounds_are_one_line_with_their_spread_and_merged_times() -> None:
    """10 in flight at 10, 20 and 40 ms give 1000, 500 and 250 a second. 4 of 7 operations took 10 ms."""
    (row,) = rows([_round(1, 0.010), _round(2, 0.020), _round(3, 0.040)])
    assert row.rate == "500/s"
    assert row.spread == "250 – 1,000"
    assert row.latency.split(" / ")[0] == "10.0"
    # Only three of 3,500 operations lie beyond p99.9, too few for a number.
    assert row.latency.split(" / ")[1:] == ["40.0", "–", "40.0"]
    assert row.errors == "0"
    assert row.hub == "0.50 / 50"


def test_other_drivers_and_workloads_are_other_lines() -> None:
    first, other_driver = _round(1, 0.010), _round(1, 0.010)
    other_driver.driver = "client"
    other_load = _round(1, 0.010, Workload(name="publish", in_flight=20, seconds=2.0, warmup_s=0.0))
    again = _round(2, 0.010)
    assert alike([first, other_driver, other_load, again]) == [[first, again], [other_driver], [other_load]]


def test_a_fixed_rate_shows_response_and_service_times_side_by_side() -> None:
    workload = Workload(name="publish", rate_per_s=100.0, in_flight=1, seconds=10.0, warmup_s=0.0)
    measurement = Measurement(workload=workload, driver="raw", round=1)
    measurement.take(measured(workload, KnownTarget(0.005, stalls=[(5.0, 6.0)])), is_delivery=False)
    (row,) = rows([measurement])
    response, service = row.latency.removesuffix(")").split(" (service ")
    assert float(response.split(" / ")[1]) == pytest.approx(950, abs=20)
    assert float(service.split(" / ")[1]) == pytest.approx(5, abs=0.1)
    assert row.load == "100/s offered"


def test_a_load_that_was_not_reached_says_so_in_its_line() -> None:
    (row,) = rows([_round(1, 0.010, Workload(name="publish", rate_per_s=500.0, in_flight=1, seconds=2.0, warmup_s=0))])
    assert row.notes.startswith("offered load not reached: 100 of 500/s")


def test_a_generator_that_was_busy_says_so_in_its_line() -> None:
    measurement = _round(1, 0.010)
    measurement.generator_cores = 0.97
    assert rows([measurement])[0].notes == "the generator was busy: 0.97 processors"


def test_a_wall_is_a_line_of_its_own_kind() -> None:
    wall = Measurement(workload=Workload(name="publish"), driver="raw", round=1, wall="the hub ended: out of memory")
    (row,) = rows([wall])
    assert (row.rate, row.latency, row.notes) == ("–", "–", "the hub ended: out of memory")
    (row,) = rows([wall, _round(1, 0.010, Workload(name="publish"))])
    assert row.rate != "–"
    assert row.spread == "1 round"
    assert "out of memory" in row.notes


def test_failures_are_shown_with_their_reasons() -> None:
    measurement = _round(1, 0.010)
    measurement.errors.update({"SERVICE_DOWN": 3, "unfinished": 1})
    assert rows([measurement])[0].errors == "4 (SERVICE_DOWN, unfinished)"


def test_failures_are_a_note_with_their_share_and_the_most_frequent_kinds() -> None:
    measurement = _round(1, 0.010)
    done = measurement.histograms["service"].count
    measurement.errors.update({"A": 1, "B": 40, "C": 30, "D": 20})
    assert measurement.notes() == [f"91 of {done + 91:,} operations failed: B, C, D"]
    other = _round(2, 0.010)
    assert failure_words([measurement, other]) == f"91 of {2 * done + 91:,} operations failed: B, C, D"
    assert failure_words([other]) is None


def test_a_round_in_which_all_failed_says_so() -> None:
    workload = Workload(name="publish", in_flight=10, operations=100, seconds=1.0)
    measurement = Measurement(workload=workload, driver="raw", round=1)
    measurement.take(measured(workload, KnownTarget(0.010, fails=lambda _: "SERVICE_DOWN")), is_delivery=False)
    assert measurement.notes() == ["all failed: 100 × SERVICE_DOWN"]


def test_attempts_that_are_repeated_until_they_are_done_are_called_so() -> None:
    measurement = _round(1, 0.010, Workload(name="fill", in_flight=10, seconds=2.0, warmup_s=0.0))
    measurement.errors.update({"MetadataUnavailableError": 3})
    assert measurement.notes() == ["3 attempts failed: MetadataUnavailableError"]


def _offered(target: KnownTarget, rate: float = 1000.0, **changes: float) -> Measurement:
    given = {"seconds": 10.0, "warmup_s": 2.0, "in_flight": 100_000, **changes}
    workload = Workload(name="publish", rate_per_s=rate, **given)  # type: ignore[arg-type]
    measurement = Measurement(workload=workload, driver="raw", round=1)
    measurement.take(measured(workload, target), is_delivery=False)
    return measurement


class _Slowing(KnownTarget):
    """Answers N operations a second, one after the other: a higher offered rate makes a queue."""

    def __init__(self, per_s: float) -> None:
        super().__init__(0.001)
        self._each_s = 1 / per_s
        self._free_s = 0.0

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        loop = asyncio.get_running_loop()
        self._free_s = max(self._free_s, loop.time()) + self._each_s
        loop.call_at(self._free_s, self._observer.answered, number, None)


@pytest.mark.parametrize("seconds", [2.0, 10.0])
@pytest.mark.parametrize("warmup_s", [0.0, 0.5])
@pytest.mark.parametrize("per_s", [900.0, 940.0])
def test_a_queue_that_grows_is_not_forgiven_in_a_short_window(seconds: float, warmup_s: float, per_s: float) -> None:
    measurement = _offered(_Slowing(per_s), seconds=seconds, warmup_s=warmup_s)
    assert measurement.missed == 0
    assert measurement.is_offered_load_reached is False


def test_a_queue_that_grows_by_less_than_the_rate_tells_shows_in_its_times() -> None:
    """The count hides one per cent too much load, but the last operations wait ten times as long as the first."""
    measurement = _offered(_Slowing(990.0), seconds=12.0)
    assert measurement.rate_per_s == pytest.approx(990, rel=0.002)
    assert measurement.is_offered_load_reached is False
    (note,) = measurement.notes()
    before, after = map(float, re.findall(r"[\d.]+(?= to | ms)", note))
    assert note.startswith("offered load not reached: its queue grew, and the median response with it from ")
    assert after > 2 * before > 0


@pytest.mark.parametrize("seconds", [2.0, 10.0])
@pytest.mark.parametrize("warmup_s", [0.0, 0.5])
def test_what_is_on_its_way_at_the_end_is_no_queue(seconds: float, warmup_s: float) -> None:
    """Each answer takes 80 ms, so 80 operations are under way at any moment, of 2,000 or of 10,000."""
    measurement = _offered(KnownTarget(0.080), seconds=seconds, warmup_s=warmup_s)
    assert measurement.is_offered_load_reached is True
    assert measurement.notes() == []


def test_a_stall_in_which_a_window_ends_is_no_queue() -> None:
    measurement = _offered(KnownTarget(0.002, stalls=[(1.93, 2.1)]), seconds=2.0, warmup_s=0.5)
    assert measurement.rate_per_s * measurement.seconds < 0.97 * 1500
    assert measurement.is_offered_load_reached is True


def test_times_that_double_within_a_few_milliseconds_are_no_queue() -> None:
    class Slower(KnownTarget):
        def begin(self, number: int, operation: Operation, topic: int) -> None:
            self._delay_s = 0.002 if number < 7000 else 0.008
            super().begin(number, operation, topic)

    assert _offered(Slower(0.0)).is_offered_load_reached is True


def test_show_prints_results_again(tmp_path: Path) -> None:
    path = tmp_path / "hub.json"
    _result(_round(1, 0.010), is_complete=False).write(path)
    shown = CliRunner().invoke(main, ["show", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "1,000/s" in shown.output
    assert "commit 0123456789ab with changes; the run was not finished" in shown.output
    assert "1,234 synced appends of 4 KiB a second" in shown.output
    assert "terms: replicas none, seed 1" in shown.output
    as_json = CliRunner().invoke(main, ["show", "--json", str(path)])
    assert json.loads(as_json.output) == [json.loads(path.read_text())]
    as_markdown = CliRunner().invoke(main, ["show", "--markdown", str(path)])
    assert as_markdown.output == markdown(Result.read(path)) + "\n"
    assert "| publish, 50 topics, 100 B | raw |" in as_markdown.output


@pytest.mark.parametrize("content", [None, "", "[]", '{"format": 1}', '{"format": 99}'])
def test_what_is_no_result_is_one_line(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "hub.json"
    if content is not None:
        path.write_text(content)
    shown = CliRunner().invoke(main, ["show", str(path)])
    assert shown.exit_code == 1
    assert len(shown.output.splitlines()) == 1
    assert str(path) in shown.output


def test_the_same_histogram_is_in_the_file_as_in_the_table(tmp_path: Path) -> None:
    path = tmp_path / "hub.json"
    _result(_round(1, 0.010)).write(path)
    (stored,) = json.loads(path.read_text())["measurements"]
    assert Histogram.decode(stored["histograms"]["service"]).percentile_us(50) == pytest.approx(10_000, rel=0.001)
    seconds = [Histogram.decode(second["response"]) for second in stored["series"].values()]
    assert Histogram.merged(seconds).count == sum(second["finished"] for second in stored["series"].values())


def test_files_from_before_measurements_had_a_start_are_read(tmp_path: Path) -> None:
    path = tmp_path / "hub.json"
    begun = StartTimes(iter([100.0, 107.25]).__next__).noted(lambda: _round(1, 0.010))
    assert begun.started is not None
    assert abs((datetime.now(UTC) - datetime.fromisoformat(begun.started)).total_seconds()) < 60
    assert begun.started_s == 7.25
    _result(begun).write(path)
    (read,) = Result.read(path).measurements
    assert (read.started, read.started_s) == (begun.started, 7.25)
    values = json.loads(path.read_text())
    for name in ("started", "started_s"):
        del values["measurements"][0][name]
    path.write_text(json.dumps(values))
    (older,) = Result.read(path).measurements
    assert (older.started, older.started_s) == (None, None)
