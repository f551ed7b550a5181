"""Prove that columns decoded as stored hold what the records do, and that unusual values are left to the records."""

from collections.abc import Sequence
from typing import Any, Final

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import CorruptRecordError
from hedwig.metadata import RecordKey
from hedwig.metadata.contract.packed import PackedColumns
from hedwig.metadata.records.packing import part_codec
from hedwig.metadata.records.unknown_fields import has_unknown_fields
from hedwig.metadata.testing import samples
from hedwig.model import SubscriberId, Topic
from hedwig.pipeline.frames.packed_batch import UnusualError, packed_batch
from hedwig.pipeline.frames.schemas import UNKNOWN_FIELDS, arrow_schema, batch_of
from hedwig.pipeline.frames.tables import Table
from hedwig.versions import Version, Versioned

RECORDS: Final[dict[Table, st.SearchStrategy[Any]]] = {
    Table.TOPICS: samples.ledger_ranges,
    Table.OWNERS: samples.hubs,
    Table.LEDGERS: samples.ledger_ranges,
    Table.SUBSCRIPTIONS: samples.subscriptions,
}
EXTREMES: Final = [
    *((Table.OWNERS, record) for record in samples.EXTREME_HUBS.values()),
    *((Table.LEDGERS, record) for record in samples.EXTREME_RANGES.values()),
    *((Table.SUBSCRIPTIONS, record) for record in samples.EXTREME_SUBSCRIPTIONS.values()),
]


def packed(table: Table, stored: Sequence[Sequence[bytes | None]]) -> PackedColumns:
    """Return a page of records of these parts, named 0, 1, 2 …"""
    names = [b"%d" % number for number in range(len(stored))]
    return PackedColumns(
        names,
        [b"s" + name for name in names] if table.kind.has_subscriber else [],
        [b"v" + name for name in names],
        list(zip(*stored, strict=True)),
    )


def in_arrays(page: PackedColumns) -> PackedColumns:
    """Return the same page as a backend returns it that delivers Arrow arrays."""
    return PackedColumns(
        pa.array(page.topics, pa.binary()),
        pa.array(page.subscribers, pa.binary()) if page.subscribers else (),
        pa.array(page.versions, pa.binary()),
        [pa.array(part, pa.binary()) for part in page.parts],
    )


