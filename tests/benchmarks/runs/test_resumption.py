"""Prove that a run continues only on its machine, and that it reports what else was different later."""

from typing import Any

import pytest

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.report.tables import terms
from hedwig.benchmarks.report.terms import facts
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.resumption import later_words, note_resumption
from tests.benchmarks.runs.test_results import ENVIRONMENT

CLEAN = ENVIRONMENT | {"is_dirty": False, "cpus_usable": 2, "libraries": {"click": "8", "kazoo": "2"}}


def _result() -> Result:
    return Result(program="hedwig-bench hub", started="now", environment=dict(CLEAN), terms={"seed": 1})


def _gone_on(*environments: dict[str, Any]) -> Result:
    result = _result()
    for each in environments:
        note_resumption(result, CLEAN | each, "--run")
    return result


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"cpu": "another"}, "processor a processor then, another here"),
        ({"cpus": 8}, "processors 2 then, 8 here"),
        ({"cpus_usable": 1}, "processors that may be used 2 then, 1 here"),
        ({"memory_bytes": 12 << 30}, "memory 24.0 GiB then, 12.0 here"),
        ({"kernel": "Linux 7"}, "kernel Linux then, Linux 7 here"),
    ],
)
def test_on_another_machine_it_does_not_go_on(other: dict[str, Any], why: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        _gone_on(other)
    assert str(caught.value) == (
        f"the earlier run began on another machine: {why}: resume it there, or give another --run"
    )


def test_a_little_less_memory_is_the_same_machine_and_so_is_another_load() -> None:
    result = _gone_on({"memory_bytes": (24 << 30) - (64 << 20), "load_average": 3.0, "disk_syncs_per_s": 7.0})
    assert later_words(result.environment) == ""


@pytest.mark.parametrize(
    ("later", "words"),
    [
        ({"commit": "f" * 40}, "at ffffffffffff"),
        ({"is_dirty": True}, "at 0123456789ab with changes"),
        ({"java": "21"}, "on java 21"),
        ({"libraries": {"click": "9"}}, "with click 9; with kazoo missing"),
    ],
)
def test_what_was_different_later_is_told(later: dict[str, Any], words: str) -> None:
    result = _gone_on({}, later, later)
    assert later_words(result.environment) == f", gone on with {words}"
    assert f", gone on with {words}" in terms(result)[0]
    assert f", gone on with {words}" in dict(facts("x", result))["Commit"]


def test_changes_on_the_commit_with_changes_may_be_others() -> None:
    result = _result()
    result.environment["is_dirty"] = True
    note_resumption(result, CLEAN | {"is_dirty": True}, "--run")
    assert later_words(result.environment) == ", gone on with at 0123456789ab with changes"


def test_files_of_an_older_version_know_commits_only() -> None:
    assert later_words(ENVIRONMENT | {"resumed_on": ["f" * 40, None]}) == ", gone on with at ffffffffffff"
