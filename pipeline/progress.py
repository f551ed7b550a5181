"""How far a job has come, for the person who waits: rows, rate and what is left, as Spark tells of its stages."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

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
    """What the stages at work have done: rows, and tasks of how many."""

    rows: int
    done: int
    tasks: int


@contextmanager
def progress(spark: SparkSession, title: str, *, rows: int | None = None) -> Iterator[None]:
    """Tell on standard error how far the queries inside have come; `rows` is how many there are, if that is known.

    On a terminal one line is written anew every second, else there is a line every few seconds.
    """
    watching = _Watching(spark, title, rows, SystemClock())
    watching.start()
    try:
        yield
    finally:
        watching.stop()


class _Watching:
    def __init__(self, spark: SparkSession, title: str, rows: int | None, clock: Clock) -> None:
        self._spark = spark
        self._title = title
        self._rows = rows
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
            if sight is not None:
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
            return None
        # A stage reads, writes or hands on; what it does most of is what it is there for.
        rows = max(
            max(s.outputRecords(), s.shuffleWriteRecords(), s.shuffleReadRecords(), s.inputRecords()) for s in running
        )
        return _Sight(rows, sum(s.numCompleteTasks() for s in running), sum(s.numTasks() for s in running))

    def _words(self, sight: _Sight) -> str:
        elapsed_s = self._clock.monotonic() - self._began
        words = []
        if sight.rows:
            of = f" of {self._rows:,}" if self._rows is not None and sight.rows <= self._rows else ""
            words.append(f"{sight.rows:,}{of} rows, {sight.rows / elapsed_s:,.0f} rows/s")
        words.append(f"{sight.done} of {sight.tasks} tasks")
        share = sight.done / sight.tasks
        if self._rows and 0 < sight.rows <= self._rows:
            share = max(share, sight.rows / self._rows)
        if 0 < share < 1:
            words.append(f"about {duration_text(elapsed_s * (1 - share) / share)} left")
        else:
            words.append(f"{duration_text(elapsed_s)} so far")
        return ", ".join(words)
