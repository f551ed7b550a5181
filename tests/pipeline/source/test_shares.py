"""Prove that each share goes to a task of its own, however large it is, and does not count as a row read."""

import os
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from hedwig.metadata import KeyRange
from hedwig.pipeline.source.datasource import Share
from hedwig.pipeline.source.shares import frame_of_shares, shares_in

_WITHIN_S: Final = 60.0


def _shares(number: int, names: int = 10) -> list[Share]:
    ranges = (KeyRange(kind="persistence", start=b"%d" % index, listed=os.urandom(names)) for index in range(number))
    return [Share(keys) for keys in ranges]


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return one row of what the task receives: the starts of its shares, and the size of the names in them."""
    ranges = [share.keys for share in shares_in(batches) if isinstance(share, Share)]
    starts, names = [keys.start for keys in ranges], sum(len(keys.listed or b"") for keys in ranges)
    yield pa.RecordBatch.from_pydict({"starts": pa.array([starts], pa.list_(pa.binary())), "names": pa.array([names])})


def _given(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(_read, "starts array<binary>, names bigint")


@pytest.mark.parametrize("number", [1, 2, 70])
def test_each_share_goes_to_a_task_of_its_own(spark: SparkSession, number: int) -> None:
    frame = frame_of_shares(spark, _shares(number))
    assert frame.rdd.getNumPartitions() == number
    received = [([bytes(start) for start in row["starts"]], row["names"]) for row in _given(frame).collect()]
    assert received == [([b"%d" % index], 10) for index in range(number)]


def test_large_shares_arrive(spark: SparkSession) -> None:
    """As large as a share with the names of very many topics."""
    names = 16 << 20
    assert [row["names"] for row in _given(frame_of_shares(spark, _shares(2, names))).collect()] == [names] * 2


def test_shares_are_no_rows_that_a_task_has_read(spark: SparkSession) -> None:
    """The progress display counts the rows that Spark counts as read."""
    context, group = spark.sparkContext, uuid.uuid4().hex
    context.setLocalProperty("spark.jobGroup.id", group)
    try:
        _given(frame_of_shares(spark, _shares(5))).write.format("noop").mode("overwrite").save()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    (stage,) = _stages(spark, group)
    assert stage.numCompleteTasks() == 5
    assert stage.inputRecords() == 0


def _stages(spark: SparkSession, group: str) -> list[Any]:
    """Return the stages of a group of jobs, once Spark has recorded the end of all their tasks."""
    java: Any = spark.sparkContext._jsc
    store, tracker = java.sc().statusStore(), spark.sparkContext.statusTracker()
    deadline = time.monotonic() + _WITHIN_S
    while True:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [store.lastStageAttempt(stage) for job in jobs if job is not None for stage in job.stageIds]
        if stages and all(stage.numCompleteTasks() == stage.numTasks() for stage in stages):
            return stages
        assert time.monotonic() < deadline, "Spark counts the tasks of the job"
        time.sleep(0.05)
