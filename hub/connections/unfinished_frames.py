"""Frames that have not arrived in full: how long each may take, and how many bytes all may hold together."""

import asyncio
import logging
from typing import Final, Protocol

from hedwig.concurrency.deadlines import Deadlines

__all__ = ["FrameSender", "UnfinishedFrames"]

_log = logging.getLogger(__name__)

_FREE: Final = 16 * 1024
"""How many bytes a frame may hold without being counted."""
_STALLED_S: Final = 1.0
"""A frame has stalled if the hub reads its connection and has received nothing for N seconds."""


class FrameSender(Protocol):
    """A connection on which frames arrive."""

    peer: str

    def close(self) -> None:
        """End the connection; `UnfinishedFrames.over` is called meanwhile."""
        ...


class UnfinishedFrames:
    """Counts the bytes of incomplete frames, and ends connections whose frames take too long or too much memory.

    When all frames hold too much, the connection of the oldest ends, not that of the newest. A stalled frame goes
    before any that arrives slowly. Time in which the hub does not read a connection does not count.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, frame_s: float, bytes_max: int) -> None:
        self._loop = loop
        self._frame_s = frame_s
        self._bytes_max = bytes_max
        self._deadlines = Deadlines(loop, frame_s, self._end_late)
        self._sizes: dict[FrameSender, int] = {}
        """The bytes of each counted frame, the oldest first."""
        self._read: dict[FrameSender, float] = {}
        """When the last bytes of each counted frame arrived whose connection the hub reads, in this order."""
        self.bytes = 0
        self.late = 0
        """How many connections ended because a frame took too long."""
        self.displaced = 0
        """How many connections ended because all frames held too much."""

    def grow(self, sender: FrameSender, size: int, *, is_read: bool) -> None:
        """Record that `size` bytes of a frame have arrived, and whether the hub reads on.

        Complete frames before it that are not begun count as part of it. The hub does not read on meanwhile.
        """
        if is_read:
            self._deadlines.begin(sender)
        else:
            self.pause(sender)
        before = self._sizes.get(sender, 0)
        if not before and size <= _FREE:
            return
        self._sizes[sender] = size
        self.bytes += size - before
        if is_read:
            self._touch(sender)
        while self.bytes > self._bytes_max:
            self._displace()

    def over(self, sender: FrameSender) -> None:
        """Record that a frame is complete, or given up."""
        self._deadlines.end(sender)
        if sender in self._sizes:
            self.bytes -= self._sizes.pop(sender)
            self._read.pop(sender, None)

    def pause(self, sender: FrameSender) -> None:
        """Record that the hub has stopped reading the connection in the middle of a frame."""
        self._deadlines.end(sender)
        self._read.pop(sender, None)

    def go_on(self, sender: FrameSender) -> None:
        """Record that the hub reads the connection again. The frame gets its full time, as its used time is unknown."""
        self._deadlines.begin(sender)
        if sender in self._sizes:
            self._touch(sender)

    def _touch(self, sender: FrameSender) -> None:
        self._read.pop(sender, None)
        self._read[sender] = self._loop.time()

    def _displace(self) -> None:
        sender = next(iter(self._sizes))
        waits = next(iter(self._read), sender)
        if waits in self._read and self._loop.time() - self._read[waits] >= _STALLED_S:
            sender = waits
        self.displaced += 1
        _log.warning(
            "%s: closing the connection: the unfinished frames hold more than %d bytes, and the hub drops its own",
            sender.peer,
            self._bytes_max,
        )
        self.over(sender)
        sender.close()

    def _end_late(self, sender: FrameSender) -> None:
        self.late += 1
        _log.warning("%s: closing the connection: a frame has not arrived within %g s", sender.peer, self._frame_s)
        sender.close()
