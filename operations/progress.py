"""The progress of long work: a bar on a terminal, else a line on standard error every few seconds."""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from hedwig.clock import Clock, SystemClock
from hedwig.human_units import duration_text, elapsed_text
from hedwig.operations.progress_lines import LINE_EVERY_S

__all__ = [
    "BarProgress",
    "LineProgress",
    "LoadProgress",
    "SilentProgress",
    "listing_progress",
    "load_progress",
    "working",
]


class LoadProgress(ABC):
    """Shows how many things, called `noun`, were done, how fast, and how long the rest will take.

    `input_bytes` is the size of the input, None if it cannot be known. The remaining time follows from the share of it
    that was read. The part that a resumed load skips counts neither as done nor as still to do.
    """

    def __init__(self, title: str, input_bytes: int | None, clock: Clock, noun: str) -> None:
        self.title = title
        self._noun = noun
        self.rows = 0
        self._input_bytes = input_bytes
        self._skipped_bytes = 0
        self._read_bytes = 0
        self._clock = clock
        self._began = clock.monotonic()
        self._ended: float | None = None

    def begin(self, skipped_bytes: int) -> None:
        """Start the clock, after the part that a resumed load skips."""
        self._skipped_bytes = self._read_bytes = skipped_bytes
        self._began = self._clock.monotonic()

    def advance(self, rows: int, read_bytes: int) -> None:
        """Count `rows` more as done. `read_bytes` of the input have been read in all."""
        self.rows += rows
        self._read_bytes = read_bytes
        self.show()

    @property
    def seconds(self) -> float:
        """Return the seconds from `begin` to `stop`, or up to now."""
        return (self._clock.monotonic() if self._ended is None else self._ended) - self._began

    @property
    def rows_per_second(self) -> float:
        """Return the rate of this run."""
        return self.rows / max(self.seconds, 1e-9)

    @property
    def percent(self) -> float | None:
        """Return the share of the input that was read; None if its size is not known."""
        return 100 * self._read_bytes / self._input_bytes if self._input_bytes else None

    @property
    def text(self) -> str:
        """Return number, rate and remaining time in words."""
        words = [f"{self.rows:,} {self._noun}", f"{self.rows_per_second:,.0f} {self._noun}/s"]
        fresh_bytes = self._read_bytes - self._skipped_bytes
        if self._input_bytes and fresh_bytes > 0:
            left_s = self.seconds * (self._input_bytes - self._read_bytes) / fresh_bytes
            words.append(f"about {duration_text(left_s)} left")
        return ", ".join(words)

    @abstractmethod
    def show(self) -> None:
        """Update the display."""

    @abstractmethod
    def say(self, line: str) -> None:
        """Write a line next to the progress."""

    def stop(self) -> None:
        """Take the progress off the screen, and stop the clock. May be called twice."""
        if self._ended is None:
            self._ended = self._clock.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class BarProgress(LoadProgress):
    """A bar that moves, for a terminal."""

    def __init__(self, title: str, input_bytes: int | None, clock: Clock, noun: str) -> None:
        super().__init__(title, input_bytes, clock, noun)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}", markup=False))
        # Data goes to standard output unchanged, and never to the terminal of standard error.
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        total = None if input_bytes is None else 100.0
        self._task = self._bar.add_task(_plain(title), total=total, text="")

    def show(self) -> None:
        self._bar.update(self._task, completed=self.percent or 0, text=self.text)

    def say(self, line: str) -> None:
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        super().stop()
        self._bar.stop()

    def __enter__(self) -> Self:
        self._bar.start()
        return self


class LineProgress(LoadProgress):
    """A line every few seconds, for logs."""

    def __init__(self, title: str, input_bytes: int | None, clock: Clock, noun: str) -> None:
        super().__init__(title, input_bytes, clock, noun)
        self._last = clock.monotonic()

    def show(self) -> None:
        now = self._clock.monotonic()
        if now - self._last >= LINE_EVERY_S:
            self._last = now
            percent = "" if self.percent is None else f" {self.percent:.0f} %,"
            self.say(f"{self.title}:{percent} {self.text}")

    def say(self, line: str) -> None:
        click.echo(line, err=True)


class SilentProgress(LoadProgress):
    """Shows nothing: no user is looking."""

    def show(self) -> None:
        return

    def say(self, line: str) -> None:
        click.echo(line, err=True)


def load_progress(
    title: str, input_bytes: int | None, clock: Clock | None = None, *, noun: str = "rows", is_shared: bool = False
) -> LoadProgress:
    """Return the kind of progress that suits standard error. `is_shared`: others write to that terminal meanwhile."""
    kind = BarProgress if sys.stderr.isatty() and not is_shared else LineProgress
    return kind(title, input_bytes, clock or SystemClock(), noun)


def listing_progress(noun: str, clock: Clock | None = None) -> LoadProgress:
    """Return the progress of a listing that a user waits for because it goes to a file or a program.

    A listing on a terminal shows its own progress. If standard error is no terminal, no user is looking.
    """
    kind = BarProgress if sys.stderr.isatty() and not sys.stdout.isatty() else SilentProgress
    return kind("listing", None, clock or SystemClock(), noun)


@asynccontextmanager
async def working(title: str, clock: Clock | None = None) -> AsyncIterator[None]:
    """Show that work of unknown length is going on: a spinner on a terminal, else a line every now and then."""
    if sys.stderr.isatty():
        with Console(stderr=True).status(_plain(title)):
            yield
        return
    saying = asyncio.create_task(_say_now_and_then(title, clock or SystemClock()))
    try:
        yield
    finally:
        saying.cancel()
        await asyncio.wait([saying])


async def _say_now_and_then(title: str, clock: Clock) -> None:
    began = clock.monotonic()
    while True:
        await clock.sleep(LINE_EVERY_S)
        click.echo(f"{title}: {elapsed_text(clock.monotonic() - began)} so far", err=True)


def _plain(text: str) -> str:
    """Return `text` as rich markup that shows it unchanged."""
    return text.replace("[", "\\[")
