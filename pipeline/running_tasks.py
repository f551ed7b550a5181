"""Tasks that are at work: a query that has failed, or was cancelled, does not wait for its tasks to end."""

import time
from typing import Final

from pyspark.sql import SparkSession

__all__ = ["PATIENCE_S", "patience_of", "wait_for_tasks"]

PATIENCE_S: Final = 15.0
"""How long queries and tasks that were cancelled have to end."""
_LOOK_EVERY_S: Final = 0.1
_UNTIL: Final = "hedwig_patience_until"


def patience_of(error: BaseException) -> float:
    """Return until when (monotonic clock) one waits for queries and tasks that have to end because of `error`.

    On its way out of a job several wait, one behind the other. They have one patience in all, which begins with the
    first of them; so it goes with the error.
    """
    until: float = error.__dict__.setdefault(_UNTIL, time.monotonic() + PATIENCE_S)
    return until


def wait_for_tasks(spark: SparkSession, until: float) -> None:
    """Wait until no task of any query of `spark` is at work, or it is `until` (monotonic clock).

    Raises: one of `CONNECTION_ERRORS` - its JVM has ended, and all tasks on this machine with it.
    """
    while _tasks(spark) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)


def _tasks(spark: SparkSession) -> int:
    """Return how many tasks executors were given whose end they have not told.

    Spark's scheduler is asked, which notes each task before it sends it. Its status store would tell of executors what
    was last written there, which is often from before a task began, and of stages what its listeners have heard by
    now: they hear of everything late, and of some of it never, when there is too much.
    """
    java = spark.sparkContext._jsc
    assert java is not None, "the session is open"
    by_executor = java.sc().taskScheduler().runningTasksByExecutors().values().toSeq()
    return sum(by_executor.apply(index) for index in range(by_executor.size()))
