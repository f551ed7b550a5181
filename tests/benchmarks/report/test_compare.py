"""Prove that `hedwig-bench compare` tells changes from noise, and refuses what cannot be compared."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.compare.command import compare_command
from hedwig.benchmarks.report.compare.results import compare
from hedwig.benchmarks.report.compare.terms import term_differences
from hedwig.benchmarks.runs.results import Measurement
from hedwig.histograms import Histogram
from tests.benchmarks.support.known_times import timed
from tests.benchmarks.support.recorded_results import (
    COMMITTED,
    OUT_OF_TIME,
    THREE_BACKENDS,
    changed,
    three_backends,
    wall,
)

HEAP_NOTE = "1,024 MiB of heap in all for each backend, no replicas"


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def _lines(*arguments: str | Path) -> list[dict[str, Any]]:
    ran = _run(*arguments, "--json")
    assert ran.exit_code == 0, ran.output
    lines: list[dict[str, Any]] = json.loads(ran.output)["lines"]
    return lines


def _is_claim(measurement: Measurement) -> bool:
    return (measurement.driver, measurement.workload.name) == ("sqlite", "claim")


def _times(measurement: Measurement, factor: float) -> Measurement:
    """Return a measurement in which this share of the operations was done."""
    return replace(measurement, count=round(measurement.count * factor))


def _steady(measurement: Measurement) -> Measurement | None:
    """Return claims in SQLite, at nearly the same rate in all rounds, and None for anything else."""
    return replace(measurement, count=10_000 + measurement.round, seconds=1.0) if _is_claim(measurement) else None


def test_a_result_is_not_different_from_itself() -> None:
    lines = _lines(THREE_BACKENDS, THREE_BACKENDS, "--fail-slower-than", "0")
    assert {line["verdict"] for line in lines} == {"within the noise", "noise unknown", "too short to tell"}
    single = {line["what"].split(",")[0] for line in lines if line["verdict"] == "noise unknown"}
    assert single == {"fill", "restart"}
    assert all(figure["ratio"] == pytest.approx(1) for line in lines for figure in line["figures"])
    drivers = {line["driver"] for line in lines}
    assert drivers == {"sqlite", "zookeeper", "hbase"}


@pytest.mark.parametrize(("factor", "verdict"), [(0.5, "slower"), (2.0, "faster"), (1.0, "within the noise")])
def test_what_changed_by_a_known_factor_is_found(tmp_path: Path, factor: float, verdict: str) -> None:
    before = changed(THREE_BACKENDS, tmp_path / "before.json", _steady)
    after = changed(before, tmp_path / "after.json", lambda each: _times(each, factor))
    lines = _lines(before, after)
    assert len(lines) == 2  # One for each number of topics.
    for line in lines:
        assert line["verdict"] == verdict
        rate = line["figures"][0]
        assert rate["figure"] == "operations/s"
        assert rate["ratio"] == pytest.approx(factor, rel=0.001)
        assert rate["ratio_low"] <= rate["ratio"] <= rate["ratio_high"]


def test_how_long_a_case_was_and_how_much_of_it_was_warm_up_is_no_other_case(tmp_path: Path) -> None:
    before = changed(THREE_BACKENDS, tmp_path / "before.json", _steady)

    def lengthened(measurement: Measurement) -> Measurement:
        workload = replace(measurement.workload, operations=600, seconds=9.0, warmup_share=0.2)
        return replace(measurement, workload=workload)

    lines = _lines(before, changed(before, tmp_path / "after.json", lengthened))
    assert len(lines) == 2  # One for each number of topics.


def test_times_are_compared_by_merged_histograms(tmp_path: Path) -> None:
    """In the second side's histogram every time of the first is twice as long, and so are all percentiles."""

    first = changed(THREE_BACKENDS, tmp_path / "first.json", _steady)

    def slower(measurement: Measurement) -> Measurement:
        steps = [step / 10 for step in range(1, 1001)]
        longer = Histogram()
        longer.record_all([2 * us for us in measurement.histograms["response"].percentiles_us(steps).values()])
        return replace(measurement, histograms={"service": longer, "response": longer})

    second = changed(first, tmp_path / "second.json", slower)
    few, many = _lines(first, second)
    # Ten times must lie beyond a percentile. So 25 operations a round have only a median; 166 have a 90th percentile
    # too.
    for line, names in ((few, {"response p50, ms"}), (many, {"response p50, ms", "response p90, ms"})):
        times = {figure["figure"]: figure for figure in line["figures"] if figure["figure"] != "operations/s"}
        assert set(times) == names
        assert all(figure["ratio"] == pytest.approx(2, rel=0.05) for figure in times.values())


