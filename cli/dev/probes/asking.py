"""Runs a question of an asyncio client, even if the caller has an event loop running."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hedwig.cli.dev.errors import NotReadyError
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError

__all__ = ["answer"]

_T = TypeVar("_T")


def answer(asking: Coroutine[Any, Any, _T]) -> _T:
    """Return what the server answered."""
    try:
        if not _is_in_event_loop():
            return asyncio.run(asking)  # Ctrl-C ends it at once.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, asking).result()
    except (AbortedError, NotAppliedError, OutcomeUnknownError) as exc:
        raise NotReadyError(str(exc)) from exc


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
