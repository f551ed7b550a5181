"""Ctrl-C, and a request to end: the queries are cancelled, their tasks have ended, and only then the job is told.

PySpark's own handler asks the JVM from within the call that it interrupts, over the same connection; that call's
answer and its own get mixed up. So here another thread asks, over a connection of its own. And whoever is told deletes
what was half written, which nobody may add to any more.
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

    They are waited for as long as there is patience; from then on a second signal ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Signals are for the main thread, and so is what to do about them.
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, _heed_not)  # Once is enough; the patience is bounded.
        error = KeyboardInterrupt() if number == signal.SIGINT else Terminated()
        until = patience_of(error)
        # A JVM that was stopped gives no answer at all: the thread may never end, and then nobody waits for it.
        asking = threading.Thread(target=_end, args=(spark, until), name="end of queries", daemon=True)
        asking.start()
        asking.join(until - time.monotonic())
        if asking.is_alive():
            heed_signals()
        raise error

    # py4j writes a traceback of the call that is interrupted to the root logger.
    logging.getLogger().addHandler(logging.NullHandler())
    before = {each: signal.signal(each, handle) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def heed_signals() -> None:
    """Let a second signal end the process at once, where `ending_queries` has it do nothing: all patience is over."""
    if threading.current_thread() is threading.main_thread():
        for each in _SIGNALS:
            if signal.getsignal(each) is _heed_not:
                signal.signal(each, signal.SIG_DFL)


def _heed_not(_number: int, _frame: FrameType | None) -> None:
    """Do nothing about a signal."""


def _end(spark: SparkSession, until: float) -> None:
    """Cancel all queries, and wait until no task is at work, or it is `until` (monotonic clock)."""
    try:
        spark.sparkContext.cancelAllJobs()
        wait_for_tasks(spark, until)
    except CONNECTION_ERRORS:
        return  # Its JVM has ended, and all tasks on this machine with it.