def test_a_rate_that_was_offered_and_kept_up_is_compared_by_its_times() -> None:
    lines = _lines(THREE_BACKENDS, THREE_BACKENDS)
    offered = [line for line in lines if "offered" in line["what"]]
    assert offered
    for line in offered:
        names = [figure["figure"] for figure in line["figures"]]
        is_behind = any(note.startswith("offered load not reached") for note in line["notes"])
        assert (names[0] == "operations/s") == is_behind


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda each: _times(each, 0.5), 1, "slower than allowed: SQLite, synced, claim, 300 topics"),
        (lambda each: _times(each, 0.95), 0, ""),
        (lambda each: _times(each, 3), 0, ""),
        (lambda each: wall(each, "the packet is too large"), 1, "the packet is too large"),
        (lambda each: each if each.workload.topics == 300 else None, 3, "only the first result has it"),
        (lambda each: _times(each, 0.5) if each.round == 1 else None, 3, "1 round on one side"),
    ],
    ids=["half as fast", "a little slower", "faster", "a wall", "a case less", "one round"],
)
def test_the_exit_code_says_what_became_slower(tmp_path: Path, change: Any, code: int, words: str) -> None:
    before = changed(THREE_BACKENDS, tmp_path / "before.json", _steady)
    after = changed(before, tmp_path / "after.json", change)
    ran = _run(before, after, "--fail-slower-than", "10")
    assert ran.exit_code == code, ran.output
    assert words in ran.stderr
    assert _run(before, after).exit_code == 0


def _failing(measurement: Measurement, failed: int) -> Measurement:
    return replace(measurement, errors=Counter({"MetadataUnavailableError": failed}), histograms={})


@pytest.mark.parametrize(
    ("first", "second", "verdict", "code"),
    [
        (0, 50, "within the noise", 0),
        (0, 6000, "failing", 1),
        (6000, 6000, "failing on both sides", 3),
        (6000, 0, "failing no more", 3),
    ],
)
def test_operations_that_failed_are_no_speed(tmp_path: Path, first: int, second: int, verdict: str, code: int) -> None:
    steady = changed(THREE_BACKENDS, tmp_path / "steady.json", _steady)
    before = changed(steady, tmp_path / "before.json", lambda each: _failing(each, first))
    after = changed(steady, tmp_path / "after.json", lambda each: _failing(each, second))
    ran = _run(before, after, "--json", "--fail-slower-than", "10")
    assert ran.exit_code == code, ran.output
    lines = json.loads(ran.stdout)["lines"]
    assert {line["verdict"] for line in lines} == {verdict}
    for line in lines:
        notes = [note for note in line["notes"] if "operations failed: MetadataUnavailableError" in note]
        assert bool(notes) == bool(first or second)
    if code == 1:
        assert "claim, 300 topics × 1, 64 in flight: 37% of the operations failed" in ran.stderr
    if code == 3:
        assert "more than 1% of the first side's operations failed" in ran.stderr


def test_all_that_failed_at_once_is_a_wall_with_its_reason(tmp_path: Path) -> None:
    steady = changed(THREE_BACKENDS, tmp_path / "steady.json", _steady)
    dead = changed(steady, tmp_path / "dead.json", lambda each: replace(_failing(each, 7), count=0))
    for line in _lines(steady, dead):
        assert (line["verdict"], line["second_wall"]) == ("met a wall", "all failed: 21 × MetadataUnavailableError")


def _runs(tmp_path: Path, name: str, factors: list[float]) -> str:
    """Write runs of steady claims, each at its own speed; return them as an argument of the command."""
    paths = []
    for number, factor in enumerate(factors, 1):

        def speed(each: Measurement, factor: float = factor) -> Measurement | None:
            steady = _steady(each)
            return None if steady is None else _times(steady, factor)

        paths.append(changed(THREE_BACKENDS, tmp_path / f"{name}-{number}.json", speed))
    return ",".join(map(str, paths))


def test_with_one_file_a_side_the_noise_between_runs_is_called_unknown(tmp_path: Path) -> None:
    first = _runs(tmp_path, "a", [1.0])
    said = " ".join(_run(first, first).output.split())
    assert "One run a side: how much whole runs differ" in said
    assert "is not known" in said


