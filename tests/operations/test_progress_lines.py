"""Prove that temporary lines replace each other on a terminal, and are ordinary lines elsewhere."""

import io
import os
import sys
import termios
import tty
from typing import Final

import pytest

from hedwig.operations.progress_lines import ProgressLines

ERASE: Final = "\r\x1b[2K"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Gone(_Terminal):
    def write(self, text: str, /) -> int:
        raise OSError(5, "Input/output error")


def _say(lines: ProgressLines) -> None:
    lines.say("begun")
    lines.say_for_now("a half")
    lines.say_for_now("two thirds of all that there is")
    lines.say("done")
    lines.say("over")
    lines.say_for_now("looking back")
    lines.erase()


def _said(stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    _say(ProgressLines())
    return stderr.getvalue()


def test_on_a_terminal_they_replace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _said(_Terminal(), monkeypatch) == (
        f"begun\n{ERASE}a half{ERASE}two thirds of all that there is{ERASE}done\nover\n{ERASE}looking back{ERASE}"
    )


def test_a_line_that_has_wrapped_is_erased_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.openpty()
    with os.fdopen(reading, "rb", buffering=0) as screen, os.fdopen(writing, "w") as terminal:
        tty.setraw(writing)
        termios.tcsetwinsize(writing, (24, 10))
        monkeypatch.setattr(sys, "stderr", terminal)
        lines = ProgressLines()
        for line in ("ten_______", "eleven_____", "twenty-one___________", "short"):
            lines.say_for_now(line)
        lines.erase()
        above = "\x1b[A\x1b[2K"
        expected = (
            f"{ERASE}ten_______{ERASE}eleven_____{ERASE}{above}twenty-one___________{ERASE}{above * 2}short{ERASE}"
        )
        shown = ""
        while len(shown) < len(expected):
            shown += screen.read(4096).decode()
    assert shown == expected


def test_elsewhere_they_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    said = _said(io.StringIO(), monkeypatch)
    assert said == "begun\na half\ntwo thirds of all that there is\ndone\nover\nlooking back\n"


def test_a_terminal_that_is_gone_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _said(_Gone(), monkeypatch) == ""
