"""Queries side by side: while the last tasks of one end, and the next is planned, there is work for all processors.

Two at a time are enough for that.
"""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Final, TypeVar

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from hedwig.pipeline.errors import CONNECTION_ERRORS
from hedwig.pipeline.interruption import heed_signals
from hedwig.pipeline.running_tasks import PATIENCE_S, patience_of

__all__ = ["side_by_side"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE: Final = 2
_AGAIN_S: Final = 0.2


def side_by_side(spark: SparkSession, works: Sequence[Callable[[], T]]) -> list[T]:
    """Do all of `works`, two at a time, in threads of their own, and return what they return, in their order.

    If one of them raises, or whoever waits is interrupted, the queries of the others are cancelled. None of them goes
    on after this has returned or raised, unless it has not ended `PATIENCE_S` after that, which is logged.

    Raises: what was raised first; KeyboardInterrupt - whoever waits was interrupted, be it while works were ended.
    """
    context = spark.sparkContext
    tag = f"side-by-side-{uuid.uuid4().hex}"
    failures: list[BaseException] = []

    def tagged(work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            context.addJobTag(tag)
            return work()

        # With the settings of this thread, such as the pool that its queries belong to.
        wrapped: Callable[[], T] = inheritable_thread_target(spark)(run)

        def noted() -> T:
            if failures:
                raise CancelledError
            try:
                return wrapped()
            except BaseException as exc:
                failures.append(exc)
                raise

        return noted

    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="side by side")
    running: list[Future[T]] = []
    try:
        for work in works:
            running.append(threads.submit(tagged(work)))
        wait(running, return_when=FIRST_EXCEPTION)
        if failures:
            raise failures[0]
        return [each.result() for each in running]
    except BaseException as exc:
        # One that was submitted when a signal came may be in no list; it does not begin.
        failures.append(exc)
        try:
            _end(context, tag, running, patience_of(exc))
        except KeyboardInterrupt as interruption:
            # A first signal, after a failure: who is told of it must not find anything at work either.
            _end(context, tag, running, patience_of(interruption))
            raise
        raise
    finally:
        # What has ended needs no wait, and what has not was waited for long enough.
        threads.shutdown(wait=False, cancel_futures=True)


def _end(context: SparkContext, tag: str, running: Sequence["Future[Any]"], until: float) -> None:
    """Begin nothing more, and cancel the queries of what is running until nothing is; it may be about to begin more.

    That has a limit, `until` (monotonic clock): by now signals may be without effect, and a call to a file system that
    is gone ends with nothing. Once they are cancelled in any case, if somebody else has waited that long before.
    """
    for each in running:
        each.cancel()
    while left := wait(running, timeout=0).not_done:
        # Without its JVM each fails by itself.
        with suppress(*CONNECTION_ERRORS):
            context.cancelJobsWithTag(tag)
        left = wait(left, timeout=_AGAIN_S).not_done
        if left and time.monotonic() >= until:
            _log.warning("%d queries go on, although they were cancelled %.0f s ago", len(left), PATIENCE_S)
            heed_signals()
            return
