"""Work that runs for as long as its owner. Its end before that is a defect."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["LastingTask"]

_log = logging.getLogger(__name__)


class LastingTask:
    """One task from `start` to `end`. `on_failed` is called once if the task ends before, for any reason."""

    def __init__(self, what: str, on_failed: Callable[[str], None]) -> None:
        """`what` names the work in the log; `on_failed` gets it in a sentence."""
        self._what = what
        self._on_failed = on_failed
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the work. Call this once."""
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Cancel the work, and wait until it has ended. May be called twice, and before `start`."""
        self._is_ending = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None or not self._is_ending:
            _log.error("%s ended: %r", self._what, error, exc_info=error)
        if not self._is_ending:
            self._on_failed(f"{self._what} ended; the log says why")
