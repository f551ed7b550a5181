"""Prove what a command reports if nobody can read its result or answer its question."""

import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin, Ran

_PROGRAM: Final = shlex.join((sys.executable, "-c", "from hedwig.cli.main import main; main()"))


def _in_shell(admin: Admin, line: str) -> Ran:
    """Run a line of the shell, in which `admin` stands for the command."""
    return admin.run_apart("-c", line.replace("admin", _PROGRAM, 1), program=("sh",))


@pytest.mark.parametrize("command", ["topic list", "topic show news", "topic create weather", "metadata export all.gz"])
def test_full_disk_below_standard_output_is_one_line(admin: Admin, command: str) -> None:
    admin.done("topic", "create", "news")
    ran = _in_shell(admin, f"admin {command} > /dev/full")
    assert ran.code == ExitCode.FAILED
    (line,) = ran.err.splitlines()
    assert line.startswith(f"error: {' '.join(command.split()[:2])} failed on standard output: No space left on device")


@pytest.mark.parametrize("command", ["topic list", "topic create weather"])
def test_closed_standard_output_is_told_before_anything_is_done(admin: Admin, command: str) -> None:
    admin.done("topic", "create", "news")
    ran = _in_shell(admin, f"admin {command} >&-")
    assert (ran.code, ran.err) == (
        ExitCode.FAILED,
        "error: standard output is closed: the result could not be written, so nothing was done\n",
    )
    assert admin.count("persistence") == 1


def test_help_that_cannot_be_written_is_one_line_that_names_the_program(admin: Admin) -> None:
    ran = _in_shell(admin, "admin --help > /dev/full")
    assert (ran.code, len(ran.err.splitlines())) == (ExitCode.FAILED, 1)
    assert ran.err.startswith("error: hedwig-admin failed on standard output: No space left on device")


@pytest.mark.parametrize(
    "command",
    ["publish news", "topic create -f -", "subscription create -f -", "console", "console -c 'publish news'"],
)
def test_closed_standard_input_is_one_line_where_it_would_be_read(admin: Admin, command: str) -> None:
    ran = _in_shell(admin, f"admin {command} <&-")
    assert (ran.code, ran.out, ran.err) == (
        ExitCode.USAGE,
        "",
        "error: standard input is closed: nothing could be read, and nothing was done\n",
    )
    assert not Path(admin.url.removeprefix("sqlite://")).exists()


def test_closed_standard_input_matters_to_nobody_who_does_not_read_it(admin: Admin) -> None:
    assert _in_shell(admin, "admin console -c 'topic create news' <&-").code == 0
    assert _in_shell(admin, "admin topic list <&-").out == "TOPIC\nnews\n"


def test_closed_standard_input_answers_no_question(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    ran = _in_shell(admin, "admin topic delete news <&-")
    assert (ran.code, ran.err.splitlines()[-1].endswith("give --yes")) == (ExitCode.USAGE, True)
    assert admin.count("persistence") == 1
