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

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from pipeline.interruption import heed_signals
from pipeline.running_tasks import PATIENCE_S

__all__ = ["side_by_side"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE: Final = 2
_AGAIN_S: Final = 0.2


def side_by_side(spark: SparkSession, works: Sequence[Callable[[], T]]) -> list[T]:
    """Do all of `works`, two at a time, in threads of their own, and return what they return, in their order.

    If one of them raises, or whoever waits is interrupted, the queries of the others are cancelled. None of them goes
    on after this has returned or raised, unless it has not ended `PATIENCE_S` after that, which is logged.

    Raises: what was raised first.
    """
    context = spark.sparkContext
    tag = f"side-by-side-{uuid.uuid4().hex}"
    failures: list[BaseException] = []

    def tagged(work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            if failures:
                raise CancelledError
            context.addJobTag(tag)
            try:
                return work()
            except BaseException as exc:
                failures.append(exc)
                raise

        # With the settings of this thread, such as the pool that its queries belong to.
        wrapped: Callable[[], T] = inheritable_thread_target(spark)(run)
        return wrapped

    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="side by side")
    try:
        running = [threads.submit(tagged(work)) for work in works]
        try:
            wait(running, return_when=FIRST_EXCEPTION)
        finally:
            _end(context, tag, running)
    finally:
        # What has ended needs no wait, and what has not was waited for long enough.
        threads.shutdown(wait=False)
    if failures:
        raise failures[0]
    return [each.result() for each in running]


def _end(context: SparkContext, tag: str, running: Sequence["Future[Any]"]) -> None:
    """Begin nothing more, and cancel the queries of what is running until nothing is; it may be about to begin more.

    That has a limit: by now signals may be without effect, and a call to a file system that is gone ends with nothing.
    """
    for each in running:
        each.cancel()
    deadline = time.monotonic() + PATIENCE_S
    while left := wait(running, timeout=0).not_done:
        if time.monotonic() >= deadline:
            _log.warning("%d queries go on, although they were cancelled %.0f s ago", len(left), PATIENCE_S)
            heed_signals()
            return
        # Without its JVM each fails by itself.
        with suppress(Py4JError):
            context.cancelJobsWithTag(tag)
        wait(left, timeout=_AGAIN_S)
