"""Cell blocks: rows as one run of cells, as region servers send them to clients that read whole tables.

    a cell       4 bytes    the length of what follows
                 4, 4       the length K of its key, and V of its value
                 K          2 bytes and the row key, 1 byte and the family, the qualifier, 8 bytes of time, 1 of kind
                 V          the value

Lengths are big-endian. The cells of a row follow each other in the order of family and qualifier. A reader
need not look at each cell by itself (`arrow_columns`).

Example: the column s:v of the row 61 62, written in the millisecond 1, with the value 4c. 00 00 00 19 00 00 00 10
00 00 00 01 00 02 61 62 01 73 76 00 00 00 00 00 00 00 01 04 4c.
"""

import struct
from collections.abc import Sequence
from itertools import islice
from typing import Final, Self

from hedwig.errors import RemoteProtocolError

__all__ = ["HEAD_BYTES", "KEY_REST_BYTES", "CellBlock"]

_LENGTH: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">IIIH")
HEAD_BYTES: Final = _HEAD.size
"""The size of the beginning of a cell: its length, and the lengths of its key, its value and its row key."""

_KEY_AT: Final = 12
_KEY_END: Final = struct.Struct(">QB")
_PUT: Final = 4
_KEY_END_BYTES: Final = _KEY_END.size
KEY_REST_BYTES: Final = 14
"""The size of a key without its row key, where family and qualifier have one letter each."""


class CellBlock:
    """Rows in the order of their keys. `counts` has the number of cells of each row, `starts` where each begins."""

    __slots__ = ("counts", "data", "starts")

    def __init__(self, data: bytes, counts: Sequence[int]) -> None:
        """Raises: RemoteProtocolError - `data` does not have the number of cells that `counts` says."""
        self.data = data
        self.counts = counts
        self.starts = _starts(data)
        if len(self.starts) != sum(counts) or not all(counts):
            raise RemoteProtocolError(f"HBase sent {len(self.starts)} cells where it announced {sum(counts)}")

    @classmethod
    def of_cells(cls, rows: Sequence[Sequence[tuple[bytes, bytes, bytes, int, bytes]]]) -> Self:
        """Return the block of rows whose cells are given as row key, family, qualifier, time and value.

        Raises: RemoteProtocolError - a row has no cell.
        """
        return cls(b"".join(_encoded(*cell) for row in rows for cell in row), [len(row) for row in rows])

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def last_key(self) -> bytes:
        """Return the key of the last row. The block must not be empty."""
        return self._cell(self.starts[-1])[0]

    def rows(self, columns: Sequence[bytes]) -> list[tuple[bytes, tuple[bytes | None, ...]]]:
        """Return each row by itself, with the values of `columns`. Raises RemoteProtocolError."""
        cells = map(self._cell, self.starts)
        rows = []
        for count in self.counts:
            row = list(islice(cells, count))
            values = {name: value for _, name, value in row}
            rows.append((row[0][0], tuple(values.get(name) for name in columns)))
        return rows

    def _cell(self, at: int) -> tuple[bytes, bytes, bytes]:
        """Return the row key, the column and the value of the cell that begins at `at`."""
        data = self.data
        try:
            size, key_size, value_size, row_size = _HEAD.unpack_from(data, at)
            family = at + HEAD_BYTES + row_size
            qualifier = family + 1 + data[family]
        except (struct.error, IndexError) as exc:
            raise RemoteProtocolError(f"a cell of HBase cannot be read: {exc}") from exc
        key_end = at + _KEY_AT + key_size
        if size != 8 + key_size + value_size or qualifier > key_end - _KEY_END_BYTES:
            raise RemoteProtocolError("a cell of HBase cannot be read: its lengths contradict each other")
        name = data[family + 1 : qualifier] + b":" + data[qualifier : key_end - _KEY_END_BYTES]
        return data[at + HEAD_BYTES : family], name, data[key_end : key_end + value_size]


def _encoded(row: bytes, family: bytes, qualifier: bytes, time_ms: int, value: bytes) -> bytes:
    names = b"".join((row, bytes((len(family),)), family, qualifier, _KEY_END.pack(time_ms, _PUT)))
    key_size = HEAD_BYTES - _KEY_AT + len(names)
    return _HEAD.pack(8 + key_size + len(value), key_size, len(value), len(row)) + names + value


def _starts(data: bytes) -> list[int]:
    starts = []
    length_at = _LENGTH.unpack_from
    at, end = 0, len(data)
    try:
        while at < end:
            starts.append(at)
            at += 4 + length_at(data, at)[0]
    except struct.error as exc:
        raise RemoteProtocolError(f"a cell of HBase cannot be read: {exc}") from exc
    if at != end:
        raise RemoteProtocolError(f"the cells of HBase are {at} bytes long, and {end} came")
    return starts
