"""The rows of a cell block as columns of Arrow, for whoever wants a table (`metadata/contract/packed.py`).

Nothing here is done for each row by itself: where values begin and end is found for all at once, by arithmetic on
arrays, and Arrow copies what is between. Rows that show anything unusual are left to those who look at each.

It needs numpy and pyarrow, which the extra `spark` brings; only who asks for columns loads it.
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

_Places = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

_LIVE_BYTE: Final = LIVE[0]
_TOMBSTONE_BYTE: Final = TOMBSTONE[0]
_KEY_REST_WITHOUT_NAMES: Final = KEY_REST_BYTES - 2
_OTHER_COLUMN: Final = -1
"""Stands for all columns with longer names than ours, such as receipts of the gateway's driver."""


def packed_columns(
    block: CellBlock, columns: TableColumns, *, has_subscriber: bool, version_tag: bytes
) -> PackedColumns | None:
    """Return the live records of a block. What its rows have in other columns is passed over.

    Tombstones are left out, and rows that have no version: for all others that read them, these are no records.

    Args: version_tag - what stands before a stamp in a version.
    Returns: columns of no length if no record lives; None if something is not as it nearly always is.
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
        # Some version cannot be read, and who looks at each row says which.
        return None
    names = cells.names(is_live)
    if names is None:
        return None
    name_starts, name_ends, key_ends = names
    buffer = pa.py_buffer(block.data)
    topics = _values(buffer, name_starts, name_ends)
    if _places_of(data, ESCAPED_ZERO).size:
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
    """Where what stands in the cells of a block: arrays with a place for each cell, or for each row."""

    def __init__(
        self,
        data: _Bytes,
        counts: _Places,
        starts: _Places,
        row_sizes: _Places,
        columns: _Places,
        value_starts: _Places,
        ends: _Places,
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
        """Return the cells of a block; None if their lengths contradict each other, or a name is shorter than ours."""
        starts: _Places = np.array(block.starts, np.int64)
        counts: _Places = np.array(block.counts, np.int64)
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

    def spans(self, column: bytes) -> tuple[_Places, _Places]:
        """Return where the values of a column begin and end, for each row; an absent one is empty."""
        family, _, qualifier = column.partition(b":")
        of_column = self._columns == int.from_bytes(family + qualifier, "big")
        rows = self._rows[of_column]
        starts, ends = self._row_starts.copy(), self._row_starts.copy()
        starts[rows], ends[rows] = self._value_starts[of_column], self._ends[of_column]
        return starts, ends

    def names(self, wanted: npt.NDArray[np.bool_]) -> tuple[_Places, _Places, _Places] | None:
        """Return where the names of topics begin and end, and the keys, for wanted rows; None if a key is none."""
        starts, key_ends = self._key_starts[wanted] + HASH_CHARACTERS, self._key_ends[wanted]
        terminators = _places_of(self._data, TERMINATOR)
        which = np.searchsorted(terminators, starts)
        if which.size and which[-1] == terminators.size:
            return None
        ends = terminators[which]
        if (ends + len(TERMINATOR) > key_ends).any():
            return None
        return starts, ends, key_ends


def _numbers(raw: _Bytes, kind: str) -> _Places:
    """Return the numbers in the rows of an array of bytes."""
    return np.ascontiguousarray(raw).view(kind).ravel().astype(np.int64)


def _places_of(data: _Bytes, pair: bytes) -> _Places:
    """Return where two bytes follow each other, in order."""
    return np.flatnonzero((data[:-1] == pair[0]) & (data[1:] == pair[1])).astype(np.int64, copy=False)


def _values(buffer: Any, starts: _Places, ends: _Places) -> Any:
    """Return what is in a buffer between these places, which are in order and do not overlap, as an array of binary."""
    number = len(starts)
    if not number:
        return pa.array([], pa.binary())
    # Of the pieces into which all of these places cut the buffer, every other one is a value.
    edges = np.empty(2 * number, np.int32)
    edges[0::2], edges[1::2] = starts, ends
    pieces = pa.Array.from_buffers(pa.binary(), 2 * number - 1, [None, pa.py_buffer(edges), buffer])
    return pieces.take(pa.array(np.arange(0, 2 * number, 2, dtype=np.int32)))
