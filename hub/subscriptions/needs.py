"""What the subscribers of a topic need of it."""

__all__ = ["Needs"]


class Needs:
    """What the added subscribers need of a topic: every message after `lowest`."""

    def __init__(self, last_id: int) -> None:
        self.last_id = last_id
        self._consumed = last_id
        self._bound: int | None = 0

    def add(self, consumed: int, bound: int | None) -> None:
        """Add a subscriber that has consumed up to `consumed`, and gets at most the last `bound` messages if bound."""
        self._consumed = min(self._consumed, consumed)
        self._bound = max(self._bound, bound) if self._bound is not None and bound else None

    @property
    def lowest(self) -> int:
        # If all subscribers have a bound, none gets a message that is older than the largest bound.
        return max(self._consumed, self.last_id - self._bound) if self._bound else self._consumed
