"""Blocks of cells, encoded by hand as a region server sends them."""

from collections.abc import Mapping, Sequence

from hedwig.metadata.hbase.cell_blocks import CellBlock

__all__ = ["Row", "block_of", "cell"]

Row = tuple[bytes, Mapping[bytes, bytes]]
"""A key, and the values of columns."""


def cell(row: bytes, column: bytes, value: bytes) -> bytes:
    """Return a cell that was written at millisecond 1."""
    family, _, qualifier = column.partition(b":")
    named = bytes([len(family)]) + family + qualifier
    key = len(row).to_bytes(2, "big") + row + named + (1).to_bytes(8, "big") + b"\x04"
    sizes = len(key).to_bytes(4, "big") + len(value).to_bytes(4, "big")
    return (len(sizes) + len(key) + len(value)).to_bytes(4, "big") + sizes + key + value


def block_of(rows: Sequence[Row]) -> CellBlock:
    """Return a block in the order of a server: rows by their keys, cells by their columns."""
    data = b"".join(cell(key, column, values[column]) for key, values in sorted(rows) for column in sorted(values))
    return CellBlock(data, [len(values) for _, values in sorted(rows)])
