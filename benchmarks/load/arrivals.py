"""Whether messages arrive once and in order."""

__all__ = ["Arrivals"]


class Arrivals:
    """What each subscriber of each topic has received; operations to one topic are published in the order of numbers.

    That all arrive is for the load to see: an operation is finished only when every subscriber has its message.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}

    def is_next(self, topic: int, subscriber: int, number: int) -> bool:
        """Take note of a message; return whether it came behind all before it, and so for the first time."""
        last = self._last.get((topic, subscriber), -1)
        self._last[topic, subscriber] = max(last, number)
        return number > last