def test_several_files_of_a_side_are_one_sample_each(tmp_path: Path) -> None:
    """Rounds within a run are alike, but runs are not. One run a side would be called faster; it is noise."""
    first, second = _runs(tmp_path, "a", [1.0, 0.7, 1.3]), _runs(tmp_path, "b", [1.2, 0.9, 1.4])
    assert {line["verdict"] for line in _lines(first.split(",")[0], second.split(",")[0])} == {"faster"}
    ran = _run(first, second)
    assert "One run a side" not in ran.output
    assert "Several runs a side" in ran.output
    lines = _lines(first, second)
    assert {line["verdict"] for line in lines} == {"within the noise"}
    for line in lines:
        rate = line["figures"][0]
        assert rate["first_rounds"] == pytest.approx([10_002, 7_001, 13_003], rel=0.001)
        assert (rate["first"], rate["second"]) == pytest.approx((10_002, 12_002), rel=0.001)
        middles = [(1.0 * 0.7 * 1.3) ** (1 / 3), (1.2 * 0.9 * 1.4) ** (1 / 3)]
        assert rate["ratio"] == pytest.approx(middles[1] / middles[0], rel=0.001)
    apart = _lines(first, _runs(tmp_path, "c", [3.0, 2.7, 3.3]))
    assert {line["verdict"] for line in apart} == {"faster"}


def test_percentiles_of_several_runs_are_those_of_all_their_times(tmp_path: Path) -> None:
    """The operations of one run take 1 ms, those of the other 100 ms. Half of all take 1; no 90th percentile is 50."""

    def run(name: str, us: int) -> Path:
        def timed(measurement: Measurement) -> Measurement | None:
            times = Histogram()
            times.record(us, 1000)
            return replace(measurement, histograms={"service": times, "response": times})

        steady = changed(THREE_BACKENDS, tmp_path / f"{name}-steady.json", _steady)
        return changed(steady, tmp_path / f"{name}.json", timed)

    runs = f"{run('fast', 1_000)},{run('slow', 100_000)}"
    for line in _lines(runs, runs):
        times = {figure["figure"]: figure for figure in line["figures"]}
        assert times["response p50, ms"]["first"] == pytest.approx(1, rel=0.01)
        assert times["response p90, ms"]["first"] == pytest.approx(100, rel=0.01)
        assert times["response p90, ms"]["first_rounds"] == pytest.approx([1, 100], rel=0.01)
        assert times["operations/s"]["first_rounds"] == pytest.approx([10_002, 10_002], rel=0.001)


