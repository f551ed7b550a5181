"""How the programs run their commands: each failure becomes one line on standard error and an exit code."""

import errno
import io
import os
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import click

from hedwig.exit_codes import ExitCode

__all__ = ["Program", "has_no_room"]

_PLAIN: Final = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
}
"""Phrases of click, and their plain replacements."""
_METAVAR: Final = re.compile(r"(?:(?<=value for )|(?<=argument ))'\[?([A-Z_]+)(?:\]|\.\.\.|\]\.\.\.)'")
"""An argument as click writes it in a usage line. Error lines show only its name."""


class _PipeClosedError(Exception):
    """The reader of standard output closed it, which is no error. (click turns EPIPE into an exit code of its own.)"""


class Program(click.Group, ABC):
    """The root of the commands of a program.

    `run` receives an object for the commands. click passes it to them, and `run` passes it to the methods that describe
    what ended a command.
    """

    @abstractmethod
    def line_about(self, error: Exception, obj: Any) -> tuple[str, int]:
        """Return the line about an error, and the exit code. A program adds what it knows about its own errors."""

    def line_about_interrupt(self, error: BaseException, obj: Any) -> tuple[str, int]:
        """Return the line about Ctrl-C, and the exit code."""
        del error, obj
        return "interrupted", ExitCode.INTERRUPTED

    @abstractmethod
    def is_debugged(self, obj: Any) -> bool:
        """Say whether to show the traceback of the error that ended a command."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as exc:
            raise _PipeClosedError from exc
        return result

    def run(self, call: Callable[[], Any], obj: Any, name: str, *, help_on: Callable[[str], str] | None = None) -> int:
        """Run a command, and return its exit code. A failure is reported in one line on standard error.

        Args:
            call: runs the command, and may raise anything; its result counts if it is an exit code.
            obj: the object for the commands.
            name: the name of the program.
            help_on: returns the words that show help on a command, given its path; for the line about a wrong usage.
        """
        try:
            result = call()
        except click.exceptions.NoArgsIsHelpError as exc:
            exc.show()
            return exc.exit_code
        except click.ClickException as exc:
            _say(_usage_line(exc, name, help_on or (lambda path: " ".join(f"{name} {path} --help".split()))))
            return exc.exit_code
        except (click.Abort, KeyboardInterrupt) as exc:
            # click turns every interrupt into an Abort, with the interrupt as its cause.
            line, code = self.line_about_interrupt(exc.__cause__ or exc, obj)
            _say(line)
            return code
        except _PipeClosedError:
            _forget_stdout()
            return ExitCode.PIPE_CLOSED
        except Exception as exc:
            if has_no_room(exc):
                _forget_stdout()  # Otherwise the interpreter would try the failed write again at its end.
            if self.is_debugged(obj):
                traceback.print_exc()
            line, code = self.line_about(exc, obj)
            _say(f"error: {line}")
            return code
        # With standalone_mode off, click hands back the code of ctx.exit() as if the command had returned it.
        return result if isinstance(result, int) else ExitCode.DONE

    def run_words(
        self, words: Sequence[str], obj: Any, name: str, *, help_on: Callable[[str], str] | None = None
    ) -> int:
        """Run a command given as words, as `run` does."""

        def call() -> Any:
            return click.Group.main(self, list(words), name, standalone_mode=False, obj=obj)

        return self.run(call, obj, name, help_on=help_on)

    @staticmethod
    def check_streams() -> None:
        """Escape characters that the terminal's encoding lacks; end the process if standard output is closed."""
        if sys.stdout is None:
            _say("error: standard output is closed: the result could not be written, so nothing was done")
            sys.exit(ExitCode.FAILED)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")


def has_no_room(error: Exception) -> bool:
    """Say whether the file that receives the result ran out of space."""
    return (
        isinstance(error, OSError)
        and error.filename is None
        and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    )


def _usage_line(error: click.ClickException, name: str, help_on: Callable[[str], str]) -> str:
    """Return the one line about an invalid command line."""
    text = " ".join(error.format_message().split())
    for word, plain in _PLAIN.items():
        text = text.replace(word, plain)
    text = _METAVAR.sub(r"'\1'", text, count=1)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        _, _, path = error.ctx.command_path.partition(" ")
        return f"error: {path or name}: {text.rstrip('.')}; see: {help_on(path)}"
    return f"error: {text}"


def _say(line: str) -> None:
    with suppress(OSError):  # If standard error is closed too, there is nowhere else to report it.
        click.echo(line, err=True)


def _forget_stdout() -> None:
    """Point standard output nowhere, so that the interpreter's last flush does not complain about the closed pipe."""
    with suppress(OSError, ValueError):  # Not a real stream: nothing will be flushed into a pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
