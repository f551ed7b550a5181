"""Prove --watch: it redraws a terminal, else appends lines, until Ctrl-C, also while servers are away."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import click
import pytest
import yaml

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import DEADLINE_S, Admin
from tests.cli.support.command_tree import EVERY_COMMAND, leaves
from tests.cli.support.terminal import Terminal


@pytest.mark.parametrize("path", leaves(EVERY_COMMAND), ids=" ".join)
def test_whatever_shows_something_can_be_watched(path: tuple[str, ...]) -> None:
    options = {option for parameter in EVERY_COMMAND[path].params for option in parameter.opts}
    assert ("--watch" in options) == (
        path[-1] in {"show", "stats", "status", "describe", "owner", "load", "lag", "count"}
    )


def _line(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode()


@contextmanager
def _watched(admin: Admin, *arguments: str, stdout: int = subprocess.PIPE) -> "Iterator[subprocess.Popen[bytes]]":
    process = admin.start(*arguments, stdout=stdout, COLUMNS="80", LINES="12")
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err.split()) == (ExitCode.INTERRUPTED, [b"interrupted"])


def test_a_pipe_gets_a_line_for_each_look_until_ctrl_c(admin: Admin) -> None:
    admin.done("subscription", "create", "news", "reader")
    with _watched(admin, "topic", "show", "--watch", "0.1", "news", "--columns", "topic,subscription_count") as process:
        assert _line(process.stdout) == '{"topic": "news", "subscription_count": 1}\n'
        admin.done("subscription", "create", "news", "other")
        while (line := _line(process.stdout)) == '{"topic": "news", "subscription_count": 1}\n':
            pass
        assert line == '{"topic": "news", "subscription_count": 2}\n'
        _interrupt(process)


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("csv", ["topic", "news", "news"]),
        ("yaml", ["---", "topic: news", "---", "topic: news"]),
        ("table", ["topic  news", "topic  news"]),
    ],
)
def test_a_format_that_was_asked_for_stays(admin: Admin, output: str, lines: list[str]) -> None:
    admin.done("topic", "create", "news")
    with _watched(admin, "topic", "show", "news", "--columns", "topic", "-o", output, "--watch", "0.1") as process:
        shown = [_line(process.stdout).rstrip("\n") for _ in lines]
        _interrupt(process)
    assert shown == lines
    if output == "yaml":
        assert list(yaml.safe_load_all("\n".join(shown))) == [{"topic": "news"}] * 2


def _read_until(screen: int, condition: Callable[[str], bool]) -> str:
    """Read what a terminal receives until it fulfils a condition."""
    shown = b""
    end = time.monotonic() + DEADLINE_S
    while not condition(shown.decode(errors="replace")):
        assert time.monotonic() < end, shown
        if select.select([screen], [], [], 1)[0]:
            with contextlib.suppress(OSError):
                shown += os.read(screen, 4096)
    return shown.decode()


def test_a_terminal_is_drawn_anew_within_its_size(admin: Admin) -> None:
    for number in range(30):
        admin.done("subscription", "create", "news", f"a-subscriber-with-a-rather-long-name-that-says-little-{number}")
    ours, theirs = pty.openpty()
    shown = "topic,version,owner,ledger_count,ledgers,subscription_count,subscriptions"
    arguments = ("topic", "show", "news", "--subscriptions", "30", "--columns", shown, "--watch", "0.1")
    with os.fdopen(ours, "rb", buffering=0), _watched(admin, *arguments, stdout=theirs) as process:
        os.close(theirs)
        first = _read_until(ours, lambda text: text.count("\x1b[J") >= 1).replace("\r\n", "\n")
        admin.done("subscription", "create", "news", "one-more")
        _read_until(ours, lambda text: re.search(r"subscription_count\S* +31\b", text) is not None)
        _interrupt(process)
    assert first.startswith("\x1b[H")
    drawn = re.sub(r"\x1b\[[0-9]*[a-zA-Z]", "", first.partition("\x1b[J")[0]).splitlines()
    assert re.fullmatch(r"every 0\.1 s: hedwig-admin topic show, \d\d:\d\d:\d\d", drawn[0])
    assert len(drawn) == 11
    assert max(map(len, drawn)) == 80


def test_a_terminal_of_80_columns_shows_what_changes_until_ctrl_c(admin: Admin) -> None:
    admin.done("subscription", "create", "news", "a-subscriber-" + "x" * 100)
    with Terminal(admin, "topic", "show", "news", "--watch", "0.2") as terminal:
        screen = terminal.wait_for_line("subscription_count  1")
        assert screen[0].startswith("every 0.2 s: hedwig-admin topic show, ")
        assert any(line.endswith("…") for line in screen)
        admin.done("subscription", "create", "news", "other")
        terminal.wait_for_line("subscription_count  2")
        terminal.press("C-c")
        terminal.wait_for_line("ended 130")


def test_a_store_that_goes_away_is_waited_for_and_what_is_gone_ends_it(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    program = ("topic", "show", "news", "--watch", "0.1", "--timeout", "0.2", "--columns", "topic")
    with _watched(admin, *program) as process:
        assert _line(process.stdout) == '{"topic": "news"}\n'
        with admin.exclusively_locked():
            assert _line(process.stderr).startswith("error: topic show failed")
        while _line(process.stdout) != '{"topic": "news"}\n':
            pass
        admin.done("topic", "delete", "news", "--yes")
        assert process.wait(DEADLINE_S) == ExitCode.NOT_FOUND


def test_the_first_look_fails_like_any_command(admin: Admin) -> None:
    admin.done("metadata", "format")
    assert admin.run("topic", "show", "nobody", "--watch").code == ExitCode.NOT_FOUND
    ran = admin.run("metadata", "stats", "--watch", "--metadata", "zookeeper://127.0.0.1:1/x", "--timeout", "0.5")
    assert ran.code == ExitCode.UNAVAILABLE


@pytest.mark.parametrize("arguments", [("--watch", "0"), ("--watch=soon",), ("--watch", "-1")])
def test_seconds_that_make_no_sense_are_refused(admin: Admin, arguments: tuple[str, ...]) -> None:
    admin.done("topic", "create", "news")
    ran = admin.run("topic", "show", "news", *arguments)
    assert (ran.code, "--watch" in ran.err) == (ExitCode.USAGE, True)


def test_a_word_behind_watch_that_is_no_number_is_an_argument(admin: Admin) -> None:
    admin.done("metadata", "format")
    assert "'nobody'" in admin.run("topic", "show", "--watch", "nobody").err
    with pytest.raises(click.exceptions.MissingParameter):
        EVERY_COMMAND["topic", "show"].main(["--watch", "5"], standalone_mode=False)
