"""Queries side by side: while the last tasks of one end, and the next is planned, there is work for all processors.

Two at a time are enough for that.
"""

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

__all__ = ["side_by_side"]

T = TypeVar("T")

_AT_ONCE: Final = 2
_AGAIN_S: Final = 0.2


def side_by_side(spark: SparkSession, works: Sequence[Callable[[], T]]) -> list[T]:
    """Do all of `works`, two at a time, in threads of their own, and return what they return, in their order.

    If one of them raises, or whoever waits is interrupted, the queries of the others are cancelled. None of them goes
    on after this has returned or raised.

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
        wrapped: Callable[[], T] = inheritable_thread_target(run)
        return wrapped

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="side by side") as threads:
        running = [threads.submit(tagged(work)) for work in works]
        try:
            wait(running, return_when=FIRST_EXCEPTION)
        finally:
            _end(context, tag, running)
        if failures:
            raise failures[0]
        return [each.result() for each in running]


def _end(context: SparkContext, tag: str, running: Sequence["Future[Any]"]) -> None:
    """Begin nothing more, and cancel the queries of what is running until nothing is; it may be about to begin more."""
    for each in running:
        each.cancel()
    while left := wait(running, timeout=0).not_done:
        # Without its JVM each fails by itself.
        with suppress(Py4JError):
            context.cancelJobsWithTag(tag)
        wait(left, timeout=_AGAIN_S)
