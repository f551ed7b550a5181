"""A lock for each key, so that work on one key happens one after the other."""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

__all__ = ["KeyedLock"]


class KeyedLock:
    """A lock for each key, first come, first served. It exists only while a caller has it or waits for it."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Future[None]]] = {}

    def is_taken(self, key: Hashable) -> bool:
        return key in self._waiting

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for the lock of `key`, and hold it."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
        else:
            mine = get_running_loop().create_future()
            waiting.append(mine)
            try:
                await mine
            except BaseException:
                if mine.done() and not mine.cancelled():
                    self._pass_on(key)  # This caller got the turn in the very moment in which it was cancelled.
                elif mine in waiting:
                    waiting.remove(mine)
                # Else the previous holder has already skipped this caller.
                raise
        try:
            yield
        finally:
            self._pass_on(key)

    def _pass_on(self, key: Hashable) -> None:
        waiting = self._waiting[key]
        while waiting:
            following = waiting.popleft()
            if not following.done():
                following.set_result(None)
                return
        del self._waiting[key]
