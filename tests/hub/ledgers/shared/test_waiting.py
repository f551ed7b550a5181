"""Prove that records wait in order, and that a slot with large ones does not hold up the others."""

import asyncio
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from hedwig.hub.ledgers.shared.entries.batches import BATCH_BYTES_MAX, RECORD_BYTES, RECORDS_MAX
from hedwig.hub.ledgers.shared.waiting import Waiting

KIB = 1024
SIZES = st.integers(0, 200) | st.integers(0, 100 * KIB) | st.just(BATCH_BYTES_MAX)


class _Filled:
    """Records that wait, numbered for each slot, and what was taken of them."""

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.taken: defaultdict[int, list[int]] = defaultdict(list)
        self.sizes: defaultdict[int, list[int]] = defaultdict(list)
        self._loop = asyncio.new_event_loop()
        self._loop.close()

    def add(self, slot: int, size: int) -> None:
        self.waiting.add(slot, len(self.sizes[slot]), bytes(size), self._loop.create_future())
        self.sizes[slot].append(size)

    def take(self) -> list[int]:
        """Take the next batch, and return the slots of its records."""
        sending = self.waiting.take()
        records = sending.batch.records
        assert len(records) == len(sending.futures) <= RECORDS_MAX
        assert len(records) == 1 or sending.batch.size <= BATCH_BYTES_MAX
        for slot, entry_id, size in records:
            assert size == self.sizes[slot][entry_id]
            self.taken[slot].append(entry_id)
        return [slot for slot, _, _ in records]

    def bytes_left(self) -> int:
        return sum(RECORD_BYTES + size for slot, sizes in self.sizes.items() for size in sizes[len(self.taken[slot]) :])


@given(st.lists(st.tuples(st.integers(1, 4), SIZES) | st.none(), max_size=60))
def test_each_slot_keeps_its_order_and_every_byte_is_counted(steps: list[tuple[int, int] | None]) -> None:
    filled = _Filled()
    for step in steps:
        if step is None:
            has_some = bool(filled.waiting)
            assert bool(filled.take()) == has_some
        else:
            filled.add(*step)
        assert filled.waiting.size == filled.bytes_left()
    while filled.waiting:
        assert filled.take()
    assert filled.waiting.size == 0
    assert {slot: list(range(len(sizes))) for slot, sizes in filled.sizes.items()} == {
        slot: filled.taken[slot] for slot in filled.sizes
    }


def test_small_records_wait_for_one_batch_of_a_slot_that_has_many_large_ones() -> None:
    filled = _Filled()
    for _ in range(100):
        filled.add(1, 60 * KIB)
    small = range(2, 502)
    for slot in small:
        filled.add(slot, 100)
    assert set(filled.take()) == {1}, "it was there first"
    assert set(filled.take()) == {1, *small}


@given(st.lists(st.tuples(st.integers(1, 3), SIZES), max_size=30), st.integers(0, 3))
def test_what_is_dropped_is_all_that_was_not_taken(records: list[tuple[int, int]], takes: int) -> None:
    filled = _Filled()
    for record in records:
        filled.add(*record)
    for _ in range(takes):
        filled.take()
    dropped = [(slot, entry_id) for slot, entry_id, _ in filled.waiting.drop()]
    assert (filled.waiting.size, bool(filled.waiting)) == (0, False)
    for slot, sizes in filled.sizes.items():
        assert [*filled.taken[slot], *(entry_id for of, entry_id in dropped if of == slot)] == list(range(len(sizes)))
