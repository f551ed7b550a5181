"""Lines on standard error that say how far a run is; on a terminal, temporary lines replace each other."""

import contextlib
import shutil
import sys

import click

__all__ = ["ProgressLines", "say", "say_below"]

_ERASE = "\r\x1b[2K"


def say(line: str) -> None:
    """Write a line that stays."""
    click.echo(line, err=True)


def say_below(line: str) -> None:
    """Write a line that adds to the one before."""
    say(f"    {line}")


class ProgressLines:
    """Writes lines. It ignores that the terminal is gone, as after its connection was lost."""

    def __init__(self) -> None:
        self._is_held = False

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self._write(f"{line}\n")
        self._is_held = False

    def say_for_now(self, line: str) -> None:
        """Write a line that stands until the next one."""
        if not sys.stderr.isatty():
            self.say(line)
            return
        # A line that wraps cannot be replaced.
        self._write(line[: shutil.get_terminal_size().columns - 1])
        self._is_held = True

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            click.echo(f"{_ERASE}{text}" if self._is_held else text, err=True, nl=False)
