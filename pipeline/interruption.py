"""SIGINT (Ctrl-C) and SIGTERM: cancel the queries, wait until their tasks have ended, and only then end the job.

PySpark's own handler calls the JVM from within the call that it interrupts, over the same connection. The answers of
the two calls get mixed up. So here another thread calls, over its own connection. The job must not end earlier, because
it deletes its half-written files then, and no task may add to them after that.
"""

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from pyspark.sql import SparkSession

from hedwig.pipeline.errors import CONNECTION_ERRORS
from hedwig.pipeline.running_tasks import patience_of, wait_for_tasks
from hedwig.pipeline.termination import Terminated

__all__ = ["ending_queries", "heed_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ending_queries(spark: SparkSession) -> Iterator[None]:
    """Raise KeyboardInterrupt inside for SIGINT, and Terminated for SIGTERM, once the queries of `spark` have ended.

    Wait for them at most as long as `patience_of` allows. From then on a second signal ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread receives signals, and only it may set their handlers.
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, _heed_not)  # One signal is enough, since the wait is bounded.
        error = KeyboardInterrupt() if number == signal.SIGINT else Terminated()
        until = patience_of(error)
        # A JVM that was stopped gives no answer at all, so the thread may never end. Do not wait for it any longer.
        asking = threading.Thread(target=_end, args=(spark, until), name="end of queries", daemon=True)
        asking.start()
        asking.join(until - time.monotonic())
        if asking.is_alive():
            heed_signals()
        raise error

    # Without a handler, the traceback of the interrupted call, which py4j logs, would go to standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    before = {each: signal.signal(each, handle) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def heed_signals() -> None:
    """Let a second signal end the process at once. Until this call `ending_queries` ignores it."""
    if threading.current_thread() is threading.main_thread():
        for each in _SIGNALS:
            if signal.getsignal(each) is _heed_not:
                signal.signal(each, signal.SIG_DFL)


def _heed_not(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal."""


def _end(spark: SparkSession, until: float) -> None:
    """Cancel all queries, and wait until no task is running, but not past `until` (monotonic clock)."""
    try:
        spark.sparkContext.cancelAllJobs()
        wait_for_tasks(spark, until)
    except CONNECTION_ERRORS:
        return  # Spark's JVM has ended, and with it all tasks on this machine.
