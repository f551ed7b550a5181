"""Where the records of each ledger are in one segment. The index is in memory while the segment is written.

A row is a pair of numbers, sorted by the first within a ledger:

    key 0                     the ledger was made                   value 0
    key entry id + 1          an entry                              value offset << 32 | payload bytes
    key 2^63 + record kind    it was sealed (CLOSE, FENCE)          value last entry id + 1
                              it was deleted (DELETE)               value 0
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hedwig.hub.ledgers.local.segments.records import RECORD_HEADER_BYTES, SegmentRecordKind

__all__ = [
    "DELETE_KEY",
    "MARKS",
    "Holding",
    "LedgerShare",
    "MemoryIndex",
    "Row",
    "SegmentIndex",
    "holding_of",
    "row_of",
    "stored_bytes",
]

MARKS: Final = 1 << 63
"""Keys from this one on are not of entries."""
DELETE_KEY: Final = MARKS + SegmentRecordKind.DELETE
_MARKS_MAX: Final = 3

Row = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one segment holds of one ledger.

    `first` and `last` are entry ids, -1 if there is no entry. `sealed` is the last entry id that a seal names, and
    `sealed_by` the kind of the seal; both are None without a seal.
    """

    first: int
    last: int
    sealed: int | None
    sealed_by: SegmentRecordKind | None


@dataclass(frozen=True, slots=True)
class LedgerShare:
    """How much of a segment belongs to a ledger. `deleted` says that the segment has the ledger's DELETE record."""

    ledger_id: int
    stored_bytes: int
    deleted: bool


class SegmentIndex(Protocol):
    """What readers and the upkeep ask of an index."""

    def holding(self, ledger_id: int) -> Holding | None:
        """Return what the segment holds of the ledger, None for nothing."""
        ...

    def rows(self, ledger_id: int, first_entry_id: int, most: int) -> list[Row]:
        """Return the rows of at most `most` entries from `first_entry_id` on, ascending."""
        ...

    def shares(self) -> Iterator[LedgerShare]:
        """Yield the share of each ledger."""
        ...


def row_of(kind: int, entry: int, offset: int, payload_bytes: int) -> Row:
    """Return the row of a record."""
    if kind == SegmentRecordKind.ENTRY:
        return entry + 1, offset << 32 | payload_bytes
    if kind == SegmentRecordKind.CREATE:
        return 0, 0
    return MARKS + kind, entry


def holding_of(head: Sequence[Row], tail: Sequence[Row]) -> Holding:
    """Return the summary of a ledger's rows. `head` is the first two of them, `tail` the last four, or fewer."""
    first = next((key - 1 for key, _ in head if 0 < key < MARKS), -1)
    last = next((key - 1 for key, _ in reversed(tail) if 0 < key < MARKS), -1)
    for key, value in tail:
        if key in (MARKS + SegmentRecordKind.CLOSE, MARKS + SegmentRecordKind.FENCE):
            return Holding(first=first, last=last, sealed=value - 1, sealed_by=SegmentRecordKind(key - MARKS))
    return Holding(first=first, last=last, sealed=None, sealed_by=None)


class MemoryIndex:
    """The index of a segment that is being written, or waits for its index file.

    Threads that share it hold a lock. A record costs 16 bytes. A ledger with several records also costs an array.
    """

    def __init__(self) -> None:
        self._keys = array("Q")
        self._values = array("Q")
        self._numbers: dict[int, int | array[int]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, ledger_id: int, key: int, value: int) -> None:
        """Add a row. If the ledger has its key already, the row is a copy, and is left out."""
        keys = self._keys
        number = len(keys)
        keys.append(key)
        self._values.append(value)
        held = self._numbers.get(ledger_id)
        if held is None:
            self._numbers[ledger_id] = number
            return
        if isinstance(held, int):
            held = self._numbers[ledger_id] = array("I", (held,))
        if keys[held[-1]] < key:
            held.append(number)
            return
        position = bisect_left(held, key, key=keys.__getitem__)
        if keys[held[position]] != key:
            held.insert(position, number)

    def ledger_rows(self, ledger_id: int) -> list[Row]:
        """Return all rows of a ledger."""
        return [(self._keys[number], self._values[number]) for number in self._held(ledger_id)]

    def ledger_ids(self) -> list[int]:
        """Return the ledgers that have rows, ascending."""
        return sorted(self._numbers)

    def holding(self, ledger_id: int) -> Holding | None:
        held = self._held(ledger_id)
        if not held:
            return None
        head = [(self._keys[number], self._values[number]) for number in held[:2]]
        tail = [(self._keys[number], self._values[number]) for number in held[-_MARKS_MAX - 1 :]]
        return holding_of(head, tail)

    def rows(self, ledger_id: int, first_entry_id: int, most: int) -> list[Row]:
        held = self._held(ledger_id)
        position = bisect_left(held, first_entry_id + 1, key=self._keys.__getitem__)
        rows = [(self._keys[number], self._values[number]) for number in held[position : position + most]]
        while rows and rows[-1][0] >= MARKS:
            rows.pop()
        return rows

    def shares(self) -> Iterator[LedgerShare]:
        for ledger_id in self.ledger_ids():
            rows = self.ledger_rows(ledger_id)
            yield LedgerShare(ledger_id, stored_bytes(rows), rows[-1][0] == DELETE_KEY)

    def _held(self, ledger_id: int) -> Sequence[int]:
        held = self._numbers.get(ledger_id)
        if held is None:
            return ()
        return (held,) if isinstance(held, int) else held


def stored_bytes(rows: Sequence[Row]) -> int:
    """Return the bytes that the records of `rows` take in the segment."""
    payloads = sum(value & 0xFFFFFFFF for key, value in rows if 0 < key < MARKS)
    return payloads + RECORD_HEADER_BYTES * len(rows)
