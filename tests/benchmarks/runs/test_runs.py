"""Prove that a run continues where the last one ended: it repeats failures, and no successful measurement."""

from pathlib import Path

from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.runs import carry_out
from tests.benchmarks.runs.test_results import ENVIRONMENT

CASES = [
    Case(Workload(name="publish"), "raw", "cluster"),
    Case(Workload(name="publish"), "raw", "original"),
    Case(Workload(name="publish", topics=7), "raw", "original"),
]


def _result() -> Result:
    return Result(program="hedwig-bench hub", started="now", environment=ENVIRONMENT, terms={})


def _carry_out(result: Result, path: Path, rounds: int = 2) -> list[tuple[Case, int]]:
    done: list[tuple[Case, int]] = []

    def measure(case: Case, number: int) -> Measurement:
        done.append((case, number))
        return Measurement(workload=case.workload, driver=case.driver, round=number, count=1, seconds=1.0)

    carry_out(CASES, measure, rounds, result, path, named=lambda case: case.on)
    return done


def test_everything_is_measured_once_a_round_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = _carry_out(_result(), path)
    assert done == [*((case, 1) for case in CASES), *((case, 2) for case in reversed(CASES))]
    result = Result.read(path)
    assert result.is_complete
    assert [each.on for each in result.measurements] == [case.on for case, _ in done]


def test_only_what_is_missing_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    _carry_out(_result(), path)
    before = Result.read(path)
    lost = before.measurements.pop(4)
    kept = before.measurements[0]
    assert _carry_out(before, path) == [(CASES[1], 2)]
    after = Result.read(path)
    assert len(after.measurements) == 2 * len(CASES)
    assert after.measurements[0] == kept
    assert (after.measurements[-1].workload, after.measurements[-1].round) == (lost.workload, 2)


def test_what_met_a_wall_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    _carry_out(_result(), path, rounds=1)
    before = Result.read(path)
    before.measurements[2].wall = "no disk space"
    assert _carry_out(before, path, rounds=1) == [(CASES[2], 1)]
