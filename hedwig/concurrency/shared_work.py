"""Work that is done once for all callers that ask for it at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from hedwig.clock import Deadline
from hedwig.outcomes import AbortedError, NotAppliedError

__all__ = ["SharedWork"]

T = TypeVar("T")


class SharedWork(Generic[T]):
    """Work that takes a while and has the same outcome for all callers. Callers that arrive meanwhile share it.

    The work goes on if a waiting caller is cancelled, and has a deadline of its own. `what` names it in errors, such as
    "connect to the server at …".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._task: asyncio.Task[T] | None = None
        self._closed = False

    @property
    def is_under_way(self) -> bool:
        """Say whether a caller that joins now would share work that another one began."""
        return self._task is not None

    async def join(self, work: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """Return the result of the work under way; begin `work` if there is none.

        Raises: NotAppliedError - it is not over before the deadline; AbortedError - closed; any error of the work.
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
        """Cancel the work under way; nothing begins afterwards. May be called twice."""
        self._closed = True
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return await work()
        finally:
            # Cleared before any waiting caller continues, since finished work must not be joined again.
            self._task = None


def _look_at(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # Marks the error as seen, since no caller may wait for it any more.
