"""Earlier releases, each built as a wheel from the history of the checkout, for processes of that release."""

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests.packaging.support.building import build
from tests.support.checkout import CHECKOUT

__all__ = ["before_shared_logs"]

_BEFORE_SHARED_LOGS: Final = "172b97195a"
"""Release 0.2.0."""


@pytest.fixture(scope="session")
def before_shared_logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process of the last release that knows no shared logs."""
    return {"PYTHONPATH": str(_installed(_BEFORE_SHARED_LOGS, tmp_path_factory.mktemp("release")))}


def _installed(commit: str, directory: Path) -> Path:
    """Return a folder with the packages of a commit, as its wheel has them."""
    archive = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, capture_output=True, timeout=60, check=False)
    assert archive.returncode == 0, f"this needs the history of the checkout: {archive.stderr.decode()}"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory / "source", filter="data")
    with zipfile.ZipFile(build(directory / "source", directory / "wheel", "--wheel")) as wheel:
        wheel.extractall(directory / "installed")
    return directory / "installed"
