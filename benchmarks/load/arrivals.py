"""Whether messages arrive once and in order."""

__all__ = ["Arrivals"]


class Arrivals:
    """What each subscriber of each topic has received; operations to one topic are published in the order of numbers.

    The load checks that all messages arrive: an operation is finished only when every subscriber has its message.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}

    def is_next(self, topic: int, subscriber: int, number: int) -> bool:
        """Record a message; return whether its number is above all before, so that this is its first arrival."""
        last = self._last.get((topic, subscriber), -1)
        self._last[topic, subscriber] = max(last, number)
        return number > last
