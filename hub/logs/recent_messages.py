"""The newest messages of topics that somebody is attached to, in memory, within one bound for the whole hub."""

from collections import deque
from typing import Final

__all__ = ["RecentMessages", "Tail"]

_MESSAGE_BYTES: Final = 100
"""What a message costs besides its bytes, roughly."""


class RecentMessages:
    """Counts what all tails hold, and drops what is oldest over all of them."""

    __slots__ = ("_bytes", "_bytes_max", "_order")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._order: deque[Tail] = deque()

    @property
    def bytes(self) -> int:
        return self._bytes

    def give_back(self, size: int) -> None:
        """Stop counting the bytes of messages that a tail let go by itself."""
        self._bytes -= size

    def note(self, tail: "Tail", size: int) -> None:
        """Count a message that `tail` has just taken."""
        self._bytes += size + _MESSAGE_BYTES
        self._order.append(tail)
        while self._bytes > self._bytes_max and self._order:
            self._bytes -= self._order.popleft().drop_oldest() + _MESSAGE_BYTES


class Tail:
    """The newest messages of one topic, without gap."""

    __slots__ = ("_first", "_memory", "_messages", "_stale")

    def __init__(self, memory: RecentMessages) -> None:
        self._memory = memory
        self._messages: deque[bytes] = deque()
        self._first = 0
        self._stale: deque[int] = deque()
        """Sizes of messages that were let go before the memory's turn came to them."""

    @property
    def first(self) -> int | None:
        """The position of the oldest message that is here; None if there is none."""
        return self._first if self._messages else None

    def put(self, local: int, stored: bytes) -> None:
        """Take the message at position `local`; what was here before a gap goes."""
        if local != self._first + len(self._messages):
            self.clear()
            self._first = local
        self._messages.append(stored)
        self._memory.note(self, len(stored))

    def get(self, local: int) -> bytes | None:
        index = local - self._first
        if 0 <= index < len(self._messages):
            return self._messages[index]
        return None

    def clear(self) -> None:
        """Let everything go."""
        self._stale.extend(0 for _ in self._messages)
        self._memory.give_back(sum(map(len, self._messages)))
        self._first += len(self._messages)
        self._messages.clear()

    def drop_oldest(self) -> int:
        """Drop what the memory counted first for this tail; return its size. For the memory only."""
        if self._stale:
            return self._stale.popleft()
        self._first += 1
        return len(self._messages.popleft())
