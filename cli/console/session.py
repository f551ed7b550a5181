"""A session of the console: its commands, its settings, and its open subscriptions."""

import shlex
import sys
import threading
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from typing import Any, Final

import click

from hedwig.cli.console.subscriptions import OpenSubscriptions
from hedwig.cli.program import PROGRAM_NAME, AdminProgram
from hedwig.cli.settings.configuration import Value
from hedwig.cli.settings.settings import Settings
from hedwig.exit_codes import ExitCode

__all__ = ["ConsoleSession", "current_session", "run_admin_command", "split_line"]

_FREE_TEXT: Final = ("pub", "pubsub")
"""The commands of the original whose words need no quotes, whatever characters they have."""
_REDO: Final = "redo"


class ConsoleSession:
    """Runs lines. `settings` are those of the console's start.

    `commands` are all commands of hedwig-admin; `added` are the commands that the console adds.
    """

    def __init__(
        self,
        settings: Settings,
        commands: MutableMapping[str, click.Command],
        added: Mapping[str, click.Command],
    ) -> None:
        self._settings = settings
        self.flags: dict[str, Value] = dict(settings.flags)
        """The settings of every line that does not override them."""
        self.lines: list[str] = []
        """The lines that the user typed, oldest first, without those that only repeat others."""
        self.is_over = False
        self.turn = threading.Lock()
        """The lock of the writer: a command holds it while it runs, a subscription for each message."""
        self.subscriptions = OpenSubscriptions(self.say)
        self.program = _ConsoleProgram(
            self,
            PROGRAM_NAME,
            example="help pub",
            commands=ChainMap(dict(added), commands),
            help="The commands of hedwig-admin, and those of the original's console: type one, or help COMMAND.",
        )
        self.admin = AdminProgram(PROGRAM_NAME, example="topic list", commands=commands)
        """The commands of hedwig-admin, also those whose name means another command in the console."""

    def settings(self) -> Settings:
        """Return the settings for one line."""
        return replace(self._settings, flags=dict(self.flags), command="", _saved=None)

    def execute(self, line: str) -> int:
        """Run a line that the user typed, and keep it; return its exit code."""
        with self.turn:
            code = self.run(line)
        words = [word for word in line.split()[:2] if word != PROGRAM_NAME]
        if words and words[0] != _REDO:  # A redo only repeats another line.
            self.lines.append(line)
        return code

    def run(self, line: str) -> int:
        """Run a line, and return its exit code. Errors go to standard error."""
        try:
            words = split_line(line)
        except ValueError as exc:
            click.echo(f"error: {exc}: {line.strip()!r}; quote words that have blanks or quotes", err=True)
            return ExitCode.USAGE
        return self.run_words(words) if words else ExitCode.DONE

    def run_words(self, words: list[str], settings: Settings | None = None) -> int:
        """Run a command given as words, with `settings` or those of the session; return its exit code."""
        return self.program.run_line(words, settings or self.settings())

    def say(self, line: str) -> None:
        """Write a line, from any thread, once no command writes."""
        with self.turn:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    def close(self) -> None:
        """Close all subscriptions that are open here. They continue to exist."""
        self.subscriptions.close()


class _ConsoleProgram(AdminProgram):
    """The root of all commands of a session."""

    def __init__(self, session: ConsoleSession, name: str, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.session = session


def current_session() -> ConsoleSession:
    """Return the session whose command runs."""
    program = click.get_current_context().find_root().command
    assert isinstance(program, _ConsoleProgram), "only sessions run commands of the console"
    return program.session


def run_admin_command(settings: Settings, *words: str) -> None:
    """Run a command of hedwig-admin in place of the current one, with the settings that this one got."""
    click.get_current_context().exit(current_session().admin.run_line(words, settings))


def split_line(line: str) -> list[str]:
    """Return the words of a line; none for a comment. Raises ValueError if a quote is not closed."""
    if line.lstrip().startswith("#"):
        return []
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
        if words[0] not in _FREE_TEXT:
            raise
    # So the user can paste commands that help and error messages name.
    return words[1:] if words[:1] == [PROGRAM_NAME] else words
