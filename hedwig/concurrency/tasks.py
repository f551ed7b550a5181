"""Work that runs in the background of the code that began it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from hedwig.clock import Clock
from hedwig.errors import HedwigError

__all__ = ["Tasks", "repeat"]

_log = logging.getLogger(__name__)


class Tasks:
    """Tasks of one owner, which are kept alive, waited for and cancelled together.

    The work must report its outcome itself, since the result of a task is ignored here. An exception that leaves it is
    a defect, and is logged.
    """

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[None], None] = {}
        """The tasks in the order in which they began. They are cancelled in that order, so that simulations repeat."""

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begin work in the running event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    async def settle(self) -> None:
        """Wait until all tasks have ended, also those that begin meanwhile. May be cancelled; then the tasks go on."""
        while self._running:
            await asyncio.wait(list(self._running))

    async def cancel(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in list(self._running):
            task.cancel()
        await self.settle()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_coro(), exc_info=error)


async def repeat(what: str, clock: Clock, interval_s: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do `work` every `interval_s` seconds until cancelled. A failure of it is logged, and does not end the loop."""
    while True:
        await clock.sleep(interval_s)
        try:
            await work()
        except HedwigError as exc:
            # For a store that does not answer or forbids access, one line per interval is enough.
            _log.warning("the %s failed; it is tried again in %g s: %s", what, interval_s, exc)
        except Exception:
            _log.exception("the %s failed; it is tried again in %g s", what, interval_s)
