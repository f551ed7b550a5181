"""Lines on standard error that say how far work is; on a terminal, temporary lines replace each other.

`operations.progress` draws its bars with rich. Spark jobs do not have rich, and rich raises an error if the terminal is
gone, where a benchmark must go on. So these two write the lines below.
"""

import os
import sys
from contextlib import suppress
from typing import Final

import click

__all__ = ["LINE_EVERY_S", "ProgressLines"]

LINE_EVERY_S: Final = 5.0
"""The pause between two lines of progress in a log."""

_ERASE: Final = "\r\x1b[2K"
_ERASE_ABOVE: Final = "\x1b[A\x1b[2K"


class ProgressLines:
    """Writes lines. It ignores that the terminal is gone, as after its connection was lost."""

    def __init__(self) -> None:
        self.is_terminal: Final = sys.stderr.isatty()
        self._held: str | None = None

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self._replace(f"{line}\n")

    def say_for_now(self, line: str) -> None:
        """Write a line that stands until the next one, or until `erase`; in a log it stays."""
        if not self.is_terminal:
            self.say(line)
            return
        self._held = self._held or ""  # Other programs may have left the cursor amid a line.
        self._replace(line)
        self._held = line

    def erase(self) -> None:
        """Take a temporary line off the terminal."""
        self._replace("")

    def _replace(self, text: str) -> None:
        """Write `text` instead of the temporary line, which may have wrapped."""
        if self._held is not None:
            columns = _columns()
            above = (len(self._held) - 1) // columns if self._held and columns else 0
            text = f"{_ERASE}{_ERASE_ABOVE * above}{text}"
        self._held = None
        with suppress(OSError):
            click.echo(text, err=True, nl=False)


def _columns() -> int:
    """Return the width of the terminal that standard error goes to; 0 if it is not known."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0
