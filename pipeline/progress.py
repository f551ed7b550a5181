"""How far a job has come, for the person who waits: rows, rate and what is left, as Spark tells of its stages.

Spark counts what a stage has read while it is at it, and what it has written only of files, with each task that has
come to its end. Before that, Spark SQL knows what was handed to the writers of files. Of a stage that writes to a store
it is known what its tasks were given, which says nothing of what is in the store: there tasks are told that have come
to their end.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import click
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from hedwig.clock import Clock, SystemClock
from hedwig.human_units import duration_text, elapsed_text
from hedwig.pipeline.errors import CONNECTION_ERRORS

__all__ = ["progress"]

_LOOK_EVERY_S: Final = 1.0
_LINE_EVERY_S: Final = 5.0
_WRITING: Final = "WriteFiles"
_MADE: Final = "number of output rows"
"""What Spark SQL calls the step that writes files, and how many rows a step has made."""
_WAITING_S: Final = 15.0
"""For so long tasks may be without an executor before that is told."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """What the stages at work have done: rows (0 if that is not known), and tasks of how many, in so many seconds.

    `waits`: nothing works on them, and has not for a while.
    """

    rows: int
    done: int
    tasks: int
    elapsed_s: float
    waits: bool = False


@contextmanager
def progress(
    spark: SparkSession, title: str, *, rows: int | None = None, writes: bool = False, copies: bool = False
) -> Iterator[None]:
    """Tell on standard error how far the queries inside have come; `rows` is how many there are, if that is known.

    `writes`: what comes of them goes to a store. `copies`: tables go into files, some of them side by side; then `rows`
    is about how many there are, and told is what was made for the files of all of them.

    On a terminal one line is written anew every second, else there is a line every few seconds.
    """
    watching = _Watching(spark, title, SystemClock(), rows=rows, writes=writes, copies=copies)
    watching.start()
    try:
        yield
    finally:
        watching.stop()


class _Watching:
    def __init__(
        self,
        spark: SparkSession,
        title: str,
        clock: Clock,
        *,
        rows: int | None = None,
        writes: bool = False,
        copies: bool = False,
    ) -> None:
        self._spark = spark
        self._title = title
        self._rows = rows
        self._writes = writes
        self._files = _Files() if copies else None
        self._handed_on = _HandedOn(spark, clock.wall())
        self._idle_since: float | None = None
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
            except CONNECTION_ERRORS:
                return  # The session is being stopped, or its JVM has ended, of which the job tells.
            text = f"{self._title}: {self._words(sight)}"
            click.echo(f"\r\x1b[K{text}" if self._is_terminal else text, nl=not self._is_terminal, err=True)

    def _look(self) -> _Sight | None:
        java = self._spark.sparkContext._jsc
        if java is None:
            return None
        store = java.sc().statusStore()
        stages = store.activeStages()
        found = [stages.apply(index) for index in range(stages.size())]
        waits = self._waits(found)
        running = found if waits else [stage for stage in found if stage.numCompleteTasks() or stage.numActiveTasks()]
        if self._files is not None:
            self._files.look(store, running)
        if not running:
            return None  # Spark plans, or the driver itself is at something.
        done, tasks = sum(s.numCompleteTasks() for s in running), sum(s.numTasks() for s in running)
        if self._files is not None:
            began = self._files.began_at or min((at for at in map(_began_at, running) if at), default=None)
            # What is in files is known of tasks that have ended. A task may take minutes.
            rows_made = max(self._files.rows, self._handed_on.rows())
            return _Sight(rows_made, done, tasks, self._since(began), waits)
        rows = [self._rows_of(stage) for stage in running]
        most = max(range(len(running)), key=rows.__getitem__)
        # Those before it had a pace of their own.
        return _Sight(rows[most], done, tasks, self._since(_began_at(running[most])), waits)

    def _waits(self, stages: Sequence[Any]) -> bool:
        """Say whether there are tasks, and for a while nobody has worked on any."""
        if not stages or any(stage.numActiveTasks() for stage in stages):
            self._idle_since = None
            return False
        now = self._clock.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since >= _WAITING_S

    def _since(self, began_at: float | None) -> float:
        return 0.0 if began_at is None else max(0.0, self._clock.wall() - began_at)

    def _rows_of(self, stage: Any) -> int:
        """Return how many rows a stage has done: it reads, writes or hands on, whichever is most."""
        read, handed_on = stage.shuffleReadRecords(), stage.shuffleWriteRecords()
        if self._writes and read and not handed_on:
            return 0
        return int(max(stage.outputRecords(), handed_on, read, stage.inputRecords()))

    def _words(self, sight: _Sight | None) -> str:
        if sight is None:
            return f"{elapsed_text(self._clock.monotonic() - self._began)} so far"
        if sight.waits:
            waited_s = self._clock.monotonic() - (self._idle_since or self._began)
            return f"waiting for executors of {self._spark.sparkContext.master}, {elapsed_text(waited_s)} so far"
        elapsed_s = sight.elapsed_s
        words = []
        if sight.rows:
            about = "about " if self._files else ""
            of = f" of {about}{self._rows:,}" if self._rows is not None and sight.rows <= self._rows else ""
            words.append(f"{sight.rows:,}{of} rows{' read' if self._writes else ''}")
            if elapsed_s:
                words.append(f"{sight.rows / elapsed_s:,.0f} rows/s")
        words.append(f"{sight.done} of {sight.tasks} tasks")
        # While tables are copied, the tasks of some have not begun to be counted.
        share = 0.0 if self._files else sight.done / sight.tasks
        if self._rows and 0 < sight.rows <= self._rows:
            share = max(share, sight.rows / self._rows)
        if 0 < share < 1 and elapsed_s:
            words.append(f"about {duration_text(elapsed_s * (1 - share) / share)} left")
        else:
            words.append(f"{elapsed_text(elapsed_s)} so far")
        return ", ".join(words)


class _HandedOn:
    """How many rows queries have handed to the writers of files, as Spark SQL counts them for its page.

    That comes with each heartbeat of a task, also from sources of which no stage counts what is read.
    """

    def __init__(self, spark: SparkSession, since: float) -> None:
        """Prepare to count queries that begin from `since` on (wall clock)."""
        self._spark = spark
        self._since_ms = 1000 * since
        self._ended: dict[int, int] = {}

    def rows(self) -> int:
        """Return the number, of all queries together; 0 as long as nothing is known."""
        store = self._spark._jsparkSession.sharedState().statusStore()
        queries = store.executionsList()
        found = 0
        for query in (queries.apply(index) for index in range(queries.size())):
            number = int(query.executionId())
            if number in self._ended:
                found += self._ended[number]
                continue
            if query.submissionTime() < self._since_ms:
                self._ended[number] = 0  # Not asked for again: each question to Spark is a round trip.
                continue
            # Spark may have forgotten it.
            with suppress(Py4JError):
                rows = self._of(store, number)
                found += rows
                if query.completionTime().isDefined():
                    self._ended[number] = rows
        return found

    @staticmethod
    def _of(store: Any, number: int) -> int:
        """Return how many rows the last step before the files has made; 0 of a query that writes none."""
        nodes = store.planGraph(number).allNodes()
        steps = [nodes.apply(index) for index in range(nodes.size())]
        if not any(step.name() == _WRITING for step in steps):
            return 0
        told = store.executionMetrics(number)
        for step in steps:
            metrics = step.metrics()
            for metric in (metrics.apply(index) for index in range(metrics.size())):
                if metric.name() == _MADE and (value := told.get(metric.accumulatorId())).isDefined():
                    return int(value.get().replace(",", ""))
        return 0


class _Files:
    """What stages have written into files, also those that have ended since; and when the first of them began."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._at_work: set[int] = set()
        self.began_at: float | None = None

    @property
    def rows(self) -> int:
        return sum(self._rows.values())

    def look(self, store: Any, stages: Sequence[Any]) -> None:
        """Take into account what stages at work have done by now, and those that were when this was called last."""
        active = {int(stage.stageId()): stage for stage in stages}
        for number in self._at_work - active.keys():
            # Spark may have forgotten it.
            with suppress(Py4JError):
                self._note(number, store.lastStageAttempt(number))
        for number, stage in active.items():
            self._note(number, stage)
        self._at_work = set(active)

    def _note(self, number: int, stage: Any) -> None:
        rows = int(stage.outputRecords())
        if rows:
            self._rows[number] = rows
            began_at = _began_at(stage)
            if began_at is not None:
                self.began_at = began_at if self.began_at is None else min(self.began_at, began_at)


def _began_at(stage: Any) -> float | None:
    """Return when the first task of a stage began, by the wall clock; None if none has."""
    began = stage.firstTaskLaunchedTime()
    return began.get().getTime() / 1000 if began.isDefined() else None
