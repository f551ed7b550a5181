"""Blocks of cells are read row by row and as columns. Unusual blocks are read row by row."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import RemoteProtocolError
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.packed import PackedColumns
from hedwig.metadata.hbase.arrow_columns import packed_columns
from hedwig.metadata.hbase.cell_blocks import CellBlock
from hedwig.metadata.hbase.keys import split_row, topic_key
from hedwig.metadata.hbase.schema import columns_of
from hedwig.metadata.records.stamps import LIVE, Stamp
from tests.metadata.hbase.support.blocks import Row, block_of, cell

_KINDS: Final[tuple[RecordKind[Any], ...]] = KINDS
TAG: Final = b"h"
STAMP: Final = Stamp(7, b"12345678").encode()
GONE: Final = Stamp(8, b"12345678", live=False).encode()


def columns_in(block: CellBlock, kind: RecordKind[Any]) -> PackedColumns | None:
    return packed_columns(block, columns_of(kind), has_subscriber=kind.has_subscriber, version_tag=TAG)


def held(columns: PackedColumns) -> list[tuple[Any, ...]]:
    """Return the content of columns, row by row. An absent part is empty."""
    subscribers = columns.subscribers if len(columns.subscribers) else [b""] * len(columns)
    all_of = (columns.topics, subscribers, columns.versions, *columns.parts)
    lists = [column.to_pylist() if isinstance(column, pa.Array) else column for column in all_of]
    return list(zip(*lists, strict=True))


def expected_of(block: CellBlock, kind: RecordKind[Any]) -> list[tuple[Any, ...]]:
    """Return the same content, read row by row."""
    expected = []
    for key, (version, *parts) in block.rows(columns_of(kind).all):
        if version is not None and version.startswith(LIVE):
            expected.append((*split_row(key), TAG + version, *(part or b"" for part in parts)))
    return expected


def test_a_cell_is_its_lengths_its_key_and_its_value() -> None:
    data = bytes.fromhex("00 00 00 19 00 00 00 10 00 00 00 01 00 02 61 62 01 73 76 00 00 00 00 00 00 00 01 04 4c")
    assert cell(b"ab", b"s:v", b"L") == data
    block = CellBlock(data, [1])
    assert block.last_key == b"ab"
    assert block.rows((b"s:d", b"s:v")) == [(b"ab", (None, b"L"))]


# Names often have the bytes that row keys escape.
_NAMES: Final = st.lists(
    st.sampled_from([b"\x00", b"\x01", b"\xff", b"a", b"L", b"\x00\x01", b"name"]), min_size=1
).map(b"".join)
_VERSIONS: Final = st.sampled_from([STAMP, STAMP, STAMP, GONE, b"", None])
_PARTS: Final = st.sampled_from([b"", b"x", b"\x00\x01\x00\xff", b"L" * 300, None])

# The gateway's driver leaves receipts, one cell for each write. Other programs may write any cells.
_OTHERS: Final = st.sampled_from([(), (), (b"s:~token", b"o:~1"), (b"p:x",), (b"other:v", b"p:version", b"x:y")])


@st.composite
def tables(draw: st.DrawFn) -> tuple[RecordKind[Any], list[Row]]:
    """Draw a kind and its rows. Each row has at least one cell, and some have cells of other programs."""
    kind = draw(st.sampled_from(_KINDS))
    columns = columns_of(kind)
    names = draw(st.lists(st.tuples(_NAMES, _NAMES), min_size=1, max_size=8, unique=True))
    rows: dict[bytes, Mapping[bytes, bytes]] = {}
    for topic, subscriber in names:
        values = [draw(_VERSIONS), *(draw(_PARTS) for _ in columns.parts)]
        present = {name: value for name, value in zip(columns.all, values, strict=True) if value is not None}
        present |= dict.fromkeys(draw(_OTHERS), STAMP)
        rows[topic_key(topic) + (subscriber if kind.has_subscriber else b"")] = present or {columns.version: STAMP}
    return kind, list(rows.items())


@given(tables())
def test_columns_hold_what_a_look_at_each_row_finds(table: tuple[RecordKind[Any], list[Row]]) -> None:
    kind, rows = table
    block = block_of(rows)
    names = columns_of(kind).all
    assert block.rows(names) == [(key, tuple(values.get(name) for name in names)) for key, values in sorted(rows)]
    assert block.last_key == max(key for key, _ in rows)
    columns = columns_in(block, kind)
    assert columns is not None
    assert held(columns) == expected_of(block, kind)


@given(tables(), st.data())
def test_blocks_that_are_cut_are_refused(table: tuple[RecordKind[Any], list[Row]], data: st.DataObject) -> None:
    block = block_of(table[1])
    cut = data.draw(st.integers(0, len(block.data) - 1))
    with pytest.raises(RemoteProtocolError):
        CellBlock(block.data[:cut], block.counts)


def test_cells_that_contradict_themselves_are_refused() -> None:
    whole = cell(b"ab", b"s:v", b"L")
    for at, number in ((7, 17), (7, 3), (11, 2), (13, 200), (16, 200)):
        block = CellBlock(whole[:at] + bytes([number]) + whole[at + 1 :], [1])
        with pytest.raises(RemoteProtocolError, match="cannot be read"):
            block.rows((b"s:v",))
        assert columns_in(block, SUBSCRIPTIONS) is None
    for counts in ([], [2], [0, 1], [1, 0]):
        with pytest.raises(RemoteProtocolError):
            CellBlock(whole, counts)


KEY: Final = topic_key(b"topic")
UNUSUAL: Final[dict[str, tuple[RecordKind[Any], Row]]] = {
    "a version that is too short": (OWNERSHIP, (KEY, {b"o:v": STAMP[:-1]})),
    "a version that is too long": (OWNERSHIP, (KEY, {b"o:v": STAMP + b"1"})),
    "a version of another letter": (OWNERSHIP, (KEY, {b"o:v": b"?" + STAMP[1:]})),
    "a version of one other letter": (SUBSCRIPTIONS, (KEY + b"me", {b"s:v": b"?", b"s:d": b"1"})),
    "a tombstone that is too short": (OWNERSHIP, (KEY, {b"o:v": GONE[:-1]})),
    "a key without an end": (OWNERSHIP, (KEY[:-1], {b"o:v": STAMP})),
    "a key that is too short": (OWNERSHIP, (b"abc", {b"o:v": STAMP})),
    "a key that ends in the next cell": (PERSISTENCE, (KEY[:-1], {b"p:v": STAMP, b"p:d": b"\x01"})),
    "a column of a shorter name": (OWNERSHIP, (KEY, {b"o:v": STAMP, b"o:": b"1"})),
    "a column without a family": (OWNERSHIP, (KEY, {b"o:v": STAMP, b":ov": STAMP})),
}


@pytest.mark.parametrize(("kind", "row"), UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_left_to_who_looks_at_each_row(kind: RecordKind[Any], row: Row) -> None:
    sound = (topic_key(b"sound"), {columns_of(kind).version: STAMP})
    for rows in ([row], [row, sound]):
        block = block_of(rows)
        assert columns_in(block, kind) is None
        assert len(block.rows(columns_of(kind).all)) == len(rows)


def test_a_block_without_live_records_has_columns_without_values() -> None:
    for value in (GONE, b""):
        columns = columns_in(block_of([(KEY, {b"s:v": value}), (KEY + b"x", {b"s:d": b"1"})]), SUBSCRIPTIONS)
        assert columns is not None
        assert len(columns) == 0
