"""The index of a sealed segment on disk: blocks of 4 KiB, each with a checksum, looked up without reading the whole.

    block 0          the header: which segment, its salt and end, the next ledger id, how many ledgers and rows
    ledger blocks    170 ledgers of 24 bytes each, ascending: id, first row, rows, bytes in the segment, flags
    row blocks       255 rows of 16 bytes each: the rows of hub/ledgers/local/segments/index.py, ledger after ledger

The last four bytes of a block are the CRC-32 of the rest, begun with the segment's salt plus the block's number. Only
the first ledger id of each ledger block stays in memory: 8 bytes for 170 ledgers. No descriptor stays open.
"""

import os
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from hedwig.errors import ConfigurationError
from hedwig.hub.ledgers.local.segments.disk import Disk
from hedwig.hub.ledgers.local.segments.index import (
    DELETE_KEY,
    MARKS,
    Holding,
    LedgerShare,
    MemoryIndex,
    Row,
    holding_of,
    stored_bytes,
)

__all__ = ["DamagedIndexError", "DiskIndex", "IndexFacts", "write_index"]

_BLOCK: Final = 4096
_CONTENT: Final = 4080
_CHECKED: Final = _BLOCK - 4
_CHECKSUM = struct.Struct(">I")
_MAGIC: Final = b"HEDWIGLX"
_MAJOR: Final = 1
_HEADER = struct.Struct(">8sHHIQQQQQ")
_LEDGER = struct.Struct(">QIIII")
_ROW = struct.Struct(">QQ")
_LEDGERS_PER_BLOCK: Final = _CONTENT // _LEDGER.size
_ROWS_PER_BLOCK: Final = _CONTENT // _ROW.size
_DELETED: Final = 1
_LedgerRow = tuple[int, int, int, int, int]


