"""What a person sees on a terminal while a job works, and what a log file gets."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hedwig.clock import SystemClock
from pipeline.progress import _Sight, _Watching, progress

_WITHIN_S: Final = 60.0


def _until_there(batches: Iterator[pa.RecordBatch], file: str) -> Iterator[pa.RecordBatch]:
    yield from batches
    deadline = time.monotonic() + _WITHIN_S
    while not os.path.exists(file) and time.monotonic() < deadline:  # noqa: PTH110
        time.sleep(0.05)


def _watched(spark: SparkSession, reading: int, sign: Path, words: bytes) -> bytes:
    """Run a query that goes on until `words` were told at `reading`; return all that was told until then."""

    def last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _until_there(batches, str(sign))

    frame = spark.range(1_000, numPartitions=2).mapInArrow(last, "id bigint")
    query = threading.Thread(target=lambda: frame.write.format("noop").mode("overwrite").save())
    told = b""
    with progress(spark, "job: rows", rows=1_000):
        query.start()
        deadline = time.monotonic() + _WITHIN_S
        while words not in told and time.monotonic() < deadline:
            told += os.read(reading, 1024)
        sign.touch()
        query.join()
    return told


def test_a_terminal_has_one_line_that_is_taken_away_at_the_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.openpty()
    with os.fdopen(writing, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        told = _watched(spark, reading, tmp_path / "sign", b"of 2 tasks, ")
        terminal.write("what comes next")
        terminal.flush()
        while not told.endswith(b"what comes next"):
            told += os.read(reading, 4096)
    os.close(reading)
    assert told.startswith(b"\r\x1b[Kjob: rows: ")
    assert told.endswith(b"\r\x1b[Kwhat comes next")
    assert b"\n" not in told


def test_a_log_file_gets_lines(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        told = _watched(spark, reading, tmp_path / "sign", b" of 2 tasks, ")
    os.close(reading)
    assert told.startswith(b"job: rows: ")
    assert b" of 2 tasks, " in told
    assert b"\x1b" not in told


def _stage(**counts: int) -> Any:
    """A stage as Spark's status store has it, as far as it is looked at for rows."""
    names = ("inputRecords", "outputRecords", "shuffleReadRecords", "shuffleWriteRecords")
    return SimpleNamespace(**{name: partial(counts.get, name, 0) for name in names})


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
    told = b""
    with os.fdopen(writing, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress(spark, "job: listing"):
            while b" so far" not in told:
                told += os.read(reading, 1024)
    os.close(reading)
    assert b"job: listing: " in told
    assert b"tasks" not in told
