"""Queries side by side, so that all processors have work while one query ends and the next is planned.

Two queries at a time are enough for that.
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
    """Run all of `works`, two at a time, in separate threads; return their results in the order of `works`.

    If one of them raises, or the caller is interrupted, cancel the queries of the others, and wait for them at most
    `PATIENCE_S`. None runs on after this function, unless it has not ended by then, which is logged.

    Raises: what was raised first; KeyboardInterrupt - the caller was interrupted, also while works were being ended.
    """
    context = spark.sparkContext
    tag = f"side-by-side-{uuid.uuid4().hex}"
    failures: list[BaseException] = []

    def tagged(work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            context.addJobTag(tag)
            return work()

        # The new thread inherits the settings of this one, such as the scheduler pool of its queries.
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
        # A work that was just submitted when a signal came may not be in `running`. With this it does not begin.
        failures.append(exc)
        try:
            _end(context, tag, running, patience_of(exc))
        except KeyboardInterrupt as interruption:
            # A first signal after a failure: nothing may be running when it is raised, either.
            _end(context, tag, running, patience_of(interruption))
            raise
        raise
    finally:
        # `_end` has waited long enough for threads that have not ended.
        threads.shutdown(wait=False, cancel_futures=True)


def _end(context: SparkContext, tag: str, running: Sequence["Future[Any]"], until: float) -> None:
    """Cancel works that have not begun, and the queries of the others again and again, since these may begin more.

    Stop at `until` (monotonic clock). Signals may be ignored by now, and a call to a file system that is gone may never
    end. Cancel the queries once in any case, also if other waits have used up the time.
    """
    for each in running:
        each.cancel()
    while left := wait(running, timeout=0).not_done:
        # If the JVM has ended, each work fails by itself.
        with suppress(*CONNECTION_ERRORS):
            context.cancelJobsWithTag(tag)
        left = wait(left, timeout=_AGAIN_S).not_done
        if left and time.monotonic() >= until:
            _log.warning("%d queries go on, although they were cancelled %.0f s ago", len(left), PATIENCE_S)
            heed_signals()
            return
