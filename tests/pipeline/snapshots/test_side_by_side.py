"""Prove that queries side by side run at once, and that the end of one ends them all."""

import signal
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from hedwig.pipeline import interruption, running_tasks
from hedwig.pipeline.interruption import ending_queries
from hedwig.pipeline.snapshots import side_by_side as module
from hedwig.pipeline.snapshots.side_by_side import side_by_side
from tests.pipeline.support.interrupting import interrupted_once

PATIENCE_S: Final = 60.0


def _sleeps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(2 * PATIENCE_S)
    yield from batches


def _active(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


def test_two_run_at_once_and_all_return_in_their_order(spark: SparkSession) -> None:
    both_there = threading.Barrier(2, timeout=PATIENCE_S)

    def counted(rows: int) -> int:
        both_there.wait()
        return spark.range(rows).count()

    assert side_by_side(spark, [partial(counted, rows) for rows in (3, 1, 2, 0)]) == [3, 1, 2, 0]
    assert side_by_side(spark, []) == []


def test_what_fails_first_is_raised_once_the_others_have_ended(spark: SparkSession) -> None:
    before = set(_active(spark))
    ended: list[float] = []

    def long() -> int:
        try:
            return spark.range(1).mapInArrow(_sleeps, "id bigint").count()
        finally:
            ended.append(time.monotonic())

    def fails() -> int:
        deadline = time.monotonic() + PATIENCE_S
        while not set(_active(spark)) - before:
            assert time.monotonic() < deadline, "the other one never began"
            time.sleep(0.02)
        raise ValueError("mine")

    def never() -> int:
        raise AssertionError("it was begun after another had failed")

    began = time.monotonic()
    with pytest.raises(ValueError, match="mine"):
        side_by_side(spark, [long, fails, never])
    assert len(ended) == 1
    assert time.monotonic() - began < 2 * PATIENCE_S
    assert set(_active(spark)) <= before


def test_settings_of_the_thread_that_waits_hold_for_all(spark: SparkSession) -> None:
    spark.sparkContext.setLocalProperty("hedwig.test", "here")
    try:
        (seen,) = side_by_side(spark, [lambda: spark.sparkContext.getLocalProperty("hedwig.test")])
    finally:
        spark.sparkContext.setLocalProperty("hedwig.test", None)  # type: ignore[arg-type]
    assert seen == "here"


def test_nothing_is_warned_of(spark: SparkSession) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert side_by_side(spark, [lambda: spark.range(2).count()]) == [2]
    assert [str(each.message) for each in warned] == []


def test_what_does_not_end_when_it_is_cancelled_is_waited_for_only_so_long(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running_tasks, "PATIENCE_S", 0.5)
    began, over = threading.Event(), threading.Event()

    def stubborn() -> None:
        began.set()
        over.wait(2 * PATIENCE_S)

    def fails() -> None:
        assert began.wait(PATIENCE_S)
        raise ValueError("mine")

    # The handlers as a first signal leaves them.
    before = {each: signal.signal(each, interruption._heed_not) for each in (signal.SIGINT, signal.SIGTERM)}
    started = time.monotonic()
    try:
        with pytest.raises(ValueError, match="mine"):
            side_by_side(spark, [stubborn, fails])
        assert {signal.getsignal(each) for each in before} == {signal.SIG_DFL}, "a second signal ends the process"
    finally:
        over.set()
        for each, handler in before.items():
            signal.signal(each, handler)
    assert time.monotonic() - started < PATIENCE_S
    assert "1 queries go on" in caplog.text


def test_an_interruption_while_others_are_ended_leaves_none_of_them_at_work(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ends = threading.Event(), threading.Event()
    ended: list[int] = []
    end = module._end

    def noted(*given: Any) -> None:
        ends.set()
        end(*given)

    def fails() -> None:
        assert begun.wait(PATIENCE_S)
        raise ValueError("mine")

    def long() -> None:
        begun.set()
        assert ends.wait(PATIENCE_S)
        time.sleep(2)  # Longer than it takes to interrupt the waiting thread.
        ended.append(1)

    monkeypatch.setattr(module, "_end", noted)
    # Nothing is to be cancelled here, and the interrupt must not reach a call to the JVM.
    monkeypatch.setattr(SparkContext, "cancelJobsWithTag", lambda *_: None)
    with pytest.raises(KeyboardInterrupt), ending_queries(spark), interrupted_once(ends.is_set):
        side_by_side(spark, [fails, long])
    assert ended == [1]


def test_an_interruption_while_works_are_submitted_leaves_none_of_them_at_work(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    ended: list[int] = []
    submit = ThreadPoolExecutor.submit

    def interrupted(self: ThreadPoolExecutor, *given: Any) -> Any:
        if begun.is_set():
            raise KeyboardInterrupt
        submitted = submit(self, *given)
        assert begun.wait(PATIENCE_S)
        return submitted

    def long() -> None:
        begun.set()
        time.sleep(1)
        ended.append(1)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(spark, [long, long])
    assert ended == [1]


def test_signals_that_somebody_else_ignores_stay_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        interruption.heed_signals()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
