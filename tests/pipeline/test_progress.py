"""Prove what people see on a terminal while a job works, and what a log file gets."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from hedwig.clock import SystemClock
from hedwig.pipeline.progress import _Sight, _Watching, progress
from hedwig.pipeline.snapshots.side_by_side import side_by_side

_WITHIN_S: Final = 60.0


def _until_there(batches: Iterator[pa.RecordBatch], file: str) -> Iterator[pa.RecordBatch]:
    yield from batches
    deadline = time.monotonic() + _WITHIN_S
    while not os.path.exists(file) and time.monotonic() < deadline:  # noqa: PTH110
        time.sleep(0.05)


def _watched(spark: SparkSession, reading: int, sign: Path, words: bytes) -> bytes:
    """Run a query until the terminal shows `words` at `reading`; return all that it has shown until then."""

    def last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _until_there(batches, str(sign))

    frame = spark.range(1_000, numPartitions=2).mapInArrow(last, "id bigint")
    query = threading.Thread(target=lambda: frame.write.format("noop").mode("overwrite").save())
    shown = b""
    with progress(spark, "job: rows", rows=1_000):
        query.start()
        deadline = time.monotonic() + _WITHIN_S
        while words not in shown and time.monotonic() < deadline:
            shown += os.read(reading, 1024)
        sign.touch()
        query.join()
    return shown


def test_a_terminal_has_one_line_that_is_taken_away_at_the_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.openpty()
    with os.fdopen(writing, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        shown = _watched(spark, reading, tmp_path / "sign", b"of 2 tasks, ")
        terminal.write("what comes next")
        terminal.flush()
        while not shown.endswith(b"what comes next"):
            shown += os.read(reading, 4096)
    os.close(reading)
    assert shown.startswith(b"\r\x1b[2Kjob: rows: ")
    assert shown.endswith(b"\r\x1b[2Kwhat comes next")
    assert b"\n" not in shown


def test_a_log_file_gets_lines(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        shown = _watched(spark, reading, tmp_path / "sign", b" of 2 tasks, ")
    os.close(reading)
    assert shown.startswith(b"job: rows: ")
    assert b" of 2 tasks, " in shown
    assert b"\x1b" not in shown


_COUNTS: Final = (
    "inputRecords",
    "outputRecords",
    "shuffleReadRecords",
    "shuffleWriteRecords",
    "stageId",
    "numActiveTasks",
    "numCompleteTasks",
    "numTasks",
)


def _stage(**counts: int) -> Any:
    """A stage as in Spark's status store, as far as the progress reads it. None of its tasks has begun."""
    never = SimpleNamespace(isDefined=lambda: False)
    return SimpleNamespace(
        firstTaskLaunchedTime=lambda: never, **{name: partial(counts.get, name, 0) for name in _COUNTS}
    )


class _Session:
    """A session on a cluster with these stages, as the progress reads it. It stands for all objects on the way."""

    master = "spark://master:7077"

    def __init__(self) -> None:
        self.active: list[Any] = []
        self.ended: dict[int, Any] = {}
        self.sparkContext = self._jsc = self._jsparkSession = self

    def sc(self) -> "_Session":
        return self

    def statusStore(self) -> "_Session":
        return self

    def sharedState(self) -> "_Session":
        return self

    def executionsList(self) -> Any:
        return SimpleNamespace(size=lambda: 0)

    def activeStages(self) -> Any:
        return SimpleNamespace(size=lambda: len(self.active), apply=self.active.__getitem__)

    def lastStageAttempt(self, number: int) -> Any:
        if number not in self.ended:
            raise Py4JError("Spark has forgotten it")
        return self.ended[number]


