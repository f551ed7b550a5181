"""Distributions are built from a checkout, or from an sdist, as those who publish them do."""

import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["build"]

BUILD_S: Final = 300.0


def build(source: Path, target: Path, *what: str) -> Path:
    """Build a distribution of `source` and return its path."""
    # What the build needs is among what development needs, so nothing is downloaded.
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", str(target), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (built,) = target.iterdir()
    return built
