"""Prove that `hedwig-bench listing` runs whole commands, counts their rows, and reports the peak memory of each."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.command_process import run_command
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.suites.listing.cases import COMMANDS

TOPICS = 50
MIB = 1 << 20


def _measured(directory: Path, *arguments: str) -> Result:
    path = directory / "result.json"
    given = ("--topics", str(TOPICS), "--data", str(directory / "data"), "--result", str(path))
    run = CliRunner().invoke(main, ["listing", *given, *arguments])
    assert run.exit_code == 0, run.output
    assert not list((directory / "data").iterdir())
    return Result.read(path)


def test_every_command_is_measured_and_has_told_all_topics(tmp_path: Path) -> None:
    result = _measured(tmp_path, "--on", "sqlite", "--nested")
    assert result.is_complete
    assert [each.workload.name for each in result.measurements] == list(COMMANDS)
    for each in result.measurements:
        assert each.wall is None, (each.workload.name, each.wall)
        assert each.count == TOPICS
        assert 10 * MIB < each.values["rss_bytes_max"] < 200 * MIB
        assert each.values["cpu_s"] > 0
    table = markdown(result)
    assert "sqlite: 50 topics" in table
    assert all(name in table for name in COMMANDS)


def test_what_a_command_did_not_tell_is_the_wall_of_its_measurement(tmp_path: Path) -> None:
    store = tmp_path / "metadata.sqlite"
    arguments = ("--metadata", f"sqlite://{store}", "--command", "topic list --all -o csv")
    assert _measured(tmp_path, *arguments).measurements[0].wall is None
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM persistence WHERE topic = ?", (b"company-topic-00000007",))
    measured = _measured(tmp_path, *arguments).measurements[0]
    assert (measured.count, measured.wall) == (0, "it reported 49 topics of 50")


def test_command_that_fails_is_told_with_its_error(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/m"
    assert run_command(["metadata", "format", "--metadata", url], tmp_path / "out", 60).code == 0
    ran = run_command(["topic", "show", "none", "--metadata", url], tmp_path / "out", 60)
    assert ran.code == 3
    assert "there is no topic 'none'" in ran.said
    assert ran.rss_bytes_max > 10 * MIB


def test_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/m"
    for command in (["metadata", "format"], ["topic", "create", "news"]):
        assert run_command([*command, "--metadata", url], tmp_path / "out", 60).code == 0
    with pytest.raises(BenchmarkError, match="did not end within"):
        run_command(["topic", "show", "--watch", "1", "news", "--metadata", url], tmp_path / "out", 3)
