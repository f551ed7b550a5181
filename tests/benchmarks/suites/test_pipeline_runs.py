"""Prove that `hedwig-bench pipeline` runs whole jobs, each on the output of the last, and checks their results."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.machine.process_tree import TreeMemory
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.suites.pipeline.steps import STEPS
from tests.benchmarks.support.processes import processes_over

MIB = 1 << 20
SIZE = ("--topics", "300", "--subscriptions", "900", "--row-by-row", "50")


def _measured(directory: Path, *arguments: str) -> Result:
    path = directory / "result.json"
    given = ("--data", str(directory / "data"), "--result", str(path))
    run = CliRunner().invoke(main, ["pipeline", *SIZE, *given, *arguments])
    assert run.exit_code == 0, run.output
    assert not list((directory / "data").iterdir())
    deadline = time.monotonic() + 10
    while processes_over(directory / "data"):
        assert time.monotonic() < deadline, "what was killed takes a moment to go, and no more"
        time.sleep(0.1)
    return Result.read(path)


@pytest.mark.full
@pytest.mark.timeout(3600)  # Each step is a job of Spark, and a busy machine takes minutes for one.
def test_steps_are_measured_one_after_the_other(tmp_path: Path) -> None:
    result = _measured(tmp_path, "--backend", "sqlite", "--target", "sqlite", "--rounds", "2")
    assert result.is_complete
    assert [each.workload.name for each in result.measurements] == [*STEPS, *STEPS]
    for each in result.measurements:
        assert each.wall is None, each.wall
        assert each.count == (50 if each.workload.name == "row by row" else 1200)
        assert each.workload.name == "row by row" or 200 * MIB < each.values["bytes_max"] < 8192 * MIB
    table = markdown(result)
    assert "| load | sqlite | 1,200 |" in table
    assert "1,200" in table


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_history_goes_through_all_steps_but_for_owners_which_are_not_restored(tmp_path: Path) -> None:
    result = _measured(tmp_path, "--backend", "sqlite", "--target", "sqlite", "--with-history")
    counts = {each.workload.name: each.count for each in result.measurements}
    assert [each.wall for each in result.measurements] == [None] * len(STEPS)
    with_owners = {counts[step] for step in ("generate", "load", "snapshot", "audit")}
    assert len(with_owners) == 1
    assert min(with_owners) > counts["restore"] == 1200
    assert "ledger ranges, owners and consume pointers" in markdown(result)


def test_a_job_that_does_not_end_is_a_wall_and_leaves_no_process(tmp_path: Path) -> None:
    measured = _measured(tmp_path, "--backend", "sqlite", "--target", "sqlite", "--step-timeout", "1")
    jobs = [each for each in measured.measurements if each.workload.name != "row by row"]
    assert len(jobs) == len(STEPS) - 1
    for each in jobs:
        assert each.wall is not None
        assert "did not end within 1 s" in each.wall or each.wall.startswith("exit code")


def test_memory_of_a_tree_counts_children_and_what_they_share_once() -> None:
    # Both processes end when their standard input does.
    program = "import os, sys; held = b'x' * (64 << 20); os.fork(); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        with TreeMemory(process.pid) as memory:
            pass
    assert 64 * MIB < memory.bytes_max < 110 * MIB
