"""A compact set of ledger ids, eight bytes each."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = ["LedgerIdSet"]

_RUN: Final = 1 << 16


class LedgerIdSet:
    """A set of ledger ids that only grows. A lookup costs one search in each run of 65,536 ids."""

    def __init__(self) -> None:
        self._runs: list[array[int]] = []
        self._fresh: set[int] = set()

    def update(self, ledger_ids: Iterable[int]) -> None:
        """Add ids."""
        self._fresh.update(ledger_ids)
        if len(self._fresh) >= _RUN:
            self._runs.append(array("Q", sorted(self._fresh)))
            self._fresh = set()

    def pages(self, most: int) -> Iterator[list[int]]:
        """Iterate over all ids, in lists of at most `most`. An id that was added in two runs comes twice."""
        for run in (*self._runs, array("Q", sorted(self._fresh))):
            for start in range(0, len(run), most):
                yield run[start : start + most].tolist()

    def __contains__(self, ledger_id: int) -> bool:
        return ledger_id in self._fresh or any(_has(run, ledger_id) for run in self._runs)

    def __bool__(self) -> bool:
        return bool(self._fresh or self._runs)


def _has(run: "array[int]", ledger_id: int) -> bool:
    index = bisect_left(run, ledger_id)
    return index < len(run) and run[index] == ledger_id
