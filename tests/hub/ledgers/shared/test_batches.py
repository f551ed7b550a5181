"""Prove that batches keep what was added to them, and that other bytes are no batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.hub.ledgers.shared.entries.batches import (
    BATCH_BYTES_MAX,
    RECORD_BYTES,
    RECORDS_MAX,
    Batch,
    DamagedBatchError,
    OpenBatch,
)

U32 = st.integers(0, 2**32 - 1)
RECORDS = st.lists(st.tuples(st.integers(0, 5) | U32, U32, st.binary(max_size=40)), min_size=1, max_size=60)


def _batch(records: list[tuple[int, int, bytes]]) -> OpenBatch:
    batch = OpenBatch()
    for slot, entry_id, payload in records:
        assert batch.takes(len(payload))
        batch.add(slot, entry_id, payload)
    return batch


@given(RECORDS)
def test_what_was_added_is_read_again(records: list[tuple[int, int, bytes]]) -> None:
    written = _batch(records)
    data = written.encode().data
    assert len(data) == written.size
    read = Batch.decode(data)
    assert len(read) == len(written) == len(records)
    assert [*read.records()] == [(slot, entry_id, len(payload)) for slot, entry_id, payload in records]
    assert [read.payload(number) for number in range(len(read))] == [payload for _, _, payload in records]
    for slot in {slot for slot, _, _ in records} | {7}:
        assert [*read.of(slot)] == [(entry_id, payload) for of, entry_id, payload in records if of == slot]


def test_bytes_are_those_of_the_format() -> None:
    batch = _batch([(1, 2, b"one"), (0x01020304, 5, b""), (1, 3, b"two")])
    assert (
        batch.encode().data
        == bytes.fromhex(
            "4842 01 00 00000003  00000001 01020304 00000001  00000002 00000005 00000003  00000003 00000003 00000006"
        )
        + b"onetwo"
    )


@given(RECORDS, st.data())
def test_what_is_cut_or_extended_is_no_batch(records: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    whole = _batch(records).encode().data
    cut = data.draw(st.integers(0, len(whole) - 1))
    for damaged in (whole[:cut], whole + b"x"):
        with pytest.raises(DamagedBatchError):
            Batch.decode(damaged)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda rest: bytes.fromhex("48420100000000") + rest))
def test_any_bytes_are_a_batch_or_refused(data: bytes) -> None:
    try:
        batch = Batch.decode(data)
    except DamagedBatchError:
        return
    assert b"".join(map(batch.payload, range(len(batch)))) == data[8 + RECORD_BYTES * len(batch) :]


def test_other_formats_are_named() -> None:
    whole = _batch([(1, 1, b"x")]).encode().data
    with pytest.raises(DamagedBatchError, match="format 2"):
        Batch.decode(whole[:2] + b"\2" + whole[3:])
    with pytest.raises(DamagedBatchError, match="does not begin"):
        Batch.decode(b"xx" + whole[2:])


def test_batches_have_bounds() -> None:
    batch = OpenBatch()
    assert batch.takes(5 << 20), "a large record has a batch of its own"
    for number in range(RECORDS_MAX):
        assert batch.takes(1)
        batch.add(1, number, b"x")
    assert not batch.takes(0)
    large = _batch([(1, 0, bytes(BATCH_BYTES_MAX - 8 - RECORD_BYTES))])
    assert large.size == BATCH_BYTES_MAX
    assert not large.takes(0)
