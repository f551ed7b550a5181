"""Prove that `hedwig-bench migrate` runs whole migrations beside changes, and reports the wait of hubs."""

from pathlib import Path

from click.testing import CliRunner

from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Result

TOPICS = 40
MIB = 1 << 20


def _measured(directory: Path, *arguments: str) -> Result:
    path = directory / "result.json"
    given = ("--topics", str(TOPICS), "--data", str(directory / "data"), "--result", str(path))
    run = CliRunner().invoke(main, ["migrate", *given, *arguments])
    assert run.exit_code == 0, run.output
    assert not list((directory / "data").iterdir())
    return Result.read(path)


def test_migrations_are_measured_round_by_round_beside_changes(tmp_path: Path) -> None:
    between = ("--between", "sqlite", "sqlite", "--subscribers", "2", "--changes", "200", "--rounds", "2")
    result = _measured(tmp_path, *between)
    assert result.is_complete
    assert len(result.measurements) == 2
    for each in result.measurements:
        assert each.wall is None, each.wall
        assert each.count == TOPICS * 3
        assert each.values["changes_per_s"] > 0
        assert 0 < each.values["pause_s"] < each.seconds
        assert 10 * MIB < each.values["rss_bytes_max"] < 200 * MIB
    table = markdown(result)
    assert "40 topics × 2: 120 records" in table
    assert "| sqlite to sqlite |" in table


def test_migration_that_fails_is_a_wall_with_its_error(tmp_path: Path) -> None:
    (each,) = _measured(tmp_path, "--between", "sqlite", "sqlite", "--command-timeout", "0.1").measurements
    assert each.count == 0
    assert each.wall is not None
    assert "did not end within 0.1 s" in each.wall
