"""Running tasks: a query that failed or was cancelled returns before its tasks have ended."""

import time
from typing import Final

from pyspark.sql import SparkSession

__all__ = ["PATIENCE_S", "patience_of", "wait_for_tasks"]

PATIENCE_S: Final = 15.0
"""How long cancelled queries and tasks have to end."""
_LOOK_EVERY_S: Final = 0.1
_UNTIL: Final = "hedwig_patience_until"


def patience_of(error: BaseException) -> float:
    """Return until when (monotonic clock) to wait for queries and tasks that have to end because of `error`.

    While the error leaves a job, several functions wait, one after the other. Together they wait at most `PATIENCE_S`,
    counted from the first of them. So the error carries the time.
    """
    until: float = error.__dict__.setdefault(_UNTIL, time.monotonic() + PATIENCE_S)
    return until


def wait_for_tasks(spark: SparkSession, until: float) -> None:
    """Wait until no task of any query of `spark` is running, but not past `until` (monotonic clock).

    Raises: one of `CONNECTION_ERRORS` - its JVM has ended, and with it all tasks on this machine.
    """
    while _tasks(spark) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)


def _tasks(spark: SparkSession) -> int:
    """Return how many tasks executors were given and have not reported as ended.

    Ask Spark's scheduler, which records each task before it sends it. Spark's status store is late. Its entry for an
    executor is often from before a task began. Its entry for a stage is what listeners have received so far. Listeners
    receive every event late, and lose some when there are too many.
    """
    java = spark.sparkContext._jsc
    assert java is not None, "the session is open"
    by_executor = java.sc().taskScheduler().runningTasksByExecutors().values().toSeq()
    return sum(by_executor.apply(index) for index in range(by_executor.size()))
