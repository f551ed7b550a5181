"""Work that is done once for all who want it at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from hedwig.clock import Deadline
from hedwig.outcomes import AbortedError, NotAppliedError

__all__ = ["SharedWork"]

T = TypeVar("T")


class SharedWork(Generic[T]):
    """Something that takes a while and comes out the same for everybody; whoever comes meanwhile shares it.

    It goes on when one of those who wait is cancelled, and has a deadline of its own. `what` says in an error what it
    is: "connect to the server at …".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._task: asyncio.Task[T] | None = None
        self._closed = False

    @property
    def is_under_way(self) -> bool:
        """Whether whoever joins now shares work that somebody else began."""
        return self._task is not None

    async def join(self, work: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """Return what the work under way comes to; `work` is begun if there is none.

        Raises: what the work raises; NotAppliedError - it is not over before the deadline; AbortedError - closed.
        """
        if self._closed:
            raise AbortedError("the store was closed", sent=False)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(work))
            self._task.add_done_callback(_look_at)
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                return await asyncio.shield(self._task)
        except TimeoutError as exc:
            raise NotAppliedError(f"no time was left to {self._what}") from exc
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._closed and (caller is None or not caller.cancelling()):
                raise AbortedError("the store was closed", sent=False) from None
            raise

    async def close(self) -> None:
        """Give up what is under way; nothing begins afterwards. May be called twice."""
        self._closed = True
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return await work()
        finally:
            # Before anybody who waits goes on: what is over is not to be joined again.
            self._task = None


def _look_at(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # Nobody may be left who waits for it.
