"""Tasks that are at work: a query that has failed, or was cancelled, does not wait for its tasks to end."""

import time
from typing import Final

from pyspark.sql import SparkSession

__all__ = ["PATIENCE_S", "wait_for_tasks"]

PATIENCE_S: Final = 15.0
"""How long queries and tasks that were cancelled have to end."""
_LOOK_EVERY_S: Final = 0.1


def wait_for_tasks(spark: SparkSession) -> None:
    """Wait until no task of any query of `spark` is at work, as long as that is bearable.

    Raises: Py4JError - its JVM has ended, and all tasks on this machine with it.
    """
    deadline = time.monotonic() + PATIENCE_S
    while _tasks(spark) and time.monotonic() < deadline:
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
