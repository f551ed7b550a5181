"""A lock for each key: what concerns one key happens one after the other."""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

__all__ = ["KeyedLock"]


class KeyedLock:
    """A lock for each key, that exists only while somebody has it or waits for it; first come, first served."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Future[None]]] = {}

    def is_taken(self, key: Hashable) -> bool:
        return key in self._waiting

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait until nobody else has `key`, and have it."""
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
                    self._pass_on(key)  # The turn was given to a caller that left in the same moment.
                elif mine in waiting:
                    waiting.remove(mine)
                # Else whoever had the turn has passed this caller over already.
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
