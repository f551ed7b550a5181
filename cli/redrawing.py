"""Repeats a result: drawn anew on a terminal, one result below the other elsewhere."""

import io
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any, Final, NoReturn

import click

from hedwig.cli.settings.settings import Settings
from hedwig.errors import exit_code_of
from hedwig.exit_codes import ExitCode

__all__ = ["WATCHABLE", "watch_option", "watched_every_s", "watching", "with_watch_value"]

WATCHABLE: Final = frozenset({"show", "stats", "status", "describe", "owner", "load", "lag", "count"})
"""The verbs whose commands can be watched."""

_SECONDS: Final = 2.0
_KEY: Final = "hedwig.cli.redrawing.seconds"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_PASSING: Final = frozenset({ExitCode.UNAVAILABLE, ExitCode.OUTCOME_UNKNOWN})


def watch_option() -> click.Option:
    """Return the option --watch, which repeats a command."""

    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        ctx.meta[_KEY] = value

    return click.Option(
        ["--watch"],
        type=click.FloatRange(min=0.1),
        metavar="[SECONDS]",
        help="Repeat every SECONDS, until Ctrl-C. A terminal is redrawn; elsewhere the results are NDJSON, unless -o "
        f"is given.  [without a number: {_SECONDS:g}]",
        expose_value=False,
        callback=keep,
    )


def watched_every_s(ctx: click.Context) -> float | None:
    """Return the seconds between two looks; None if the command is not watched."""
    seconds: float | None = ctx.meta.get(_KEY)
    return seconds


def with_watch_value(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a default number after each --watch that is not followed by a number of seconds."""
    given = list(arguments)
    for index, argument in enumerate(given):
        if argument == "--":
            break
        if argument == "--watch" and not _is_number(given[index + 1 : index + 2]):
            given[index] = f"--watch={_SECONDS:g}"
    return given


def watching(
    settings: Settings, every_s: float, look: Callable[[], Any], line_about: Callable[[Exception], str]
) -> NoReturn:
    """Have `look` write its result again and again, until Ctrl-C or an error ends it.

    If a server goes away after the first look, the command waits for it, and shows `line_about` in place of the result.
    Any error of the first look ends the command, and so does any other error later.
    """
    chosen = settings.chosen("output")
    is_screen = sys.stdout.isatty()
    if chosen.source == "default" and not is_screen:
        settings.flags["output"] = "ndjson"
    is_drawn = is_screen and chosen.value in ("table", "json", "yaml")
    is_first = True
    while True:
        try:
            if is_drawn:
                _draw(f"every {every_s:g} s: hedwig-admin {settings.command}", look)
            else:
                _append(settings, look, is_first)
        except Exception as exc:
            if is_first or exit_code_of(exc) not in _PASSING:
                raise
            click.echo(line_about(exc), err=True)
        is_first = False
        time.sleep(every_s)


class _Screen(io.StringIO):
    """Collects what a command writes to a terminal, so that all of it can be shown at once."""

    def isatty(self) -> bool:
        return True


def _draw(title: str, look: Callable[[], Any]) -> None:
    screen = _Screen()
    with redirect_stdout(screen):
        look()
    size = shutil.get_terminal_size()
    lines = [f"{title}, {time.strftime('%H:%M:%S')}"[: size.columns], "", *screen.getvalue().splitlines()]
    # The last line of the terminal stays free for the cursor and for messages on standard error.
    shown = lines[: max(1, size.lines - 1)]
    sys.stdout.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in shown) + _REST_OF_SCREEN)
    sys.stdout.flush()


def _append(settings: Settings, look: Callable[[], Any], is_first: bool) -> None:
    output = settings.chosen("output").value
    if output == "csv" and not is_first:
        settings.no_header = True
    if output == "yaml":
        sys.stdout.write("---\n")
    look()
    sys.stdout.flush()


def _is_number(words: Sequence[str]) -> bool:
    try:
        return bool([float(word) for word in words])
    except ValueError:
        return False