def _at_a_rate(tmp_path: Path, name: str, rounds: Sequence[tuple[float, int]]) -> Path:
    """Write reads at an offered rate, by round: the 99th percentile in ms, and the number of operations."""
    result = three_backends()
    read = next(each for each in result.measurements if each.driver == "hbase" and each.workload.is_open_loop)
    result.measurements = [
        timed(replace(read, round=number, seconds=1.0, errors=Counter()), {ms: operations // 50}, operations)
        for number, (ms, operations) in enumerate(rounds, 1)
    ]
    path = tmp_path / f"{name}.json"
    result.write(path)
    return path


@pytest.mark.parametrize(
    ("first", "second", "ratio", "verdict"),
    [
        # Nine equal rounds: the mean of the rounds is nearly that of all times together.
        ([(10, 1000)] * 9, [(8, 1000)] * 9, 0.8, "faster"),
        # The slow ninth round has most of the times. By the mean of the rounds the ratio would be 1.08.
        ([(10, 1000)] * 9, [(10.5, 1000)] * 8 + [(13, 40_000)], 1.3, "slower"),
        # The ninth round of the first side has most of the times, and is the fastest.
        ([(10, 1000)] * 8 + [(7, 40_000)], [(8, 1000)] * 9, 8 / 7, "rounds and all times disagree"),
    ],
)
def test_b_over_a_of_a_percentile_is_that_of_all_times_together(
    tmp_path: Path,
    first: Sequence[tuple[float, int]],
    second: Sequence[tuple[float, int]],
    ratio: float,
    verdict: str,
) -> None:
    sides = _at_a_rate(tmp_path, "first", first), _at_a_rate(tmp_path, "second", second)
    (line,) = _lines(*sides)
    assert line["verdict"] == verdict
    figure = line["figures"][0]
    assert figure["figure"] == "response p99, ms"
    assert figure["ratio"] == pytest.approx(ratio, rel=0.01)
    assert figure["ratio"] == pytest.approx(figure["second"] / figure["first"])
    means = [math.prod(figure[name]) ** (1 / 9) for name in ("first_rounds", "second_rounds")]
    assert figure["ratio_of_rounds"] == pytest.approx(means[1] / means[0])
    shown = _columns(_run(*sides).output)
    low, high = figure["ratio_low"], figure["ratio_high"]
    assert shown["B÷A"] == f"{figure['ratio']:.2f}(rounds{low:.2f}–{high:.2f})"
    assert shown["p99"] == f"{figure['ratio']:.2f}{'*' if verdict in ('faster', 'slower') else ''}"


def _columns(output: str) -> dict[str, str]:
    """Return the columns of a table of one line, without the spaces at which cells are folded."""
    heads = [line.split("┃")[1:-1] for line in output.splitlines() if line.startswith("┃")]
    lines = [line.split("│")[1:-1] for line in output.splitlines() if line.startswith("│")]
    names, cells = (["".join(parts).replace(" ", "") for parts in zip(*rows, strict=True)] for rows in (heads, lines))
    return dict(zip(names, cells, strict=True))


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ([(10, 1000)] * 9, [(10.5, 1000)] * 8 + [(13, 40_000)], 1),  # Slower by 23 % over all, by 7 % in the mean.
        ([(10, 1000)] * 8 + [(7, 40_000)], [(8, 1000)] * 9, 0),  # It may be faster, or slower by an eighth.
        ([(7, 1000)] * 8 + [(10, 40_000)], [(9, 1000)] * 9, 3),  # Faster over all times, slower by 19 % in the rounds.
    ],
)
def test_a_check_goes_by_all_times_together_and_cannot_tell_where_the_rounds_disagree(
    tmp_path: Path, first: Sequence[tuple[float, int]], second: Sequence[tuple[float, int]], code: int
) -> None:
    sides = _at_a_rate(tmp_path, "first", first), _at_a_rate(tmp_path, "second", second)
    ran = _run(*sides, "--fail-slower-than", "15")
    assert ran.exit_code == code, ran.output
    if code == 3:
        assert "but all times together do not say so" in ran.stderr


def test_a_closed_loop_of_less_than_a_second_is_too_short_to_tell(tmp_path: Path) -> None:
    before = changed(THREE_BACKENDS, tmp_path / "before.json", _steady)

    def short(measurement: Measurement) -> Measurement:
        return replace(measurement, count=3000, seconds=0.9 if measurement.round == 2 else 1.0)

    ran = _run(before, changed(before, tmp_path / "after.json", short), "--json", "--fail-slower-than", "10")
    assert ran.exit_code == 3, ran.output
    lines = json.loads(ran.stdout)["lines"]
    assert {line["verdict"] for line in lines} == {"too short to tell"}
    for line in lines:
        rate = line["figures"][0]
        assert (rate["how"], rate["ratio_low"]) == ("a round of less than 1 s", None)
        assert rate["ratio"] < 0.4


def test_a_single_run_against_several_says_that_its_noise_is_unknown(tmp_path: Path) -> None:
    lines = _lines(_runs(tmp_path, "a", [1.0]), _runs(tmp_path, "b", [1.2, 1.3]))
    assert {line["verdict"] for line in lines} == {"noise unknown"}
    assert {line["figures"][0]["how"] for line in lines} == {"1 run on one side"}


def test_a_run_that_met_a_wall_is_left_out_and_named(tmp_path: Path) -> None:
    first, second = _runs(tmp_path, "a", [1.0, 1.1]), _runs(tmp_path, "b", [1.0, 1.1])
    lost = changed(Path(second.split(",")[1]), tmp_path / "lost.json", lambda each: wall(each, "zookeeper-1 ended"))
    for line in _lines(first, f"{second},{lost}"):
        assert line["notes"] == ["B: 1 of 3 runs left out: zookeeper-1 ended"]
        assert len(line["figures"][0]["second_rounds"]) == 2


def test_a_case_that_only_one_side_has_is_named(tmp_path: Path) -> None:
    less = changed(THREE_BACKENDS, tmp_path / "less.json", lambda each: each if each.driver != "hbase" else None)
    ran = _run(THREE_BACKENDS, less)
    assert ran.exit_code == 0, ran.output
    assert "only in A: HBase, synced: claim, 300 topics × 1, 64 in flight" in ran.output
    turned = _run(less, THREE_BACKENDS, "--fail-slower-than", "10")
    assert turned.exit_code == 0, turned.output  # A case more is no loss.