class _Clock(SystemClock):
    """A clock that tests set."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def _words(watching: _Watching) -> str:
    return watching._words(watching._look())


def test_rows_that_a_store_was_not_given_yet_are_not_told_as_written(spark: SparkSession) -> None:
    to_store, elsewhere = (
        _Watching(spark, "job", SystemClock(), rows=1_000, writes=writes) for writes in (True, False)
    )
    reading, sorting = _stage(inputRecords=500), _stage(shuffleReadRecords=500, shuffleWriteRecords=400)
    writing = _stage(shuffleReadRecords=500)
    assert [to_store._rows_of(stage) for stage in (reading, sorting, writing)] == [500, 500, 0]
    assert [elsewhere._rows_of(stage) for stage in (reading, sorting, writing)] == [500, 500, 500]
    assert to_store._words(_Sight(500, 1, 4, 5.0)) == "500 of 1,000 rows read, 100 rows/s, 1 of 4 tasks, about 5 s left"
    assert to_store._words(_Sight(0, 1, 4, 5.0)) == "1 of 4 tasks, about 15 s left"
    assert elsewhere._words(_Sight(500, 1, 4, 0.0)) == "500 of 1,000 rows, 1 of 4 tasks, 0 s so far"


def test_what_is_done_without_tasks_is_told_too(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.openpty()
    shown = b""
    with os.fdopen(writing, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress(spark, "job: listing"):
            while b" so far" not in shown:
                shown += os.read(reading, 1024)
    os.close(reading)
    assert b"job: listing: " in shown
    assert b"tasks" not in shown


def test_of_copies_the_rows_in_files_are_told_of_all_tables_together() -> None:
    session = _Session()
    watching = _Watching(cast(SparkSession, session), "job", SystemClock(), rows=1_000, copies=True)
    assert watching._look() is None
    ledgers = _stage(stageId=1, numTasks=4, numCompleteTasks=2, numActiveTasks=1, outputRecords=200)
    subscriptions = _stage(stageId=2, numTasks=6, numActiveTasks=1)
    session.active = [ledgers, subscriptions]
    assert watching._look() == _Sight(200, 2, 10, 0.0)
    # One stage has ended, and a stage reads its rows back while the other stage goes on.
    session.ended[1] = _stage(stageId=1, outputRecords=400)
    back = _stage(stageId=3, inputRecords=400, numTasks=1, numActiveTasks=1)
    subscriptions = _stage(stageId=2, numTasks=6, numActiveTasks=1, numCompleteTasks=2, outputRecords=90)
    session.active = [subscriptions, back]
    assert watching._look() == _Sight(490, 2, 7, 0.0)
    assert _words(watching) == "490 of about 1,000 rows, 2 of 7 tasks, 0 s so far"
    assert watching._words(_Sight(500, 2, 7, 10.0)) == (
        "500 of about 1,000 rows, 50 rows/s, 2 of 7 tasks, about 10 s left"
    )
    # More rows than planned. A stage that Spark has forgotten counts as it was.
    session.active = [_stage(stageId=4, outputRecords=900, numTasks=1, numActiveTasks=1)]
    assert _words(watching) == "1,390 rows, 0 of 1 tasks, 0 s so far"


def test_tasks_that_nobody_works_on_are_told_to_wait_for_executors() -> None:
    session, clock = _Session(), _Clock()
    watching = _Watching(cast(SparkSession, session), "job", clock)
    session.active = [_stage(numTasks=8)]
    assert watching._look() is None
    clock.now += 14.0
    assert "waiting" not in _words(watching)
    clock.now += 1.0
    assert _words(watching) == "waiting for executors of spark://master:7077, 15 s so far"
    clock.now += 50.0
    assert _words(watching) == "waiting for executors of spark://master:7077, 1 min 5 s so far"
    session.active = [_stage(numTasks=8, numActiveTasks=1)]
    assert _words(watching) == "0 of 8 tasks, 0 s so far"
    # All executors were lost in the middle.
    session.active = [_stage(numTasks=8, numCompleteTasks=3)]
    assert _words(watching) == "3 of 8 tasks, 0 s so far"
    clock.now += 20.0
    assert _words(watching) == "waiting for executors of spark://master:7077, 20 s so far"


def test_rows_of_tables_written_side_by_side_are_those_in_files(spark: SparkSession, tmp_path: Path) -> None:
    """As Spark really counts: four shares in one table and four in the other, of which the last one has to wait."""
    sign = tmp_path / "sign"

    def frame(waits: bool) -> DataFrame:
        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    hundred = pa.RecordBatch.from_pydict({"id": list(range(100))})
                    yield from _until_there(iter([hundred]), str(sign)) if waits and number == 3 else [hundred]

        return spark.range(0, 4, 1, 4).mapInArrow(read, "id bigint")

    def written(name: str, waits: bool) -> None:
        frame(waits).write.parquet(f"{tmp_path}/{name}")

    watching = _Watching(spark, "job", SystemClock(), rows=1_000, copies=True)
    works = [partial(written, "one", False), partial(written, "other", True)]
    copying = threading.Thread(target=side_by_side, args=(spark, works))
    copying.start()
    seen = [0]
    try:
        deadline = time.monotonic() + _WITHIN_S
        while seen[-1] < 700 and time.monotonic() < deadline:
            sight = watching._look()
            seen.append(seen[-1] if sight is None else sight.rows)
            time.sleep(0.02)
    finally:
        sign.touch()
        copying.join()
    # The last hundred rows are not in a file, but their writer may have them.
    assert seen[-1] in (700, 800)
    assert seen == sorted(seen)


def test_rows_of_a_task_that_takes_long_are_told_before_it_ends(spark: SparkSession, tmp_path: Path) -> None:
    sign = tmp_path / "sign"

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column(0).to_pylist()
            yield pa.RecordBatch.from_pydict({"id": ids * 1000})
        yield from _until_there(iter([]), str(sign))

    def written() -> None:
        spark.range(0, 100, 1, 1).mapInArrow(read, "id bigint").write.parquet(f"{tmp_path}/one")

    written_before = tmp_path / "before"
    spark.range(0, 50, 1, 1).write.parquet(str(written_before))
    watching = _Watching(spark, "job", SystemClock(), rows=200_000, copies=True)
    writing = threading.Thread(target=written)
    writing.start()
    rows_shown = 0
    try:
        deadline = time.monotonic() + _WITHIN_S
        while rows_shown == 0 and time.monotonic() < deadline:
            sight = watching._look()
            rows_shown = 0 if sight is None else sight.rows
            time.sleep(0.05)
        assert sight is not None
        assert (sight.done, sight.tasks) == (0, 1)
        assert 0 < rows_shown <= 100_000
    finally:
        sign.touch()
        writing.join()
