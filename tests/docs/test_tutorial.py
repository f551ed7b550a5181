"""Prove that the tutorial is right: all of its commands run, but for the installation, and nothing is lost."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.checkout import CHECKOUT

pytestmark = [pytest.mark.full, pytest.mark.servers, pytest.mark.timeout(900)]

PAGE: Final = (CHECKOUT / "docs" / "tutorial.md").read_text(encoding="utf-8")
HUBS: Final = {"4080": "14180", "4082": "14182", "4084": "14184"}
"""The ports of the hubs, and those that they get here: a hub of somebody else may have the usual ones."""


def _commands() -> str:
    """Return the commands of all blocks but the first, which installs."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line.removeprefix("$ ") for block in blocks[1:] for line in block.splitlines()]
    script = "\n".join(lines)
    for usual, here in HUBS.items():
        script = script.replace(usual, here)
    return script


def test_every_command_runs_and_nothing_is_lost(tmp_path: Path) -> None:
    bin_folder = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEDWIG_", "XDG_"))}
    environment["PATH"] = f"{bin_folder}:{environment['PATH']}"
    environment["HEDWIG_HUB"] = f"127.0.0.1:{HUBS['4080']}"
    script = subprocess.Popen(
        ["bash", "-c", _commands()],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = script.communicate(timeout=800)
    finally:
        # If a command failed, the hubs still run, in the session of the script.
        subprocess.run(["pkill", "-KILL", "-s", str(script.pid)], check=False, timeout=60)
        down = [str(bin_folder / "hedwig-admin"), "dev", "down", "--yes", "--dir", str(tmp_path / "tutorial-servers")]
        subprocess.run(down, env=environment, capture_output=True, check=False, timeout=120)
    got = re.findall(r"(?m)^(\d) +(reading \d|after the kill)$", output)
    assert got == [("1", "reading 1"), ("2", "reading 2"), ("3", "reading 3"), ("4", "after the kill")], output
    assert "ledger_count: 2" in output
    assert output.count(" is ready") == 2