def test_what_holds_for_other_terms_is_refused_unless_it_is_asked_for(tmp_path: Path) -> None:
    other = three_backends()
    other.terms["synced"] = other.terms["synced"].replace(HEAP_NOTE, HEAP_NOTE.replace("1,024", "2,048"))
    other.terms["sizes"]["heap_mb"] = 2048
    other.environment["cpus"] = 64
    other.write(tmp_path / "other.json")
    refused = _run(THREE_BACKENDS, tmp_path / "other.json")
    assert refused.exit_code == 1
    (line,) = refused.output.splitlines()
    for words in ("cannot be compared without --anyway", "1,024 MiB of heap", "heap_mb: 1,024 | 2,048", "cpus: 2 | 64"):
        assert words in line
    anyway = _run(THREE_BACKENDS, tmp_path / "other.json", "--anyway")
    assert anyway.exit_code == 0, anyway.output
    assert "NOT COMPARABLE: heap_mb: 1,024 | 2,048" in anyway.output


def test_what_was_measured_longer_or_with_other_versions_is_compared_and_told() -> None:
    other = three_backends()
    other.terms["sizes"] |= {"seconds": 30.0, "rounds": 9}
    other.terms |= {"label": "again", "seed": 2}
    other.environment |= {"commit": "f" * 40, "python": "CPython 3.14.0"}
    differences = term_differences(three_backends(), other)
    assert {each.name for each in differences} == {"label", "seconds", "rounds", "seed", "commit", "python"}
    assert not any(each.forbids for each in differences)
    assert compare([three_backends()], [other]).lines


def test_another_durability_of_one_server_forbids_and_a_server_more_does_not() -> None:
    without = three_backends()
    said = without.terms["synced"]
    sentences = said.split("; ")
    without.terms["synced"] = "; ".join(each for each in sentences if not each.startswith("SQLite"))
    assert not any(each.forbids for each in term_differences(three_backends(), without))
    unsynced = three_backends()
    unsynced.terms["synced"] = said.replace("hbase.wal.hsync=true", "hbase.wal.hsync=false")
    (forbidding,) = [each for each in term_differences(three_backends(), unsynced) if each.forbids]
    assert forbidding.name == "synced, HBase"


def test_results_without_a_common_case_have_one_clear_line(tmp_path: Path) -> None:
    small = changed(THREE_BACKENDS, tmp_path / "small.json", lambda each: each if each.workload.topics == 300 else None)
    large = changed(THREE_BACKENDS, tmp_path / "large.json", lambda each: each if each.workload.topics != 300 else None)
    ran = _run(small, large)
    assert ran.exit_code == 1
    (line,) = ran.output.splitlines()
    assert "no case in common: one begins with SQLite, synced: fill, 300 topics" in line
    with pytest.raises(BenchmarkError, match="no case in common"):
        compare([three_backends()], [type(three_backends()).read(OUT_OF_TIME)], anyway=True)


@pytest.mark.parametrize("content", [None, "", "{}", '{"format": 99}'])
def test_what_is_no_result_is_one_line(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content)
    ran = _run(THREE_BACKENDS, path)
    assert ran.exit_code == 1
    assert len(ran.output.splitlines()) == 1
    assert str(path) in ran.output


def test_the_directory_of_a_run_is_its_result(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    changed(THREE_BACKENDS, directory / "result.json", lambda each: each)
    assert _lines(directory, THREE_BACKENDS) == _lines(THREE_BACKENDS, THREE_BACKENDS)


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("takeover-80000-topics", "s until all topics were served"),
        ("listing-sqlite", "s"),
        ("hub-memory-of-a-million-topics", "bytes for each topic"),
        ("hub-publish-50-topics", "operations/s"),
    ],
)
def test_each_kind_of_result_has_its_figure(name: str, figure: str) -> None:
    path = COMMITTED / f"{name}.json.xz"
    lines = _lines(path, path)
    assert lines[0]["figures"][0]["figure"] == figure
    assert lines[0]["figures"][0]["first"] > 0


def test_the_example_in_the_help_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("before.json", "after.json"):
        changed(THREE_BACKENDS, tmp_path / name, lambda each: each)
    assert compare_command.epilog is not None
    words = compare_command.epilog.removeprefix("Example: hedwig-bench ").split()
    ran = CliRunner().invoke(main, words)
    assert ran.exit_code == 0, ran.output
    assert "B ÷ A" in ran.output
