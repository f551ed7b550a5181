"""What the sealed segments of logs hold of many ledgers, by their footers. Each footer is read once."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from hedwig.errors import CorruptEntryError
from hedwig.hub.ledgers.shared.entries.columns import column
from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader
from hedwig.metadata.logs.record import Segment

__all__ = ["LogContents"]

_AT_ONCE: Final = 8


class _Extents:
    """Which entries a segment has of each slot: 12 bytes a slot."""

    __slots__ = ("counts", "firsts", "slots")

    def __init__(self) -> None:
        self.slots = column()
        self.firsts = column()
        self.counts = column()

    def note(self, slot: int, first: int, count: int) -> None:
        """Note a run. Runs come sorted. One that does not follow the run before it is left out."""
        if not self.slots or self.slots[-1] != slot:
            self.slots.append(slot)
            self.firsts.append(first)
            self.counts.append(count)
        elif first == self.firsts[-1] + self.counts[-1]:
            self.counts[-1] += count

    def following(self, slot: int, entry_id: int) -> int:
        """Return the entry behind those that the segment has of a slot from `entry_id` on without gap."""
        number = bisect_left(self.slots, slot)
        if number == len(self.slots) or self.slots[number] != slot or self.firsts[number] > entry_id:
            return entry_id
        return max(entry_id, self.firsts[number] + self.counts[number])


class LogContents:
    """Knows the entries of slots in sealed segments."""

    def __init__(self, reader: SegmentReader) -> None:
        self._reader = reader
        self._held: dict[int, _Extents] = {}
        """By the ledger of the footer."""
        self.damaged: dict[int, str] = {}
        """The segments whose footers cannot be read, by the ledger of the footer, and why."""

    async def last_entries(self, segments: Sequence[Segment], slots: Sequence[int]) -> dict[int, int]:
        """Return for each of `slots`, which ascend, the last entry up to which `segments` have all; -1 for none.

        Raises: NoSuchLedgerError - a segment is not there; LedgerStoreUnavailableError.
        """
        parts = [
            (each, slots[bisect_left(slots, each.lowest_slot) : bisect_right(slots, each.highest_slot)])
            for each in segments
        ]
        needed = [(each, part) for each, part in parts if part]
        await self._load([each for each, _ in needed if each.footer not in self._held])
        following = dict.fromkeys(slots, 0)
        for each, part in needed:
            extents = self._held[each.footer]
            for slot in part:
                following[slot] = extents.following(slot, following[slot])
        return {slot: entry - 1 for slot, entry in following.items()}

    async def _load(self, segments: Sequence[Segment]) -> None:
        waiting = iter(segments)

        async def work() -> None:
            for segment in waiting:
                self._held[segment.footer] = await self._read(segment)

        for outcome in await asyncio.gather(*(work() for _ in range(_AT_ONCE)), return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _read(self, segment: Segment) -> _Extents:
        extents = _Extents()
        try:
            async for block in self._reader.blocks(segment):
                for slot, first, count in zip(block.slots, block.firsts, block.counts, strict=True):
                    extents.note(slot, first, count)
        except CorruptEntryError as exc:
            self.damaged[segment.footer] = str(exc)
        return extents
