"""Prove that the tables of kept results match the files beside them, and that documents name only those files."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.document import parts, section
from hedwig.benchmarks.runs.results import Result
from tests.support.checkout import CHECKOUT

KEPT = CHECKOUT / "benchmarks" / "results"
DOCUMENT = KEPT / "README.md"
RESULTS = sorted(KEPT.glob("*.json.xz"))
SMALLEST = min(RESULTS, key=lambda path: path.stat().st_size)


def test_the_documented_tables_are_those_of_the_committed_results() -> None:
    assert RESULTS
    _, shown, _ = parts(DOCUMENT)
    again = "python -m hedwig.benchmarks show --into benchmarks/results/README.md benchmarks/results/*.json.xz"
    assert shown == section([(path.name, Result.read(path)) for path in RESULTS]), f"run: {again}"


def test_results_are_put_between_the_marks_and_nowhere_else(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- results: begin -->\nold\n<!-- results: end -->\nafter\n")
    run = CliRunner().invoke(main, ["show", "--into", str(document), str(SMALLEST)])
    assert run.exit_code == 0, run.output
    before, shown, after = parts(document)
    assert (before, after) == ("before\n<!-- results: begin -->\n", "<!-- results: end -->\nafter\n")
    assert shown == section([(SMALLEST.name, Result.read(SMALLEST))])


@pytest.mark.parametrize("text", ["", "<!-- results: begin -->\n", "<!-- results: end -->\n<!-- results: begin -->\n"])
def test_a_document_without_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    document = tmp_path / "page.md"
    document.write_text(text)
    run = CliRunner().invoke(main, ["show", "--into", str(document), str(SMALLEST)])
    assert run.exit_code == 1
    assert "has no marks for results" in run.output
    assert document.read_text() == text


def test_documents_show_all_pictures_that_are_kept_and_name_all_runs() -> None:
    text = "".join(path.read_text() for path in (CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")))
    kept = [path.relative_to(CHECKOUT).as_posix() for path in KEPT.glob("*/*")]
    assert kept
    for name in kept:
        assert name.removesuffix("/result.json.xz") in text, name
