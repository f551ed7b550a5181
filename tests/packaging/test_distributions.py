"""Prove that each way to build installs `hedwig` and what Spark looks for, and nothing else.

The folders on top of the checkout are parts of `hedwig` by links (`hedwig/metadata -> ../metadata`).
"""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests.packaging.support.building import build
from tests.support.checkout import CHECKOUT

LINKED: Final = sorted(path.name for path in (CHECKOUT / "hedwig").iterdir() if path.is_symlink())


def _modules() -> set[str]:
    """Return the modules in the checkout, by their installed names."""
    paths = (
        path.relative_to(CHECKOUT)
        for top in ("hedwig", "pyspark_hedwig", *LINKED)
        for path in (CHECKOUT / top).rglob("*.py")
    )
    return {(Path("hedwig") / path if path.parts[0] in LINKED else path).as_posix() for path in paths}


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> set[str]:
    """The files of the wheel."""
    return set(zipfile.ZipFile(wheel_file).namelist())


def test_wheel_has_every_module_under_one_name(wheel: set[str]) -> None:
    assert {name.partition("/")[0] for name in wheel if ".dist-info/" not in name} == {"hedwig", "pyspark_hedwig"}
    assert {name for name in wheel if name.endswith(".py")} == _modules()
    assert {name.rpartition("/")[2] for name in wheel if "_pb2.py" in name} >= {"pubsub_pb2.py", "hbase_pb2.pyi"}
    assert not any(name.startswith("hedwig/benchmarks/results/") for name in wheel)


def test_sdist_builds_the_same_wheel(wheel: set[str], tmp_path: Path) -> None:
    with tarfile.open(build(CHECKOUT, tmp_path / "sdist", "--sdist")) as sdist:
        sdist.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert set(zipfile.ZipFile(build(source, tmp_path / "wheel", "--wheel")).namelist()) == wheel


@pytest.mark.parametrize("name", LINKED)
def test_part_has_no_second_name(name: str) -> None:
    """In a checkout or an editable install, Python also finds the folder on top."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr.endswith(f"ImportError: {name} is imported as hedwig.{name}, by that name alone\n")
