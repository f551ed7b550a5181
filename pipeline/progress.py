"""How far a job has come, for the person who waits: rows, rate and what is left, as Spark tells of its stages.

Spark counts what a stage has read while it is at it, and what it has written only of files. Of a stage that writes to a
store it is known what its tasks were given, which says nothing of what is in the store: there tasks are told that have
come to their end.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import click
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from hedwig.clock import Clock, SystemClock
from hedwig.human_units import duration_text

__all__ = ["progress"]

_LOOK_EVERY_S: Final = 1.0
_LINE_EVERY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Sight:
    """What the stages at work have done: rows (0 if that is not known), and tasks of how many, in so many seconds."""

    rows: int
    done: int
    tasks: int
    elapsed_s: float


@contextmanager
def progress(spark: SparkSession, title: str, *, rows: int | None = None, writes: bool = False) -> Iterator[None]:
    """Tell on standard error how far the queries inside have come; `rows` is how many there are, if that is known.

    `writes`: what comes of them goes to a store.

    On a terminal one line is written anew every second, else there is a line every few seconds.
    """
    watching = _Watching(spark, title, SystemClock(), rows=rows, writes=writes)
    watching.start()
    try:
        yield
    finally:
        watching.stop()


class _Watching:
    def __init__(self, spark: SparkSession, title: str, clock: Clock, *, rows: int | None, writes: bool) -> None:
        self._spark = spark
        self._title = title
        self._rows = rows
        self._writes = writes
        self._clock = clock
        self._began = clock.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"progress of {title}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        if self._is_terminal:
            click.echo("\r\x1b[K", nl=False, err=True)

    def _watch(self) -> None:
        every_s = _LOOK_EVERY_S if self._is_terminal else _LINE_EVERY_S
        while not self._over.wait(every_s):
            try:
                sight = self._look()
            except Py4JError:
                return  # The session is being stopped.
            text = f"{self._title}: {self._words(sight)}"
            click.echo(f"\r\x1b[K{text}" if self._is_terminal else text, nl=not self._is_terminal, err=True)

    def _look(self) -> _Sight | None:
        java = self._spark.sparkContext._jsc
        if java is None:
            return None
        stages = java.sc().statusStore().activeStages()
        found = [stages.apply(index) for index in range(stages.size())]
        running = [stage for stage in found if stage.numCompleteTasks() or stage.numActiveTasks()]
        if not running:
            return None  # Spark plans, or the driver itself is at something.
        rows = [self._rows_of(stage) for stage in running]
        most = max(range(len(running)), key=rows.__getitem__)
        done, tasks = sum(s.numCompleteTasks() for s in running), sum(s.numTasks() for s in running)
        return _Sight(rows[most], done, tasks, self._elapsed_s(running[most]))

    def _elapsed_s(self, stage: Any) -> float:
        """Return for how long a stage has been at work: those before it had a pace of their own."""
        began = stage.firstTaskLaunchedTime()
        return max(0.0, self._clock.wall() - began.get().getTime() / 1000) if began.isDefined() else 0.0

    def _rows_of(self, stage: Any) -> int:
        """Return how many rows a stage has done: it reads, writes or hands on, whichever is most."""
        read, handed_on = stage.shuffleReadRecords(), stage.shuffleWriteRecords()
        if self._writes and read and not handed_on:
            return 0
        return int(max(stage.outputRecords(), handed_on, read, stage.inputRecords()))

    def _words(self, sight: _Sight | None) -> str:
        if sight is None:
            return f"{duration_text(self._clock.monotonic() - self._began)} so far"
        elapsed_s = sight.elapsed_s
        words = []
        if sight.rows:
            of = f" of {self._rows:,}" if self._rows is not None and sight.rows <= self._rows else ""
            words.append(f"{sight.rows:,}{of} rows{' read' if self._writes else ''}")
            if elapsed_s:
                words.append(f"{sight.rows / elapsed_s:,.0f} rows/s")
        words.append(f"{sight.done} of {sight.tasks} tasks")
        share = sight.done / sight.tasks
        if self._rows and 0 < sight.rows <= self._rows:
            share = max(share, sight.rows / self._rows)
        if 0 < share < 1 and elapsed_s:
            words.append(f"about {duration_text(elapsed_s * (1 - share) / share)} left")
        else:
            words.append(f"{duration_text(elapsed_s)} so far")
        return ", ".join(words)
