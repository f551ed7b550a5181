"""Reads that are done once for all who ask for the same at the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

from hedwig.errors import LedgerStoreClosedError

__all__ = ["SharedReads"]

T = TypeVar("T")


class SharedReads(Generic[T]):
    """Reads by ledger. A read goes on for the others if one caller is cancelled; its own steps have deadlines."""

    def __init__(self) -> None:
        self._under_way: dict[int, asyncio.Task[T]] = {}
        self._is_closed = False

    async def join(self, ledger: int, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the read under way; begin `read` if there is none.

        Raises: LedgerStoreClosedError - it was closed meanwhile; any error of the read.
        """
        if self._is_closed:
            raise LedgerStoreClosedError("the ledger store was closed")
        task = self._under_way.get(ledger)
        if task is None:
            task = self._under_way[ledger] = asyncio.get_running_loop().create_task(read())
            task.add_done_callback(partial(self._ended, ledger))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._is_closed and (caller is None or not caller.cancelling()):
                raise LedgerStoreClosedError("the ledger store was closed") from None
            raise

    async def aclose(self) -> None:
        """End the reads under way; their callers get LedgerStoreClosedError."""
        self._is_closed = True
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _ended(self, ledger: int, task: "asyncio.Task[T]") -> None:
        del self._under_way[ledger]
        if not task.cancelled():
            task.exception()  # Those who wait have it, if any is left.
