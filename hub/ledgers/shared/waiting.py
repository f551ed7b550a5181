"""The records that wait for the next batch of a log, with a share of each batch for every virtual ledger."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from hedwig.hub.ledgers.shared.entries.batches import RECORD_BYTES, OpenBatch

__all__ = ["Sending", "Waiting"]

_SHARE_BYTES: Final = 64 * 1024
"""As much of a batch a slot gets before the others have their turn. So large messages do not hold up small ones."""

_Queue: TypeAlias = "deque[tuple[int, bytes, asyncio.Future[None]]]"
"""The records of one slot in order: entry id, payload, and the future of the append."""


@dataclass(slots=True)
class Sending:
    """A batch, with the future of each record."""

    batch: OpenBatch = field(default_factory=OpenBatch)
    futures: "list[asyncio.Future[None]]" = field(default_factory=list)


class Waiting:
    """Records in the order in which they arrived at their slots. Those of one slot never overtake each other."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}
        """The queues that are not empty. The one whose turn is next comes first."""
        self.size = 0
        """How many bytes the records take in batches."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, slot: int, entry_id: int, payload: bytes, future: "asyncio.Future[None]") -> None:
        """Let a record wait."""
        queue = self._queues.get(slot)
        if queue is None:
            queue = self._queues[slot] = deque()
        queue.append((entry_id, payload, future))
        self.size += RECORD_BYTES + len(payload)

    def take(self) -> Sending:
        """Return the next batch. It is empty only if nothing waits."""
        sending = Sending()
        batch, futures = sending.batch, sending.futures
        while self._queues:
            slot, queue = next(iter(self._queues.items()))
            share = 0
            while queue and (not share or share + len(queue[0][1]) <= _SHARE_BYTES):
                entry_id, payload, future = queue[0]
                size = len(payload)
                if not batch.takes(size):
                    return sending
                queue.popleft()
                batch.add(slot, entry_id, payload)
                futures.append(future)
                share += size or 1
                self.size -= RECORD_BYTES + size
            del self._queues[slot]
            if queue:
                self._queues[slot] = queue
        return sending

    def drop(self) -> "list[tuple[int, int, asyncio.Future[None]]]":
        """Return the slots, entry ids and futures of all that waited. Nothing waits afterwards."""
        dropped = [(slot, entry_id, future) for slot, queue in self._queues.items() for entry_id, _, future in queue]
        self._queues.clear()
        self.size = 0
        return dropped
