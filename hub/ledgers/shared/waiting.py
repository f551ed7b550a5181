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
        self._next = Sending()
        """The next batch. It takes what arrives, as long as nothing is in queues behind it."""
        self._queues: dict[int, _Queue] = {}
        """The queues that are not empty. The one whose turn is next comes first."""
        self.size = 0
        """How many bytes the records take in batches."""

    def __bool__(self) -> bool:
        return bool(self.size)

    def add(self, slot: int, entry_id: int, payload: bytes, future: "asyncio.Future[None]") -> None:
        """Let a record wait."""
        self.size += RECORD_BYTES + len(payload)
        following = self._next
        if not self._queues and following.batch.takes(len(payload)):
            following.batch.add(slot, entry_id, payload)
            following.futures.append(future)
            return
        queue = self._queues.get(slot)
        if queue is None:
            queue = self._queues[slot] = deque()
        queue.append((entry_id, payload, future))

    def take(self) -> Sending:
        """Return the next batch. It is empty only if nothing waits."""
        sending, self._next = self._next, Sending()
        self.size -= sending.batch.records_bytes
        if self._queues:
            self._fill(self._next)
        return sending

    def _fill(self, following: Sending) -> None:
        batch, futures = following.batch, following.futures
        while self._queues:
            slot, queue = next(iter(self._queues.items()))
            share = 0
            while queue and (not share or share + len(queue[0][1]) <= _SHARE_BYTES):
                entry_id, payload, future = queue[0]
                size = len(payload)
                if not batch.takes(size):
                    return
                queue.popleft()
                batch.add(slot, entry_id, payload)
                futures.append(future)
                share += size or 1
            del self._queues[slot]
            if queue:
                self._queues[slot] = queue

    def drop(self) -> "list[tuple[int, int, asyncio.Future[None]]]":
        """Return the slots, entry ids and futures of all that waited. Nothing waits afterwards."""
        following, queues = self._next, self._queues
        self._next, self._queues, self.size = Sending(), {}, 0
        numbers = [(slot, entry_id) for slot, entry_id, _ in following.batch.records]
        dropped = [(*each, future) for each, future in zip(numbers, following.futures, strict=True)]
        dropped += [(slot, entry_id, future) for slot, queue in queues.items() for entry_id, _, future in queue]
        return dropped
