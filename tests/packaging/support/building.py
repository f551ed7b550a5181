"""Builds distributions from a checkout, or from an sdist, as maintainers do."""

import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["build"]

BUILD_S: Final = 300.0


def build(source: Path, target: Path, *what: str) -> Path:
    """Build a distribution of `source` and return its path."""
    # The environment for development has what the build needs, so nothing is downloaded.
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", str(target), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (built,) = target.iterdir()
    return built
