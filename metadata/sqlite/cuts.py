"""Where to cut a table of unknown length: keys at even distances along a walk through it, from which some are chosen.

Counting the rows first would be one statement over the whole file. That takes minutes if the file is large and not in
memory. A walk takes no longer in all, and each of its steps has the whole operation timeout.
"""

from typing import Final, Generic, TypeVar

from hedwig.metadata.contract.key_ranges import steps

__all__ = ["Cuts"]

P = TypeVar("P")

_FINE: Final = 8
"""The fewest keys kept for each part, so that the parts differ by at most an eighth."""
_STRIDE_MAX: Final = 20_000
"""The most rows that one step passes: some megabytes of a file."""


class Cuts(Generic[P]):
    """Takes the keys of a walk, each `stride` rows behind the one before, and chooses some at the end of it."""

    def __init__(self, parts: int, rows_min: int) -> None:
        self._parts = parts
        self._rows_min = rows_min
        self._grain = max(1, rows_min // _FINE)
        self._kept: list[P] = []
        """The keys at each multiple of the grain but 0."""
        self._rows = 0

    @property
    def stride(self) -> int:
        """Return how many rows behind the last key the next one is."""
        return min(self._grain * (len(self._kept) + 1) - self._rows, _STRIDE_MAX)

    def passed(self, key: P) -> None:
        """Take the next key."""
        self._rows += self.stride
        if self._rows < self._grain * (len(self._kept) + 1):
            return
        self._kept.append(key)
        if len(self._kept) == 2 * _FINE * self._parts:
            self._kept = self._kept[1::2]
            self._grain *= 2

    def end(self, rows: int) -> None:
        """End the walk: from the last key on there are `rows` rows, and no more."""
        self._rows += rows

    @property
    def rows_each(self) -> int:
        """Return about how many rows a part has: together as many as there are."""
        return -(-self._rows // (len(self.chosen()) + 1))

    def chosen(self) -> list[P]:
        """Return the keys between the parts, in their order."""
        step = steps(self._rows, self._parts, self._rows_min)
        return [self._kept[row // self._grain - 1] for row in range(step, self._rows, step)]
