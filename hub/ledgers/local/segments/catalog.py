"""What a store knows without reading: which ledgers exist, and which segments may hold a ledger.

The catalog keeps groups of 256 consecutive ledger ids. A group has one bit for each ledger that exists, and the
segments in which any of them has a record. That is a byte or two per ledger. The indexes of those segments then tell
which of them hold a given ledger.
"""

import threading
from array import array
from bisect import insort
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hedwig.hub.ledgers.local.segments.index import MemoryIndex
from hedwig.hub.ledgers.local.segments.index_file import DiskIndex
from hedwig.hub.ledgers.local.segments.records import FIRST_RECORD

__all__ = ["Catalog", "Segment"]

_GROUP_BITS: Final = 8
_GROUP: Final = 1 << _GROUP_BITS


class Segment:
    """A segment file. `end` is its acknowledged length.

    `placed` orders the segments by when they got their index files.
    """

    __slots__ = ("damaged", "end", "index", "live_bytes", "number", "path", "placed", "salt", "tombstones_kept")

    def __init__(self, number: int, path: Path, salt: int) -> None:
        self.number = number
        self.path = path
        self.salt = salt
        self.end = FIRST_RECORD
        self.index: MemoryIndex | DiskIndex = MemoryIndex()
        self.placed = 0
        self.live_bytes = 0
        self.damaged = False
        self.tombstones_kept = -1
        """The count of removed segments at which its DELETE records were last found to be needed, -1 for never."""


class _Group:
    __slots__ = ("exist", "segments")

    def __init__(self) -> None:
        self.exist = 0
        self.segments = array("Q")


class Catalog:
    """The ledgers and the segments. Hold `lock` for every method but `has`, and to read several attributes together."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.next_ledger_id = 1
        self.ledgers = 0
        self.unplaced: dict[int, Segment] = {}
        """Segments whose index is in memory: the active one, and those that have no index file yet."""
        self.placed: dict[int, Segment] = {}
        self.placings = 0
        self.removals = 0
        self.stale: set[int] = set()
        """Segments that may hold ledgers deleted since their live bytes were counted."""
        self.damaged: list[tuple[Path, int]] = []
        self.damage_count = 0
        self._groups: dict[int, _Group] = {}

    def exists(self, ledger_id: int) -> bool:
        group = self._groups.get(ledger_id >> _GROUP_BITS)
        return group is not None and bool(group.exist >> (ledger_id & _GROUP - 1) & 1)

    def has(self, ledger_id: int) -> bool:
        """Say whether a ledger exists, for a caller that does not hold `lock`."""
        with self.lock:
            return self.exists(ledger_id)

    def add_ledger(self, ledger_id: int) -> None:
        group = self._groups.get(ledger_id >> _GROUP_BITS)
        if group is None:
            group = self._groups[ledger_id >> _GROUP_BITS] = _Group()
        bit = 1 << (ledger_id & _GROUP - 1)
        if not group.exist & bit:
            group.exist |= bit
            self.ledgers += 1
        self.next_ledger_id = max(self.next_ledger_id, ledger_id + 1)

    def delete_ledger(self, ledger_id: int) -> None:
        """Forget the ledger; the segments that may hold it become stale."""
        group = self._groups.get(ledger_id >> _GROUP_BITS)
        bit = 1 << (ledger_id & _GROUP - 1)
        if group is None or not group.exist & bit:
            return
        group.exist &= ~bit
        self.ledgers -= 1
        self.stale.update(group.segments)
        self.stale.update(self.unplaced)
        self._drop_if_empty(ledger_id >> _GROUP_BITS, group)

    def groups(self) -> list[int]:
        """Return the numbers of the groups in which ledgers exist, ascending; see `group_ledgers`."""
        return sorted(number for number, group in self._groups.items() if group.exist)

    def group_ledgers(self, number: int) -> list[int]:
        group = self._groups.get(number)
        exist = group.exist if group is not None else 0
        return [number << _GROUP_BITS | bit for bit in range(_GROUP) if exist >> bit & 1]

    def group_numbers(self, ledger_ids: Iterator[int]) -> set[int]:
        """Return the groups of some ledgers."""
        return {ledger_id >> _GROUP_BITS for ledger_id in ledger_ids}

    def mark_placed(self, segment: Segment, index: DiskIndex, groups: set[int]) -> None:
        """Give a segment its index file, which holds records of ledgers of `groups`."""
        self.placings += 1
        segment.index = index
        segment.placed = self.placings
        segment.live_bytes = segment.end
        self.unplaced.pop(segment.number, None)
        self.placed[segment.number] = segment
        self.stale.add(segment.number)
        for number in groups:
            group = self._groups.get(number)
            if group is None:
                group = self._groups[number] = _Group()
            if segment.number not in group.segments:
                insort(group.segments, segment.number)

    def remove(self, segment: Segment) -> None:
        """Forget a segment. Segments that were kept for their DELETE records become stale: they may be needless now."""
        self.removals += 1
        self.placed.pop(segment.number, None)
        self.unplaced.pop(segment.number, None)
        self.stale.discard(segment.number)
        for number, group in list(self._groups.items()):
            if segment.number in group.segments:
                group.segments.remove(segment.number)
                self._drop_if_empty(number, group)
        self.stale.update(other.number for other in self.placed.values() if other.tombstones_kept >= 0)

    def candidates(self, ledger_id: int) -> list[Segment]:
        """Return the placed segments that may hold the ledger, oldest first."""
        group = self._groups.get(ledger_id >> _GROUP_BITS)
        return [self.placed[number] for number in group.segments if number in self.placed] if group is not None else []

    def note_damage(self, path: Path, offset: int) -> None:
        """Count an unreadable location, and keep the first 1000 of them."""
        if (path, offset) in self.damaged:
            return
        self.damage_count += 1
        if len(self.damaged) < 1000:
            self.damaged.append((path, offset))

    def _drop_if_empty(self, number: int, group: _Group) -> None:
        if not group.exist and not group.segments:
            del self._groups[number]
