"""Work that is done once for all callers that ask for the same at the same time, by key."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

__all__ = ["KeyedWork"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class KeyedWork(Generic[K, T]):
    """Work under way, by key. It goes on for the others if one caller is cancelled; its own steps have deadlines.

    `closed` makes the error that callers get once it is closed.
    """

    def __init__(self, closed: Callable[[], Exception]) -> None:
        self._closed = closed
        self._under_way: dict[K, asyncio.Task[T]] = {}
        self._is_closed = False

    async def join(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the work under way; begin `work` if there is none.

        Raises: the error of `closed`; any error of the work.
        """
        try:
            return await asyncio.shield(self.begin(key, work))
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._is_closed and (caller is None or not caller.cancelling()):
                raise self._closed() from None
            raise

    def begin(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Task[T]":
        """Return the work under way, for callbacks; begin `work` if there is none. Nobody but `aclose` may cancel it.

        Raises: the error of `closed`.
        """
        if self._is_closed:
            raise self._closed()
        task = self._under_way.get(key)
        if task is None or task.done():  # Its callback may still have to run.
            task = self._under_way[key] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(partial(self._ended, key))
        return task

    async def aclose(self) -> None:
        """End the work under way, and wait for that. Nothing begins afterwards. May be called twice."""
        self._is_closed = True
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _ended(self, key: K, task: "asyncio.Task[T]") -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key]
        if not task.cancelled():
            task.exception()  # Those who wait have it, if any is left.
