"""The rows of a cell block as columns of Arrow, for callers that want a table (`metadata/contract/packed.py`).

The code does nothing for each row by itself. Arithmetic on arrays finds where all values begin and end, and Arrow
copies the bytes between. A block with anything unusual gives no columns, and the caller reads its rows one by one.

This module needs numpy and pyarrow, which the extra `spark` brings. Only a caller of columns loads it.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hedwig.metadata.contract.packed import PackedColumns
from hedwig.metadata.hbase.cell_blocks import HEAD_BYTES, KEY_REST_BYTES, CellBlock
from hedwig.metadata.hbase.keys import ESCAPED_ZERO, HASH_CHARACTERS, TERMINATOR
from hedwig.metadata.hbase.schema import TableColumns
from hedwig.metadata.records.stamps import LIVE, STAMP_BYTES, TOMBSTONE

__all__ = ["packed_columns"]

_Positions = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

_LIVE_BYTE: Final = LIVE[0]
_TOMBSTONE_BYTE: Final = TOMBSTONE[0]
_KEY_REST_WITHOUT_NAMES: Final = KEY_REST_BYTES - 2
_OTHER_COLUMN: Final = -1
"""The number of all columns with longer names than ours, such as receipts of the gateway's driver."""


def packed_columns(
    block: CellBlock, columns: TableColumns, *, has_subscriber: bool, version_tag: bytes
) -> PackedColumns | None:
    """Return the live records of a block. Cells in other columns are skipped.

    Tombstones are left out, and so are rows without a version, since no other reader takes them for records.

    Args: version_tag - the letter before a stamp in a version.
    Returns: columns of length 0 if there is no live record; None if the block has anything unusual.
    """
    data: _Bytes = np.frombuffer(block.data, np.uint8)
    cells = _Cells.of(data, block)
    if cells is None:
        return None
    version_starts, version_ends = cells.spans(columns.version)
    sizes = version_ends - version_starts
    # An empty span begins where a row does.
    letters = data[np.minimum(version_starts, data.size - 1)]
    is_live = (sizes > 0) & (letters == _LIVE_BYTE)
    is_stamp = (sizes == STAMP_BYTES) & (is_live | (letters == _TOMBSTONE_BYTE))
    if not (is_stamp | (sizes == 0)).all():
        # Some version cannot be read. A caller that reads each row finds which.
        return None
    names = cells.names(is_live)
    if names is None:
        return None
    name_starts, name_ends, key_ends = names
    buffer = pa.py_buffer(block.data)
    topics = _values(buffer, name_starts, name_ends)
    if _positions_of(data, ESCAPED_ZERO).size:
        topics = pc.replace_substring(topics, pattern=ESCAPED_ZERO, replacement=ESCAPED_ZERO[:1])
    return PackedColumns(
        topics=topics,
        subscribers=_values(buffer, name_ends + len(TERMINATOR), key_ends) if has_subscriber else (),
        versions=pc.binary_join_element_wise(
            pa.scalar(version_tag, pa.binary()),
            _values(buffer, version_starts[is_live], version_ends[is_live]),
            pa.scalar(b"", pa.binary()),
        ),
        parts=[_values(buffer, starts[is_live], ends[is_live]) for starts, ends in map(cells.spans, columns.parts)],
    )


