"""How far a job has come, for the person who waits: rows, rate and time left, from what Spark reports of its stages.

Spark counts what a stage reads while the stage runs. It counts what a stage writes only for files, and only when a task
ends. Before that, Spark SQL knows how many rows were handed to the writers of files. For a stage that writes to a
store, Spark knows only what its tasks were given, which says nothing about the store. There only ended tasks count.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from hedwig.clock import Clock, SystemClock
from hedwig.human_units import duration_text, elapsed_text
from hedwig.operations.progress_lines import LINE_EVERY_S, ProgressLines
from hedwig.pipeline.errors import CONNECTION_ERRORS

__all__ = ["progress"]

_LOOK_EVERY_S: Final = 1.0
_WRITING: Final = "WriteFiles"
_MADE: Final = "number of output rows"
"""Spark SQL's names for the step that writes files, and for the count of rows that a step has made."""
_WAITING_S: Final = 15.0
"""How long tasks may be without an executor before the line says so."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """What the running stages have done: rows (0 if not known), ended tasks, all tasks, and the seconds so far.

    `waits`: no executor has worked on them for `_WAITING_S`.
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
    """Show on standard error how far the queries inside the block have come.

    On a terminal one line is rewritten every second, else a new line is written every 5 s.

    Args: rows - how many rows there are, if known; writes - the rows go to a store; copies - tables go into files, some
        side by side: then `rows` is an estimate, and the line counts the rows made for all of these files.
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
        self._lines = ProgressLines()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"progress of {title}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._lines.erase()

    def _watch(self) -> None:
        every_s = _LOOK_EVERY_S if self._lines.is_terminal else LINE_EVERY_S
        while not self._over.wait(every_s):
            try:
                sight = self._look()
            except CONNECTION_ERRORS:
                return  # The session is being stopped, or its JVM has ended, which the job reports.
            self._lines.say_for_now(f"{self._title}: {self._words(sight)}")

    def _look(self) -> _Sight | None:
        java = self._spark.sparkContext._jsc
        if java is None:
            return None
        store = java.sc().statusStore()
        stages = store.activeStages()
        active = [stages.apply(index) for index in range(stages.size())]
        waits = self._waits(active)
        running = active if waits else [stage for stage in active if stage.numCompleteTasks() or stage.numActiveTasks()]
        if self._files is not None:
            self._files.look(store, running)
        if not running:
            return None  # Spark is planning, or the driver itself is working.
        done, tasks = sum(s.numCompleteTasks() for s in running), sum(s.numTasks() for s in running)
        if self._files is not None:
            began = self._files.began_at or min((at for at in map(_began_at, running) if at), default=None)
            # Rows in files are counted only when their task ends, and a task may take minutes.
            rows_made = max(self._files.rows, self._handed_on.rows())
            return _Sight(rows_made, done, tasks, self._since(began), waits)
        rows = [self._rows_of(stage) for stage in running]
        most = max(range(len(running)), key=rows.__getitem__)
        # Stages before this one ran at another rate.
        return _Sight(rows[most], done, tasks, self._since(_began_at(running[most])), waits)

    def _waits(self, stages: Sequence[Any]) -> bool:
        """Say whether there are tasks, and no executor has worked on any for `_WAITING_S`."""
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
        """Return how many rows a stage has read, written or handed on, whichever is most; 0 if it writes to a store."""
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
        # While tables are copied, the tasks of some tables are not counted yet.
        share = 0.0 if self._files else sight.done / sight.tasks
        if self._rows and 0 < sight.rows <= self._rows:
            share = max(share, sight.rows / self._rows)
        if 0 < share < 1 and elapsed_s:
            words.append(f"about {duration_text(elapsed_s * (1 - share) / share)} left")
        else:
            words.append(f"{elapsed_text(elapsed_s)} so far")
        return ", ".join(words)


class _HandedOn:
    """How many rows queries have handed to the writers of files, as Spark SQL counts them for its web page.

    The count arrives with each heartbeat of a task, also for sources whose rows no stage counts as read.
    """

    def __init__(self, spark: SparkSession, since: float) -> None:
        """Prepare to count queries that begin from `since` on (wall clock)."""
        self._spark = spark
        self._since_ms = 1000 * since
        self._ended: dict[int, int] = {}

    def rows(self) -> int:
        """Return the sum over all queries; 0 while nothing is known."""
        store = self._spark._jsparkSession.sharedState().statusStore()
        queries = store.executionsList()
        total = 0
        for query in (queries.apply(index) for index in range(queries.size())):
            number = int(query.executionId())
            if number in self._ended:
                total += self._ended[number]
                continue
            if query.submissionTime() < self._since_ms:
                self._ended[number] = 0  # Do not ask for it again: each request to Spark is a round trip.
                continue
            # Spark may have dropped the query from its store.
            with suppress(Py4JError):
                rows = self._of(store, number)
                total += rows
                if query.completionTime().isDefined():
                    self._ended[number] = rows
        return total

    @staticmethod
    def _of(store: Any, number: int) -> int:
        """Return how many rows the last step before the files has made; 0 for a query that writes no files."""
        nodes = store.planGraph(number).allNodes()
        steps = [nodes.apply(index) for index in range(nodes.size())]
        if not any(step.name() == _WRITING for step in steps):
            return 0
        values = store.executionMetrics(number)
        for step in steps:
            metrics = step.metrics()
            for metric in (metrics.apply(index) for index in range(metrics.size())):
                if metric.name() == _MADE and (value := values.get(metric.accumulatorId())).isDefined():
                    return int(value.get().replace(",", ""))
        return 0


class _Files:
    """How many rows stages have written into files, including ended stages, and when the first of them began."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._at_work: set[int] = set()
        self.began_at: float | None = None

    @property
    def rows(self) -> int:
        return sum(self._rows.values())

    def look(self, store: Any, stages: Sequence[Any]) -> None:
        """Record what the running stages have written, and those that were running at the last call and have ended."""
        active = {int(stage.stageId()): stage for stage in stages}
        for number in self._at_work - active.keys():
            # Spark may have dropped the stage from its store.
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
