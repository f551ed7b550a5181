"""Connections whose clients must log in, and have not yet: few of them, for a short time, with small frames."""

import asyncio
import logging
from typing import Final, Protocol

__all__ = ["Newcomer", "Newcomers"]

_log = logging.getLogger(__name__)

_FRAME_BYTES_MAX: Final = 20 * 1024
"""Room for the largest step of a login."""


class Newcomer(Protocol):
    """A connection whose client must log in."""

    peer: str

    def limit_frames(self, frame_bytes_max: int | None) -> None: ...
    def close(self) -> None: ...


class Newcomers:
    """Closes the connection of whoever takes longer than `login_s`, and that of the oldest if there are too many."""

    def __init__(self, login_s: float, most: int) -> None:
        self._login_s = login_s
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Newcomer, float] = {}
        """Until when each may log in, the first ones first, by the clock of the event loop."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, channel: Newcomer) -> None:
        """Note a connection that was just opened."""
        channel.limit_frames(_FRAME_BYTES_MAX)
        self._waiting[channel] = self._loop.time() + self._login_s
        if len(self._waiting) > self._most:
            self._end(next(iter(self._waiting)), f"more than {self._most} clients have not logged in")
        self._wait()

    def remove(self, channel: Newcomer) -> None:
        """Note that a client has logged in, or that its connection is over."""
        if self._waiting.pop(channel, None) is not None:
            channel.limit_frames(None)

    def close(self) -> None:
        """Look after none of them any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = self._loop.call_at(next(iter(self._waiting.values())), self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for channel, latest in list(self._waiting.items()):
            if latest > now:
                break
            self._end(channel, f"it has not logged in within {self._login_s:g} s")
        self._wait()

    def _end(self, channel: Newcomer, why: str) -> None:
        del self._waiting[channel]
        _log.info("%s: closing the connection: %s", channel.peer, why)
        channel.close()
