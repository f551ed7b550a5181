"""The decoded entries of segments in memory, up to a number of bytes."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from hedwig.hub.ledgers.shared.entries.batches import Batch

__all__ = ["BatchCache", "EntryCache", "batch_cache"]

T = TypeVar("T")


class EntryCache(Generic[T]):
    """Entries by ledger and number. The one that was not used for longest goes first."""

    def __init__(self, bytes_max: int, size_of: Callable[[T], int]) -> None:
        self._bytes_max = bytes_max
        self._size_of = size_of
        self._held: OrderedDict[tuple[int, int], T] = OrderedDict()
        self.size = 0

    def put(self, ledger: int, entry: int, decoded: T) -> None:
        """Keep an entry."""
        key = ledger, entry
        known = self._held.pop(key, None)
        if known is not None:
            self.size -= self._size_of(known)
        self._held[key] = decoded
        self.size += self._size_of(decoded)
        while self.size > self._bytes_max:
            _, dropped = self._held.popitem(last=False)
            self.size -= self._size_of(dropped)

    def get(self, ledger: int, entry: int) -> T | None:
        """Return an entry if it is in memory."""
        key = ledger, entry
        decoded = self._held.get(key)
        if decoded is not None:
            self._held.move_to_end(key)
        return decoded


BatchCache: TypeAlias = EntryCache[Batch]


def batch_cache(bytes_max: int) -> BatchCache:
    """Return a cache of the newest batches, whoever wrote or read them."""
    return EntryCache(bytes_max, lambda batch: len(batch.data))
