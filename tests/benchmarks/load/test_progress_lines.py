"""Prove that transient lines replace each other on a terminal, and are ordinary lines elsewhere."""

import io
import sys

import pytest

from hedwig.benchmarks.runs.progress_lines import ProgressLines


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Gone(_Terminal):
    def write(self, text: str, /) -> int:
        raise OSError(5, "Input/output error")


def _said(stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys, "stderr", stderr)
    lines = ProgressLines()
    lines.say("begun")
    lines.say_for_now("a half")
    lines.say_for_now("two thirds of all that there is")
    lines.say("done")
    lines.say("over")
    return stderr.getvalue()


def test_on_a_terminal_they_replace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    erase = "\r\x1b[2K"
    said = _said(_Terminal(), monkeypatch)
    assert said == f"begun\na half{erase}two thirds of all t{erase}done\nover\n"


def test_elsewhere_they_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    said = _said(io.StringIO(), monkeypatch)
    assert said == "begun\na half\ntwo thirds of all that there is\ndone\nover\n"


def test_a_terminal_that_is_gone_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _said(_Gone(), monkeypatch) == ""