class _Cells:
    """The positions of keys and values in a block: arrays with an element for each cell, or for each row."""

    def __init__(
        self,
        data: _Bytes,
        counts: _Positions,
        starts: _Positions,
        row_sizes: _Positions,
        columns: _Positions,
        value_starts: _Positions,
        ends: _Positions,
    ) -> None:
        self._data = data
        self._columns = columns
        self._value_starts = value_starts
        self._ends = ends
        self._rows = np.repeat(np.arange(len(counts)), counts)
        firsts = np.cumsum(counts) - counts
        self._row_starts = starts[firsts]
        self._key_starts = starts[firsts] + HEAD_BYTES
        self._key_ends = self._key_starts + row_sizes[firsts]

    @classmethod
    def of(cls, data: _Bytes, block: CellBlock) -> "_Cells | None":
        """Return the cells of a block; None if their lengths contradict each other, or a column name is too short."""
        starts: _Positions = np.array(block.starts, np.int64)
        counts: _Positions = np.array(block.counts, np.int64)
        if not starts.size or starts[-1] + HEAD_BYTES + 2 >= data.size or not counts.all():
            return None
        heads = np.lib.stride_tricks.sliding_window_view(data, HEAD_BYTES)[starts]
        sizes, key_sizes, value_sizes = (_numbers(heads[:, at : at + 4], ">u4") for at in (0, 4, 8))
        row_sizes = _numbers(heads[:, 12:14], ">u2")
        rest_sizes = key_sizes - row_sizes
        if (sizes != 8 + key_sizes + value_sizes).any() or (rest_sizes < KEY_REST_BYTES).any():
            return None
        families = starts + HEAD_BYTES + row_sizes
        family_sizes = data[families]
        is_short = rest_sizes == KEY_REST_BYTES
        if np.where(is_short, family_sizes != 1, family_sizes > rest_sizes - _KEY_REST_WITHOUT_NAMES).any():
            return None
        names = data[families + 1].astype(np.int64) << 8 | data[families + 2]
        value_starts = starts + 12 + key_sizes
        columns = np.where(is_short, names, _OTHER_COLUMN)
        return cls(data, counts, starts, row_sizes, columns, value_starts, value_starts + value_sizes)

    def spans(self, column: bytes) -> tuple[_Positions, _Positions]:
        """Return where the values of a column begin and end, for each row; an absent value is an empty span."""
        family, _, qualifier = column.partition(b":")
        of_column = self._columns == int.from_bytes(family + qualifier, "big")
        rows = self._rows[of_column]
        starts, ends = self._row_starts.copy(), self._row_starts.copy()
        starts[rows], ends[rows] = self._value_starts[of_column], self._ends[of_column]
        return starts, ends

    def names(self, wanted: npt.NDArray[np.bool_]) -> tuple[_Positions, _Positions, _Positions] | None:
        """Return for wanted rows where their topics begin and end, and where their keys end.

        None means that some key has no terminator after its topic.
        """
        starts, key_ends = self._key_starts[wanted] + HASH_CHARACTERS, self._key_ends[wanted]
        terminators = _positions_of(self._data, TERMINATOR)
        which = np.searchsorted(terminators, starts)
        if which.size and which[-1] == terminators.size:
            return None
        ends = terminators[which]
        if (ends + len(TERMINATOR) > key_ends).any():
            return None
        return starts, ends, key_ends


def _numbers(raw: _Bytes, kind: str) -> _Positions:
    """Return the numbers in the rows of an array of bytes."""
    return np.ascontiguousarray(raw).view(kind).ravel().astype(np.int64)


def _positions_of(data: _Bytes, pair: bytes) -> _Positions:
    """Return the positions at which these two bytes follow each other, in order."""
    return np.flatnonzero((data[:-1] == pair[0]) & (data[1:] == pair[1])).astype(np.int64, copy=False)


def _values(buffer: Any, starts: _Positions, ends: _Positions) -> Any:
    """Return the parts of a buffer between `starts` and `ends`, which are in order, as an array of binary."""
    number = len(starts)
    if not number:
        return pa.array([], pa.binary())
    # These positions cut the buffer into pieces, and every other piece is a value.
    edges = np.empty(2 * number, np.int32)
    edges[0::2], edges[1::2] = starts, ends
    pieces = pa.Array.from_buffers(pa.binary(), 2 * number - 1, [None, pa.py_buffer(edges), buffer])
    return pieces.take(pa.array(np.arange(0, 2 * number, 2, dtype=np.int32)))
