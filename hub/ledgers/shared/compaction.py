"""The merging of sealed segments that follow each other into one, which has the live records only, sorted by slot.

Ids of virtual ledgers name a log and a slot. So no record of a topic changes. After it, the records of a slot are in as
few batches as they fill.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from hedwig.errors import LedgerError
from hedwig.hub.ledgers.shared.entries.batches import OpenBatch
from hedwig.hub.ledgers.shared.entries.runs import GrowingRuns
from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader, batches_of
from hedwig.hub.ledgers.shared.sealing import Noting, look_at, seal_behind_batches
from hedwig.hub.ledgers.store import LedgerStore
from hedwig.metadata.logs.record import Segment

__all__ = ["merge_segments"]

_PASS_BYTES_MAX: Final = 32 << 20
"""How much one pass over the segments keeps in memory."""
_HELD_RECORD_BYTES: Final = 100
"""What a payload takes in memory besides its bytes."""
_UNDER_WAY_MAX: Final = 4


async def merge_segments(
    ledgers: LedgerStore,
    reader: SegmentReader,
    ledger: int,
    segments: Sequence[Segment],
    is_live: Callable[[int], bool],
    noting: Noting,
    moved: Callable[[int], Awaitable[None]],
) -> Segment | None:
    """Write the live records of some segments into the new `ledger`; return the segment there, None if nothing is live.

    Args: is_live - says whether the records of a slot are needed; noting - sees the runs of the new segment; moved -
        awaited after each batch that was read, with its bytes.

    Raises: LedgerError - the ledger holds a part at most; CorruptEntryError - a segment is damaged.
    """
    sizes = await _live_sizes(reader, segments, is_live)
    if not sizes:
        return None
    writer = _Writer(ledgers, ledger)
    for slots in _passes(sizes):
        held = await _collect(ledgers, segments, slots, moved)
        for slot in sorted(held):
            _check_whole(slot, sizes[slot][0], held[slot])
            for entry_id, payload in held[slot]:
                await writer.add(slot, entry_id, payload)
    await writer.finish()
    return await seal_behind_batches(ledgers, ledger, writer.runs, writer.last_entry, noting)


async def _live_sizes(
    reader: SegmentReader, segments: Sequence[Segment], is_live: Callable[[int], bool]
) -> dict[int, tuple[int, int]]:
    """Return for each live slot how many records it has, and how many bytes these take in memory."""
    sizes: dict[int, tuple[int, int]] = {}
    for segment in segments:
        async for block in reader.blocks(segment):
            for slot, count, size in zip(block.slots, block.counts, block.sizes, strict=True):
                if slot in sizes or is_live(slot):
                    records, held = sizes.get(slot, (0, 0))
                    sizes[slot] = records + count, held + size + count * _HELD_RECORD_BYTES
    return sizes


def _passes(sizes: dict[int, tuple[int, int]]) -> Iterator[set[int]]:
    """Yield sets of slots, ascending, each of which fits into memory. A slot alone may be larger."""
    chosen: set[int] = set()
    held = 0
    for slot in sorted(sizes):
        size = sizes[slot][1]
        if chosen and held + size > _PASS_BYTES_MAX:
            yield chosen
            chosen, held = set(), 0
        chosen.add(slot)
        held += size
    if chosen:
        yield chosen


async def _collect(
    ledgers: LedgerStore, segments: Sequence[Segment], slots: set[int], moved: Callable[[int], Awaitable[None]]
) -> dict[int, list[tuple[int, bytes]]]:
    held: dict[int, list[tuple[int, bytes]]] = {slot: [] for slot in slots}
    lowest, highest = min(slots), max(slots)
    for segment in segments:
        if segment.highest_slot < lowest or highest < segment.lowest_slot:
            continue
        async for _, batch in batches_of(ledgers, segment.ledger, await ledgers.last_entry_id(segment.ledger)):
            for index, (slot, entry_id, _) in enumerate(batch.records()):
                if slot in slots:
                    held[slot].append((entry_id, batch.payload(index)))
            await moved(len(batch.data))
    return held


def _check_whole(slot: int, count: int, records: list[tuple[int, bytes]]) -> None:
    """Raise if the batches have other records of a slot than the footers say. What is not understood is not deleted."""
    first = records[0][0] if records else 0
    if len(records) != count or any(entry_id != first + index for index, (entry_id, _) in enumerate(records)):
        raise LedgerError(f"slot {slot} has other records than the footers of its segments say")


class _Writer:
    """Writes batches into a ledger, a few at a time."""

    def __init__(self, ledgers: LedgerStore, ledger: int) -> None:
        self._ledgers = ledgers
        self._ledger = ledger
        self._batch = OpenBatch()
        self._under_way: deque[asyncio.Future[None]] = deque()
        self.runs = GrowingRuns()
        self.last_entry = -1

    async def add(self, slot: int, entry_id: int, payload: bytes) -> None:
        if not self._batch.takes(len(payload)):
            await self._send()
        self._batch.add(slot, entry_id, payload)

    async def finish(self) -> None:
        if self._batch:
            await self._send()
        while self._under_way:
            await self._under_way.popleft()

    async def _send(self) -> None:
        records, batch = self._batch.records, self._batch.encode()
        self._batch = OpenBatch()
        self.last_entry += 1
        append = self._ledgers.start_append(self._ledger, self.last_entry, batch.data)
        append.add_done_callback(look_at)
        self._under_way.append(append)
        self.runs.add(self.last_entry, records)
        if len(self._under_way) == _UNDER_WAY_MAX:
            await self._under_way.popleft()
