"""Ending the tasks that a test, or a helper of tests, has started."""

import asyncio
from collections.abc import Iterable
from typing import Any

__all__ = ["end_all"]


async def end_all(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel `tasks`, and return once all have ended. Raises the error of a task that failed, now or before."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    for outcome in await asyncio.gather(*ending, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
            raise outcome
