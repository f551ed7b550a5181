"""Read a segment from its first record on, past damaged bytes, and tell a torn tail from damage.

The writer writes records in groups. It writes a group only after all bytes before it are on stable storage. Each record
says how far back its group begins. So a whole header proves that all bytes before its group were acknowledged, and
unreadable bytes there are damage. Unreadable bytes without such a proof behind them are the torn tail of a write that a
crash cut.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from hedwig.hub.ledgers.local.segments.index import MemoryIndex, row_of
from hedwig.hub.ledgers.local.segments.records import (
    FIRST_RECORD,
    MARKER,
    RECORD_HEADER_BYTES,
    RecordFields,
    parse_record_header,
)

__all__ = ["Scan", "SegmentRecord", "index_segment", "scan_segment"]

_WINDOW: Final = 1 << 20


class SegmentRecord(NamedTuple):
    """A record as it was found. `intact` says that its payload is as written. Kind 0 is bytes without a record."""

    offset: int
    group_offset: int
    kind: int
    ledger_id: int
    entry: int
    payload: bytes
    intact: bool


@dataclass(slots=True)
class Scan:
    """The result of a scan: the index, the length that counts, the highest ledger id, offsets of damaged bytes."""

    index: MemoryIndex = field(default_factory=MemoryIndex)
    end: int = FIRST_RECORD
    ledger_id_max: int = 0
    damaged: list[int] = field(default_factory=list)


def index_segment(path: Path, salt: int, end: int, *, sealed: bool) -> Scan:
    """Scan the records of a segment up to `end` into an index.

    `sealed` says that every byte up to `end` was acknowledged. Otherwise the tail may be torn, and is left out.

    Raises: OSError.
    """
    scan = Scan()
    held: list[SegmentRecord] = []
    suspects: list[int] = []
    for record in scan_segment(path, salt, end):
        if record.kind and suspects and record.group_offset > suspects[0]:
            proven = [offset for offset in suspects if offset < record.group_offset]
            scan.damaged += proven
            del suspects[: len(proven)]
            held = _take(scan, held, suspects[0] if suspects else end)
        if not record.intact:
            (scan.damaged if sealed else suspects).append(record.offset)
        if suspects:
            held.append(record)
        else:
            _take(scan, [record], end)
    scan.end = suspects[0] if suspects else end
    return scan


def _take(scan: Scan, records: list[SegmentRecord], before: int) -> list[SegmentRecord]:
    """Put the records before an offset into the index; return the others."""
    for record in records:
        if record.offset < before and record.kind:
            row = row_of(record.kind, record.entry, record.offset, len(record.payload))
            scan.index.add(record.ledger_id, *row)
            scan.ledger_id_max = max(scan.ledger_id_max, record.ledger_id)
    return [record for record in records if record.offset >= before]


def scan_segment(path: Path, salt: int, end: int) -> Iterator[SegmentRecord]:
    """Yield the records up to `end`, and the unreadable bytes between them. Raises: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from _Scanner(descriptor, salt, end).records()
    finally:
        os.close(descriptor)


class _Scanner:
    """Walks through a segment file with a window of it in memory."""

    def __init__(self, descriptor: int, salt: int, end: int) -> None:
        self._descriptor = descriptor
        self._salt = salt
        self._end = end
        self._window = b""
        self._base = 0

    def records(self) -> Iterator[SegmentRecord]:
        offset = FIRST_RECORD
        while offset < self._end:
            fields = self._header(offset)
            if fields is None:
                yield SegmentRecord(offset, 0, 0, 0, 0, b"", intact=False)
                offset = self._next_record(offset + 1)
                continue
            kind, length, checksum, back, ledger_id, entry = fields
            payload = self._bytes(offset + RECORD_HEADER_BYTES, length)
            intact = len(payload) == length and crc32(payload) == checksum
            yield SegmentRecord(offset, offset - back, kind, ledger_id, entry, payload, intact)
            offset += RECORD_HEADER_BYTES + length

    def _header(self, offset: int) -> RecordFields | None:
        at = self._load(offset, RECORD_HEADER_BYTES)
        if len(self._window) - at < RECORD_HEADER_BYTES:
            return None
        fields = parse_record_header(self._window, at, self._salt, offset)
        if fields is None or offset + RECORD_HEADER_BYTES + fields[1] > self._end:
            return None
        return fields

    def _bytes(self, offset: int, size: int) -> bytes:
        at = self._load(offset, size)
        return self._window[at : at + size]

    def _load(self, offset: int, size: int) -> int:
        """Load `size` bytes into the window, or fewer at the end of the file; return where they begin in it."""
        at = offset - self._base
        if not 0 <= at <= len(self._window) - size:
            wanted = min(max(size, _WINDOW), self._end - offset)
            self._window = _read(self._descriptor, wanted, offset)
            self._base = offset
            return 0
        return at

    def _next_record(self, offset: int) -> int:
        """Return the offset of the next whole record header, at `offset` or behind it; the end if there is none."""
        while offset + RECORD_HEADER_BYTES <= self._end:
            at = self._load(offset, RECORD_HEADER_BYTES)
            position = self._window.find(MARKER, at + 4)
            stop = len(self._window) - RECORD_HEADER_BYTES
            if len(self._window) - at < RECORD_HEADER_BYTES:
                break
            if position < 0 or position - 4 > stop:
                # A header that begins in the last bytes of the window is found again in the next one.
                offset = max(self._base + stop + 1, offset + 1)
                continue
            offset = self._base + position - 4
            if self._header(offset) is not None:
                return offset
            offset += 1
        return self._end


def _read(descriptor: int, size: int, offset: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    while 0 < len(data) < size:
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
