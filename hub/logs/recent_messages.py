"""The newest messages of topics with attached subscribers, in memory, within one bound for the whole hub."""

from collections import deque
from typing import Final

__all__ = ["RecentMessages", "Tail"]

_MESSAGE_BYTES: Final = 100
"""The approximate cost of a message besides its bytes."""


class RecentMessages:
    """Counts the bytes of all tails, and drops the oldest messages of all of them."""

    __slots__ = ("_bytes", "_bytes_max", "_order")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._order: deque[Tail] = deque()

    @property
    def bytes(self) -> int:
        return self._bytes

    def give_back(self, size: int) -> None:
        """Stop counting the bytes of messages that a tail dropped by itself."""
        self._bytes -= size

    def note(self, tail: "Tail", size: int) -> None:
        """Count a message that `tail` has just stored."""
        self._bytes += size + _MESSAGE_BYTES
        self._order.append(tail)
        while self._bytes > self._bytes_max and self._order:
            self._bytes -= self._order.popleft().drop_oldest() + _MESSAGE_BYTES


class Tail:
    """The newest messages of one topic, without gaps."""

    __slots__ = ("_first", "_memory", "_messages", "_stale")

    def __init__(self, memory: RecentMessages) -> None:
        self._memory = memory
        self._messages: deque[bytes] = deque()
        self._first = 0
        self._stale: deque[int] = deque()
        """The sizes to report for messages that were dropped before RecentMessages reached them."""

    @property
    def first(self) -> int | None:
        """The position of the oldest message in memory; None if there is none."""
        return self._first if self._messages else None

    def put(self, local: int, stored: bytes) -> None:
        """Store the message at position `local`; drop the messages before a gap."""
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
        """Drop all messages."""
        self._stale.extend(0 for _ in self._messages)
        self._memory.give_back(sum(map(len, self._messages)))
        self._first += len(self._messages)
        self._messages.clear()

    def drop_oldest(self) -> int:
        """Drop the message that RecentMessages counted first for this tail; return its size. Only it may call this."""
        if self._stale:
            return self._stale.popleft()
        self._first += 1
        return len(self._messages.popleft())
