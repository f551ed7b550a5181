"""Prove that a complete measurement of a client stays complete, whatever happens after it."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.generator_process import GeneratorProcess
from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.cases import MetadataCases
from hedwig.benchmarks.stores.dataset import Dataset, FillTask
from hedwig.benchmarks.stores.servers import StoreServers

DATASET = Dataset(topics=20, subscribers=1, drawn=20)
WORKLOAD = Workload(
    name="subscribe", mix={Operation.CREATE_SUBSCRIPTION.value: 1.0}, topics=20, seconds=0.2, warmup_s=0.0
)
CLIENT = """#!{python}
import json, sys

def say(values):
    print(json.dumps(values), flush=True)

sys.stdin.readline()
say({{"ready": True}})
for line in sys.stdin:
    asked = json.loads(line)
    if "fill" in asked:
        say({{"progress": {{"records": 5, "of": 9, "per_s": 1.0}}}})
        say({{"progress": {{"records": 7, "of": 9, "per_s": 2.0}}}})
        say({{"filled": {{"summary": {summary}, "why": None}}}})
    else:
        say({{"ready": True}})
        sys.stdin.readline()
        say({{"summary": {summary}}})
        say({tidied})
"""


class _Stores(StoreServers):
    """Stores without a server, one of which ends at the `ends`-th question about it."""

    def __init__(self, directory: Path, *, ends: int = 0) -> None:
        super().__init__(
            directory, ["sqlite"], heap_mb=1024, durability="synced", topics_max=20, progress=lambda _: None
        )
        directory.mkdir()
        self._asked = 0
        self._ends = ends

    def ended(self, backend: str) -> list[str]:
        self._asked += 1
        return ["sqlite-1 ended"] if 0 < self._ends <= self._asked else []


def _client(directory: Path, tidied: Mapping[str, Any]) -> str:
    """Return a program that measures five operations, and reports `tidied` when it has tidied up."""
    now_ns = time.monotonic_ns()
    summary = Summary(begin_ns=now_ns, end_ns=now_ns + 1_000_000_000, count=5, offered=5)
    program = directory / "client"
    program.write_text(CLIENT.format(python=sys.executable, summary=summary.to_json(), tidied=dict(tidied)))
    program.chmod(0o755)
    return str(program)


def _measured(directory: Path, tidied: Mapping[str, Any], *, ends: int = 0) -> list[Measurement]:
    """Return two successive measurements of one backend."""
    with (
        _Stores(directory / "servers", ends=ends) as stores,
        MetadataCases(stores, _client(directory, tidied)) as cases,
    ):
        return [cases.measure("sqlite", WORKLOAD, DATASET, number) for number in (1, 2)]


def test_what_tidies_up_says_nothing_more(tmp_path: Path) -> None:
    for each in _measured(tmp_path, {"tidied": {"left": {}}}):
        assert (each.count, each.wall, each.reported) == (5, None, {})


def test_a_measurement_that_cannot_be_tidied_up_is_kept_and_says_so(tmp_path: Path) -> None:
    for each in _measured(tmp_path, {"error": "the disk is full"}):
        assert (each.count, each.wall) == (5, None)
        assert each.notes() == [
            "subscriptions of this load may still be in the store: the load generator failed: the disk is full"
        ]


def test_what_could_not_be_deleted_is_counted(tmp_path: Path) -> None:
    left = {"MetadataUnavailableError": 1_200, "BadVersionError": 3}
    for each in _measured(tmp_path, {"tidied": {"left": left}}):
        assert (each.count, each.wall) == (5, None)
        assert each.notes() == [
            "1,203 subscriptions of this load may still be in the store: BadVersionError, MetadataUnavailableError"
        ]


def test_a_server_that_ends_while_it_is_tidied_up_is_no_wall(tmp_path: Path) -> None:
    first, second = _measured(tmp_path, {"error": "no answer"}, ends=2)
    assert (first.count, first.wall) == (5, None)
    (note,) = first.notes()
    assert note.endswith("the load generator failed: no answer; sqlite-1 ended")
    # No run restarted it, so it was down before the second one.
    assert second.wall == "sqlite-1 ended"


def test_after_a_wall_the_next_case_gets_a_new_client(tmp_path: Path) -> None:
    """The old client still has to report that it tidied up, but nobody waits for that."""
    for each in _measured(tmp_path, {"tidied": {"left": {}}}, ends=1):
        assert (each.count, each.wall) == (5, "sqlite-1 ended")


def test_how_far_a_fill_is_comes_before_what_it_came_to(tmp_path: Path) -> None:
    reported: list[Mapping[str, float]] = []
    task = FillTask(first=0, last=20, subscribers=1)
    with _Stores(tmp_path / "servers") as stores, MetadataCases(stores, _client(tmp_path, {})) as cases:
        measurement = cases.fill("sqlite", replace(WORKLOAD, name="fill"), task, on_progress=reported.append)
    assert (measurement.count, measurement.wall) == (5, None)
    assert [each["records"] for each in reported] == [5, 7]


def test_who_waits_does_so_for_all_that_is_said_until_the_deadline() -> None:
    script = f"import sys, time; print({json.dumps({'progress': 1})!r}, flush=True); time.sleep(60)"
    with GeneratorProcess({}, (sys.executable, "-c", script)) as process:
        began = time.monotonic()
        with pytest.raises(BenchmarkError, match="did not say 'filled' in time"):
            process.hear("filled", began + 2.0)
        assert 2.0 <= time.monotonic() - began < 30.0


def test_ctrl_c_that_leaves_a_line_untold_is_still_ctrl_c() -> None:
    """The caller would take a broken pipe for a reader that closed our output: exit 1, without a word."""
    script = "input(); print('{\"ready\": true}', flush=True)"

    def interrupted() -> None:
        with GeneratorProcess({}, (sys.executable, "-c", script)) as process:
            process.hear("ready", time.monotonic() + 30.0)
            with pytest.raises(BenchmarkError, match="ended without an error message"):
                process.hear("more", time.monotonic() + 30.0)
            process.tell({"fill": {}})  # Nobody reads it, so it stays in the buffer.
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
