"""Prove that each command with a data folder reports an unusable one in one line."""

import pytest
from click.testing import CliRunner

from hedwig.benchmarks.main import main


@pytest.mark.parametrize("command", ["cas", "hub", "listing", "migrate", "pipeline", "takeover"])
def test_place_where_no_folder_can_be_made_is_said_in_one_line(command: str) -> None:
    ran = CliRunner().invoke(main, [command, "--data", "/proc/x"])
    assert ran.exit_code == 1
    assert ran.output.startswith("error: cannot write data in /proc/x: ")
    assert "--data" in ran.output
