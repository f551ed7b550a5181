"""The newest batches in memory, whoever wrote or read them, up to a number of bytes."""

from collections import OrderedDict

from hedwig.hub.ledgers.shared.batches import Batch

__all__ = ["BatchCache"]


class BatchCache:
    """Batches by ledger and entry. The one that was not used for longest goes first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[tuple[int, int], Batch] = OrderedDict()
        self.size = 0

    def put(self, ledger: int, entry: int, batch: Batch) -> None:
        """Keep a batch."""
        key = ledger, entry
        known = self._held.pop(key, None)
        if known is not None:
            self.size -= len(known.data)
        self._held[key] = batch
        self.size += len(batch.data)
        while self.size > self._bytes_max:
            _, dropped = self._held.popitem(last=False)
            self.size -= len(dropped.data)

    def get(self, ledger: int, entry: int) -> Batch | None:
        """Return a batch if it is in memory."""
        key = ledger, entry
        batch = self._held.get(key)
        if batch is not None:
            self._held.move_to_end(key)
        return batch
