"""Footers: the last entries of a sealed segment, by which the entries of a virtual ledger are found. Big-endian.

    blocks    magic u16 | version u8 | kind u8 | count u32 | zlib of five columns u32 x count: the fields of `Run`
    root      magic u16 | version u8 | kind u8 | count u32 | last data entry u64 | records u64 | payload bytes u64 |
              highest slot u32 | two columns u32 x count: slot and first entry id of the first run of each block

The root is the last entry of its ledger, right behind the blocks. These follow the last data entry, or fill a ledger of
their own. A block has at most 1,024 runs. So a look-up reads the root and one block, and a store keeps the roots in
memory.
"""

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from hedwig.hub.ledgers.shared.entries.columns import NUMBER_BYTES, Column, DamagedEntryError, column, column_at, stored
from hedwig.hub.ledgers.shared.entries.runs import Run, Runs

__all__ = ["BLOCK_RUNS_MAX", "DamagedFooterError", "Root", "decode_block", "encode_footer", "is_footer"]

_HEADER = struct.Struct(">HBBI")
_TOTALS = struct.Struct(">QQQI")
_MAGIC: Final = 0x4846
_VERSION: Final = 1
_BLOCK: Final = 1
_ROOT: Final = 2
_ROOT_COLUMNS: Final = 2
BLOCK_RUNS_MAX: Final = 1024
_BLOCK_BYTES: Final = BLOCK_RUNS_MAX * NUMBER_BYTES * len(Run._fields)
_FAST: Final = 1
"""The level of zlib. Higher levels save little of such columns."""


class DamagedFooterError(DamagedEntryError):
    """The bytes are no part of a footer. The text says why."""


def encode_footer(runs: Iterable[tuple[int, ...]], last_data_entry: int) -> Iterator[bytes]:
    """Yield the entries of a footer, the root last.

    Args: runs - the fields of all runs of the segment, sorted; last_data_entry - the BookKeeper entry before the
        footer.
    """
    slots, firsts = column(), column()
    records = size = highest = 0
    remaining = iter(runs)
    while block := list(islice(remaining, BLOCK_RUNS_MAX)):
        held = Runs.of(block)
        slots.append(held.slots[0])
        firsts.append(held.firsts[0])
        highest = held.slots[-1]
        records += sum(held.counts)
        size += sum(held.sizes)
        columns = b"".join(map(stored, (held.slots, held.firsts, held.counts, held.batches, held.sizes)))
        yield _HEADER.pack(_MAGIC, _VERSION, _BLOCK, len(block)) + zlib.compress(columns, _FAST)
    header = _HEADER.pack(_MAGIC, _VERSION, _ROOT, len(slots))
    yield header + _TOTALS.pack(last_data_entry, records, size, highest) + stored(slots) + stored(firsts)


def is_footer(data: bytes) -> bool:
    """Say whether an entry of a segment belongs to its footer."""
    return len(data) >= _HEADER.size and _HEADER.unpack_from(data)[0] == _MAGIC


def decode_block(data: bytes) -> Runs:
    """Return the runs of a block. Raises: DamagedFooterError."""
    count = _count(data, _BLOCK)
    if not 1 <= count <= BLOCK_RUNS_MAX:
        raise DamagedFooterError(f"a block has {count} runs, and {BLOCK_RUNS_MAX} at most")
    expand = zlib.decompressobj()
    try:
        columns = expand.decompress(data[_HEADER.size :], _BLOCK_BYTES)
    except zlib.error as exc:
        raise DamagedFooterError(f"a block cannot be expanded: {exc}") from exc
    if len(columns) != count * NUMBER_BYTES * len(Run._fields) or not expand.eof or expand.unused_data:
        raise DamagedFooterError(f"the columns of a block do not have {count} runs")
    return Runs(*(column_at(columns, NUMBER_BYTES * count * number, count) for number in range(len(Run._fields))))


class Root:
    """What a segment holds, and which block of its footer has the runs of a slot."""

    __slots__ = ("_firsts", "_slots", "highest_slot", "last_data_entry", "records", "size")

    def __init__(
        self, slots: Column, firsts: Column, last_data_entry: int, records: int, size: int, highest_slot: int
    ) -> None:
        self._slots = slots
        self._firsts = firsts
        self.last_data_entry = last_data_entry
        self.records = records
        self.size = size
        self.highest_slot = highest_slot

    @classmethod
    def decode(cls, data: bytes) -> "Root":
        """Return the root in the last entry of a segment. Raises: DamagedFooterError."""
        count = _count(data, _ROOT)
        first = _HEADER.size + _TOTALS.size
        if len(data) != first + NUMBER_BYTES * count * _ROOT_COLUMNS:
            raise DamagedFooterError(f"a root of {len(data)} bytes does not name {count} blocks")
        slots, firsts = (column_at(data, first + NUMBER_BYTES * count * number, count) for number in range(2))
        return cls(slots, firsts, *_TOTALS.unpack_from(data, _HEADER.size))

    @property
    def blocks(self) -> int:
        """Return how many blocks there are."""
        return len(self._slots)

    def blocks_of(self, slot: int, entry_id: int = 0) -> range:
        """Return the numbers of the blocks that may have runs of a slot, from `entry_id` on. They begin at 0.

        The run with `entry_id` can only be in the first of them, and the last run of the slot only in the last.
        """
        behind = bisect_right(self._slots, slot)
        upto = bisect_right(self._firsts, entry_id, bisect_left(self._slots, slot), behind)
        return range(max(upto - 1, 0), behind)

    @property
    def lowest_slot(self) -> int:
        """Return the lowest slot that has a record."""
        return self._slots[0]


def _count(data: bytes, kind: int) -> int:
    """Return how many rows a part of a footer says that it has. Raises: DamagedFooterError."""
    if len(data) < _HEADER.size:
        raise DamagedFooterError(f"{len(data)} bytes are too few for a footer")
    magic, version, of_kind, count = _HEADER.unpack_from(data)
    if magic != _MAGIC or of_kind != kind:
        raise DamagedFooterError("it does not begin as this part of a footer does")
    if version != _VERSION:
        raise DamagedFooterError(f"it has the format {version} of footers, this program knows {_VERSION}")
    return int(count)
