"""The gate of a channel through which requests go whose answers may be much larger than they are.

A SUBSCRIBE of thirty bytes is answered with all the preferences of the subscription, up to half a megabyte. A client
that sends thousands and reads nothing would have the hub keep all those answers; behind the gate they wait as requests.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["AnswerGate"]

_INSIDE_MAX: Final = 128


class AnswerGate:
    """Lets so many requests in at once, in the order in which they came, and none while `is_full` says so."""

    __slots__ = ("_inside", "_is_full", "_waiting")

    def __init__(self, is_full: Callable[[], bool]) -> None:
        self._is_full = is_full
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for room; call `leave` after the answer."""
        if not self._waiting and self._has_room():
            self._inside += 1
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except BaseException:
            if waiting.done() and not waiting.cancelled():
                self.leave()  # It was let in, and left in the same moment.
            raise

    def leave(self) -> None:
        """Make room."""
        self._inside -= 1
        self.go_on()

    def go_on(self) -> None:
        """Let in whoever waits, as far as there is room."""
        while self._waiting and self._has_room():
            waiting = self._waiting.popleft()
            if not waiting.done():
                self._inside += 1
                waiting.set_result(None)

    def _has_room(self) -> bool:
        return self._inside < _INSIDE_MAX and not self._is_full()