class DamagedIndexError(Exception):
    """An index file is damaged. The store makes a new one from its segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFacts:
    """What an index says of its segment: number, salt, acknowledged length, and the next ledger id at that time."""

    number: int
    salt: int
    end: int
    next_ledger_id: int


def write_index(path: Path, facts: IndexFacts, index: MemoryIndex, disk: Disk) -> "DiskIndex":
    """Write the index file and return the index. The file exists completely or not at all.

    Raises: OSError.
    """
    ledgers = bytearray()
    rows = array("Q")
    ledger_ids = index.ledger_ids()
    for ledger_id in ledger_ids:
        held = index.ledger_rows(ledger_id)
        flags = _DELETED if held[-1][0] == DELETE_KEY else 0
        ledgers += _LEDGER.pack(ledger_id, len(rows) // 2, len(held), stored_bytes(held), flags)
        for row in held:
            rows.extend(row)
    row_count = len(rows) // 2
    if sys.byteorder == "little":
        rows.byteswap()
    header = _HEADER.pack(
        _MAGIC, _MAJOR, 0, facts.salt, facts.number, facts.end, facts.next_ledger_id, len(ledger_ids), row_count
    )
    content = [header, *_cut(bytes(ledgers)), *_cut(rows.tobytes())]
    unfinished = path.with_suffix(".index.new")
    disk.unlink(unfinished)
    descriptor = disk.create(unfinished)
    try:
        for start in range(0, len(content), 256):
            blocks = (
                _seal(facts.salt, start + number, data) for number, data in enumerate(content[start : start + 256])
            )
            disk.write(descriptor, b"".join(blocks), start * _BLOCK)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)
    disk.replace(unfinished, path)
    disk.sync_directory(path.parent)
    samples = array("Q", ledger_ids[::_LEDGERS_PER_BLOCK])
    return DiskIndex(path, facts, len(ledger_ids), row_count, samples)


def _cut(data: bytes) -> Iterator[bytes]:
    return (data[start : start + _CONTENT] for start in range(0, len(data), _CONTENT))


def _seal(salt: int, number: int, data: bytes) -> bytes:
    checked = data.ljust(_CHECKED, b"\0")
    return checked + _CHECKSUM.pack(crc32(checked, (salt + number) & 0xFFFFFFFF))


class DiskIndex:
    """An index file.

    Every method may raise OSError (FileNotFoundError once the segment is removed) or DamagedIndexError.
    """

    __slots__ = ("_ledger_blocks", "_ledger_count", "_path", "_row_count", "_samples", "facts")

    def __init__(self, path: Path, facts: IndexFacts, ledger_count: int, row_count: int, samples: "array[int]") -> None:
        self.facts = facts
        self._path = path
        self._ledger_count = ledger_count
        self._row_count = row_count
        self._ledger_blocks = -(-ledger_count // _LEDGERS_PER_BLOCK)
        self._samples = samples

    @classmethod
    def load(cls, path: Path) -> "DiskIndex":
        """Return the index in a file, after checking its header, its length and all its ledger blocks.

        Raises: FileNotFoundError - there is no such file; DamagedIndexError - it is damaged; ConfigurationError - a
            newer major format.
        """
        with _Blocks(path, None) as blocks:
            header = _HEADER.unpack_from(blocks.raw(0))
            magic, major, _, salt, number, end, next_ledger_id, ledger_count, row_count = header
            if magic != _MAGIC:
                raise DamagedIndexError(f"{path} does not begin like an index")
            blocks.salt = salt
            blocks.content(0)
            if major != _MAJOR:
                raise ConfigurationError(
                    f"{path} has the format {major} of local ledgers, this program knows {_MAJOR}: use a newer Hedwig"
                )
        facts = IndexFacts(number=number, salt=salt, end=end, next_ledger_id=next_ledger_id)
        index = cls(path, facts, ledger_count, row_count, array("Q"))
        expected = (1 + index._ledger_blocks + -(-row_count // _ROWS_PER_BLOCK)) * _BLOCK
        if path.stat().st_size != expected:
            raise DamagedIndexError(f"{path} has not the length that its header says")
        index._samples.extend(
            row[0] for position, row in enumerate(index._ledgers()) if position % _LEDGERS_PER_BLOCK == 0
        )
        return index

    def holding(self, ledger_id: int) -> Holding | None:
        with self._open() as blocks:
            ledger = self._find(blocks, ledger_id)
            if ledger is None:
                return None
            _, first, count, _, _ = ledger
            head = self._rows(blocks, first, min(2, count))
            return holding_of(head, self._rows(blocks, first + max(0, count - 4), min(4, count)))

    def rows(self, ledger_id: int, first_entry_id: int, most: int) -> list[Row]:
        with self._open() as blocks:
            ledger = self._find(blocks, ledger_id)
            if ledger is None:
                return []
            _, first, count, _, _ = ledger
            start = self._seek(blocks, first, count, first_entry_id + 1)
            rows = self._rows(blocks, first + start, min(most, count - start))
            while rows and rows[-1][0] >= MARKS:
                rows.pop()
            return rows

    def shares(self) -> Iterator[LedgerShare]:
        for ledger_id, _, _, share, flags in self._ledgers():
            yield LedgerShare(ledger_id, share, bool(flags & _DELETED))

    def _open(self) -> "_Blocks":
        return _Blocks(self._path, self.facts.salt)

    def _ledgers(self) -> Iterator[_LedgerRow]:
        left = self._ledger_count
        with self._open() as blocks:
            for number in range(self._ledger_blocks):
                here = min(left, _LEDGERS_PER_BLOCK)
                yield from _LEDGER.iter_unpack(blocks.content(1 + number)[: here * _LEDGER.size])
                left -= here

    def _find(self, blocks: "_Blocks", ledger_id: int) -> _LedgerRow | None:
        number = bisect_right(self._samples, ledger_id) - 1
        if number < 0:
            return None
        content = blocks.content(1 + number)
        low, high = 0, min(_LEDGERS_PER_BLOCK, self._ledger_count - number * _LEDGERS_PER_BLOCK)
        while low < high:
            middle = (low + high) // 2
            row: _LedgerRow = _LEDGER.unpack_from(content, middle * _LEDGER.size)
            if row[0] == ledger_id:
                return row
            if row[0] < ledger_id:
                low = middle + 1
            else:
                high = middle
        return None

    def _seek(self, blocks: "_Blocks", first: int, count: int, key: int) -> int:
        """Return the position of the first row whose key is not below `key`, among `count` rows from row `first`."""
        low, high = 0, count
        # Entry ids rarely have gaps, so the distance from the first key usually is the position.
        guess = key - self._rows(blocks, first, 1)[0][0]
        while low < high:
            middle = guess if low <= guess < high else (low + high) // 2
            if self._rows(blocks, first + middle, 1)[0][0] < key:
                low = middle + 1
            else:
                high = middle
            guess = high - 1 if guess == high else -1
        return low

    def _rows(self, blocks: "_Blocks", first: int, count: int) -> list[Row]:
        rows: list[Row] = []
        while count > 0:
            number, position = divmod(first, _ROWS_PER_BLOCK)
            here = min(count, _ROWS_PER_BLOCK - position)
            content = blocks.content(1 + self._ledger_blocks + number)
            rows += _ROW.iter_unpack(content[position * _ROW.size : (position + here) * _ROW.size])
            first += here
            count -= here
        return rows


class _Blocks:
    """An open index file. It keeps the block read last."""

    def __init__(self, path: Path, salt: int | None) -> None:
        self.salt = salt
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._last: tuple[int, bytes] | None = None

    def __enter__(self) -> "_Blocks":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def raw(self, number: int) -> bytes:
        data = os.pread(self._descriptor, _BLOCK, number * _BLOCK)
        if len(data) != _BLOCK:
            raise DamagedIndexError(f"{self._path} ends within block {number}")
        return data

    def content(self, number: int) -> bytes:
        """Return a block whose checksum is right. Raises: DamagedIndexError."""
        if self._last is not None and self._last[0] == number:
            return self._last[1]
        data = self.raw(number)
        checksum = _CHECKSUM.unpack_from(data, _CHECKED)[0]
        if crc32(data[:_CHECKED], ((self.salt or 0) + number) & 0xFFFFFFFF) != checksum:
            raise DamagedIndexError(f"block {number} of {self._path} is damaged")
        self._last = number, data
        return data