def made_of_records(table: Table, records: Sequence[Any], columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Return the batch of the same records, made from objects."""
    pairs = []
    for number, record in enumerate(records):
        name = b"%d" % number
        key = RecordKey(Topic(name), SubscriberId(b"s" + name) if table.kind.has_subscriber else None)
        pairs.append((key, Versioned(record, Version(b"v" + name))))
    return batch_of(table, "hbase", pairs, columns)


def check(table: Table, records: Sequence[Any], *, empty: bytes | None = None) -> None:
    """Compare a packed page of records, absent parts stored as `empty`, with the batch made from objects."""
    stored = [tuple(part or empty for part in part_codec(table.kind).pack(record)) for record in records]
    page = packed(table, stored)
    for columns in (page, in_arrays(page)):
        batch = packed_batch(table, "hbase", columns)
        assert batch.schema == arrow_schema(table)
        batch.validate(full=True)
        assert batch.to_pylist() == made_of_records(table, records).to_pylist()


@given(
    st.sampled_from(list(RECORDS)).flatmap(
        lambda table: st.tuples(st.just(table), st.lists(RECORDS[table], min_size=1))
    ),
    st.sampled_from([None, b""]),
)
def test_columns_hold_what_records_do(sample: tuple[Table, list[Any]], empty: bytes | None) -> None:
    table, records = sample
    known = [record for record in records if not has_unknown_fields(record)]
    if known:
        # Twice, because equal values are decoded once.
        check(table, known + known, empty=empty)


@pytest.mark.parametrize(("table", "record"), EXTREMES)
def test_extremes_are_nothing_unusual(table: Table, record: Any) -> None:
    if not has_unknown_fields(record):
        check(table, [record])
        check(table, [record] * 3)


@pytest.mark.parametrize("table", Table)
def test_some_columns_in_any_order(table: Table) -> None:
    some: dict[Table, list[Any]] = {
        Table.OWNERS: [samples.hub(1), samples.hub(2)],
        Table.SUBSCRIPTIONS: [samples.subscription(1), samples.subscription(2)],
    }
    records = some.get(table, [samples.ranges(1), samples.ranges(2)])
    stored = [part_codec(table.kind).pack(record) for record in records]
    names = [UNKNOWN_FIELDS.name, *reversed(arrow_schema(table).names)]
    batch = packed_batch(table, "hbase", packed(table, stored), names)
    assert batch.schema.names == names
    assert batch.to_pylist() == made_of_records(table, records, names).to_pylist()


_STATE: Final = msgpack.packb({"c": 5})
UNUSUAL: Final[dict[str, tuple[Table, Sequence[bytes | None]]]] = {
    "not msgpack": (Table.LEDGERS, (b"\xc1",)),
    "nothing": (Table.LEDGERS, (b"",)),
    "no record": (Table.LEDGERS, (None,)),
    "cut off": (Table.LEDGERS, (msgpack.packb({"r": [{"i": 1, "a": 1}]})[:-1],)),
    "a number": (Table.LEDGERS, (msgpack.packb(7),)),
    "a field of a newer release": (Table.LEDGERS, (msgpack.packb({"r": [], "x": 1}),)),
    "a newer field of a range": (Table.LEDGERS, (msgpack.packb({"r": [{"i": 1, "a": 1, "x": 1}]}),)),
    "no ledger": (Table.LEDGERS, (msgpack.packb({"r": [{"a": 1}]}),)),
    "a ledger without a sign": (Table.LEDGERS, (msgpack.packb({"r": [{"i": -1, "a": 1}]}),)),
    "a ledger that is true": (Table.LEDGERS, (msgpack.packb({"r": [{"i": True, "a": 1}]}),)),
    "a ledger in words": (Table.LEDGERS, (msgpack.packb({"r": [{"i": "1", "a": 1}]}),)),
    "half a ledger": (Table.LEDGERS, (msgpack.packb({"r": [{"i": 1.5, "a": 1}]}),)),
    "ranges in words": (Table.LEDGERS, (msgpack.packb({"r": "one"}),)),
    "ranges of nothing": (Table.LEDGERS, (msgpack.packb({"r": ""}),)),
    "ranges as a map": (Table.LEDGERS, (msgpack.packb({"r": {}}),)),
    "an end in words": (Table.LEDGERS, (msgpack.packb({"r": [{"i": 1, "a": 1, "z": "9"}]}),)),
    "an end of nothing": (Table.LEDGERS, (msgpack.packb({"r": [{"i": 1, "a": 1, "z": []}]}),)),
    "a state without a pointer": (Table.SUBSCRIPTIONS, (None, msgpack.packb({"c": None}))),
    "a newer field of a state": (Table.SUBSCRIPTIONS, (None, msgpack.packb({"c": 1, "x": 2}))),
    "a pointer before the first": (Table.SUBSCRIPTIONS, (None, msgpack.packb({"c": -1}))),
    "a region in words": (Table.SUBSCRIPTIONS, (None, msgpack.packb({"c": [1, ["eu", -1]]}))),
    "a region that is a number": (Table.SUBSCRIPTIONS, (None, msgpack.packb({"c": [1, [5, 1]]}))),
    "a region that is a list": (Table.SUBSCRIPTIONS, (None, msgpack.packb({"c": [1, [[1], 1]]}))),
    "a region beside a map": (Table.SUBSCRIPTIONS, (None, msgpack.packb({"c": [1, {b"eu": 1, b"us": 2}]}))),
    "a pointer in bytes": (Table.SUBSCRIPTIONS, (None, msgpack.packb({"c": b"\x07"}))),
    "a newer preference": (Table.SUBSCRIPTIONS, (msgpack.packb({"x": 1}), _STATE)),
    "a bound below zero": (Table.SUBSCRIPTIONS, (msgpack.packb({"b": -1}), _STATE)),
    "options in words": (Table.SUBSCRIPTIONS, (msgpack.packb({"o": {"a": "b"}}), _STATE)),
    "a hub without a port": (Table.OWNERS, (msgpack.packb({"h": "one", "e": 1}),)),
    "a hub with more": (Table.OWNERS, (msgpack.packb({"h": "one", "p": 1, "e": 1, "x": 1}),)),
    "no hub": (Table.OWNERS, (None,)),
}


@pytest.mark.parametrize(("table", "stored"), UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_records_are_left_to_others(table: Table, stored: Sequence[bytes | None]) -> None:
    sound: dict[Table, tuple[bytes | None, ...]] = {
        Table.LEDGERS: part_codec(Table.LEDGERS.kind).pack(samples.ranges(1)),
        Table.SUBSCRIPTIONS: part_codec(Table.SUBSCRIPTIONS.kind).pack(samples.subscription(1)),
        Table.OWNERS: part_codec(Table.OWNERS.kind).pack(samples.hub(1)),
    }
    far = (None, msgpack.packb({"c": [3, [b"eu", 4]]})) if table is Table.SUBSCRIPTIONS else sound[table]
    packed_batch(table, "hbase", packed(table, [sound[table], far]))
    for rows in ([stored], [sound[table], stored], [far, stored]):
        page = packed(table, rows)
        for columns in (page, in_arrays(page)):
            with pytest.raises(UnusualError):
                packed_batch(table, "hbase", columns, ["topic"])


_NUMBERS: Final = st.one_of(
    st.integers(-3, 3),
    st.integers((1 << 64) - 2, (1 << 64) - 1),
    st.booleans(),
    st.none(),
    st.floats(0, 9),
    st.text(max_size=2),
    st.binary(max_size=2),
)
_SEQ_IDS: Final = st.one_of(
    _NUMBERS,
    st.lists(_NUMBERS, max_size=2),
    st.tuples(_NUMBERS, st.tuples(_NUMBERS, _NUMBERS)),
    st.dictionaries(_NUMBERS.filter(lambda value: value is not None), _NUMBERS, max_size=2),
)
_FIELDS: Final = {
    Table.LEDGERS: st.fixed_dictionaries(
        {
            "r": _SEQ_IDS
            | st.lists(st.fixed_dictionaries({"i": _NUMBERS}, optional={"a": _NUMBERS, "z": _SEQ_IDS, "x": _NUMBERS}))
        },
        optional={"x": _NUMBERS},
    ),
    Table.SUBSCRIPTIONS: st.fixed_dictionaries({"c": _SEQ_IDS}, optional={"x": _NUMBERS}),
}


@given(st.sampled_from(list(_FIELDS)).flatmap(lambda table: st.tuples(st.just(table), _FIELDS[table])), st.booleans())
def test_what_is_not_left_to_others_is_what_they_read(sample: tuple[Table, Any], is_far: bool) -> None:
    table, fields = sample
    raw = msgpack.packb(fields)
    stored = (None, raw) if table is Table.SUBSCRIPTIONS else (raw,)
    # A record of another region beside it makes the decoder look at every id of the page more closely.
    far = {
        Table.LEDGERS: (msgpack.packb({"r": [{"i": 1, "z": [3, [b"eu", 4]]}]}),),
        Table.SUBSCRIPTIONS: (None, msgpack.packb({"c": [3, [b"eu", 4]]})),
    }[table]
    try:
        batch = packed_batch(table, "hbase", packed(table, [stored, far] if is_far else [stored])).slice(0, 1)
    except UnusualError:
        return
    try:
        record = part_codec(table.kind).read(table.kind.noun, RecordKey(Topic(b"0")), stored)
    except CorruptRecordError as exc:
        raise AssertionError(f"{fields} cannot be read, and came out as {batch.to_pylist()}") from exc
    assert not has_unknown_fields(record)
    assert batch.to_pylist() == made_of_records(table, [record]).to_pylist()
