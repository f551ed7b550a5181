"""Prove that a third-party backend can run the shipped suite, and fails it where it breaks a rule."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.support.checkout import CHECKOUT

PAGE: Final = (CHECKOUT / "docs" / "explanation" / "metadata.md").read_text().partition("### The conformance suite")[2]
TINY: Final = Path(__file__).parent / "tiny"

BROKEN: Final = {
    "NEW overwrites": (
        "if version in (row.version, ANY):",
        "if version in (row.version, ANY, NEW):",
        "test_new_refuses_a_present_record",
    ),
    "versions are not looked at": (
        "if version in (row.version, ANY):",
        "if version != NEW:",
        "test_stale_version_refuses_a_present_record",
    ),
    "versions come again": (
        "Row(next(_numbers), parts)",
        "Row(1 if row is None else row.number + 1, parts)",
        "test_versions_never_repeat",
    ),
    "an update loses the other part": ("if row is not None and merge:", "if False:", "test_update_writes_the_parts"),
    "a refusal shows what was there before": (
        "else self._kind.stale(key, current)",
        "else self._kind.stale(key, Versioned(current.value, version))",
        "test_delete_with_a_stale_or_foreign_version_is_refused",
    ),
    "a listing leaves the last topic out": (
        "key.topic for key in self._after(prefix, start_after)",
        "key.topic for key in self._after(prefix, start_after)[:-1]",
        "test_topics_are_listed_exactly",
    ),
}
"""The change that breaks a rule, and a test that fails for it."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with the package `tiny`, as installed, and the test files that the page gives for it."""
    shutil.copytree(TINY, tmp_path / "tiny", ignore=shutil.ignore_patterns("__pycache__"))
    (entry_points,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    conftest, tests = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    installed = tmp_path / "tiny-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    # An installer writes the table of pyproject.toml in this form.
    ((group, entry),) = re.findall(r'\[project\.entry-points\."(.*)"\]\n(.*)\n', entry_points)
    (installed / "entry_points.txt").write_text(f"[{group}]\n{entry.replace(chr(34), '')}\n")
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_conformance.py").write_text(tests)
    return tmp_path


def run_suite(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the suite by the command of the page."""
    (command,) = re.findall(r"^    pytest (.*)$", PAGE, re.MULTILINE)
    # Let pytest find the package as if it were installed, without the other plugins of this environment.
    return subprocess.run(
        [sys.executable, "-m", "pytest", *command.split(), "-p", "no:cacheprovider", "-q", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )


@pytest.mark.timeout(600)
def test_sound_backend_passes(project: Path) -> None:
    ran = run_suite(project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is not None
    assert int(passed[1]) > 200
    assert "skipped" not in ran.stdout


@pytest.mark.parametrize("what", BROKEN)
def test_backend_that_breaks_a_rule_fails(what: str, project: Path) -> None:
    sound, broken, failing = BROKEN[what]
    backend = project / "tiny" / "backend.py"
    text = backend.read_text()
    assert sound in text
    backend.write_text(text.replace(sound, broken))
    ran = run_suite(project, "-k", failing)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert f"::{failing}" in ran.stdout
    # Failed asserts of the suite show the compared values, as those of tests do.
    assert "\nE  " in ran.stdout


def test_no_test_of_one_part_hides_another() -> None:
    parts = sorted((CHECKOUT / "metadata" / "testing" / "suite").glob("[a-z]*.py"))
    names = Counter(
        name for part in parts for name in re.findall(r"^(?:async )?def ([a-z]\w*)", part.read_text(), re.MULTILINE)
    )
    assert [name for name, times in names.items() if times > 1] == []
    for part in parts:
        assert f"from hedwig.metadata.testing.suite.{part.stem} import *" in PAGE


def test_metadata_does_not_import_what_only_tests_need() -> None:
    program = "import sys, hedwig.metadata; sys.exit(bool({'pytest', 'hypothesis'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, timeout=60, check=False).returncode == 0
