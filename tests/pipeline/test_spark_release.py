"""Prove that jobs on another release of Spark say so, before they use anything that it may lack."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pyspark
import pytest

from hedwig.exit_codes import ExitCode
from hedwig.pipeline.spark_release import RELEASE
from tests.pipeline.conftest import Run
from tests.support.checkout import CHECKOUT

PROJECT = CHECKOUT / "pyproject.toml"


def test_the_release_is_that_of_the_extra() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    (needed,) = [each for each in extras["spark"] if each.startswith("pyspark")]
    major, minor = map(int, RELEASE.split("."))
    assert needed == f"pyspark>={RELEASE},<{major}.{minor + 1}"


@pytest.mark.parametrize("release", ["3.5.6", "4.0.1", "4.30.0", "5.0.0.dev0"])
def test_another_release_is_named_with_its_place(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    monkeypatch.setattr("pyspark.version.__version__", release)
    folder = Path(pyspark.__file__).parent
    said = run("generate", tmp_path / "made", code=ExitCode.USAGE)
    assert f"this is PySpark {release}, imported from {folder}, and jobs need {RELEASE}; in the checkout" in said
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert f"take the spark-submit of Spark {RELEASE}" in run("generate", tmp_path / "made", code=ExitCode.USAGE)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("release", ["4.3.1", "4.3.0.dev0", "4.3.0-vendor-2"])
def test_all_of_the_same_release_will_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    monkeypatch.setattr("pyspark.version.__version__", release)
    job = ("restore", tmp_path / "nowhere", f"sqlite://{tmp_path}/store.db")
    assert "does not exist" in run(*job, code=ExitCode.NOT_FOUND)


def test_nothing_else_of_it_is_needed_to_say_so(tmp_path: Path) -> None:
    folder = tmp_path / "pyspark"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "version.py").write_text('__version__ = "3.5.6"\n')
    words = [sys.executable, "-m", "hedwig.pipeline", "load", f"sqlite://{tmp_path}/x.db", "--topics", "topics.tsv"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    environment["PYTHONPATH"] = str(tmp_path)
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == ExitCode.USAGE, ran.stderr
    assert ran.stderr.startswith(f"error: this is PySpark 3.5.6, imported from {folder}, and jobs need {RELEASE}; ")
    assert len(ran.stderr.splitlines()) == 1
