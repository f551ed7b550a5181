"""Prove that `hedwig-bench` starts with the extra `benchmarks` alone, and imports what a backend needs with it."""

import subprocess
import sys
from typing import Final

import pytest

_WITHOUT: Final = """
import sys
for name in ("aiohttp", "google_crc32c", "happybase", "kazoo", "prometheus_client", "thriftpy2", "uvloop"):
    sys.modules[name] = None
from hedwig.benchmarks.main import main
main()
"""


@pytest.mark.parametrize("arguments", [["--help"], ["hub", "--help"], ["cas", "--help"], ["show", "--help"]])
def test_a_command_needs_no_other_extra_to_begin_with(arguments: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", _WITHOUT, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Usage: ")
