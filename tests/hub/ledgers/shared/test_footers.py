"""Prove that runs and footers find each entry of a segment, and that other bytes are no footer."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.hub.ledgers.shared.entries import runs as runs_module
from hedwig.hub.ledgers.shared.entries.footers import (
    BLOCK_RUNS_MAX,
    DamagedFooterError,
    Root,
    decode_block,
    encode_footer,
)
from hedwig.hub.ledgers.shared.entries.runs import GrowingRuns, Run, Runs

BATCHES = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=12), min_size=1, max_size=40)
"""The slots of the records of each batch."""


class Segment:
    """A segment as its writer knows it, and each entry of it."""

    def __init__(self, batches: list[list[int]], first_ids: int = 0) -> None:
        self.runs = GrowingRuns()
        self.next: dict[int, int] = {}
        self.batch_of: dict[tuple[int, int], int] = {}
        self.records = self.size = 0
        for number, slots in enumerate(batches):
            records = []
            for slot in slots:
                entry_id = self.next.get(slot, first_ids)
                self.next[slot] = entry_id + 1
                self.batch_of[slot, entry_id] = number
                records.append((slot, entry_id, entry_id % 7))
                self.size += entry_id % 7
            self.runs.add(number, records)
            self.records += len(records)
        self.last_data_entry = len(batches) - 1


def _expect(following: Iterator[Run], segment: Segment, slot: int, entry_id: int) -> None:
    """Check that these runs have each entry of the slot from `entry_id` on, in order, and where it is."""
    at = entry_id
    for run in following:
        assert run.slot == slot
        assert run.first <= at <= run.last, "runs follow each other"
        while at <= run.last:
            assert segment.batch_of[slot, at] == run.batch
            at += 1
    assert at == max(segment.next.get(slot, entry_id), entry_id)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "_CHUNK_RUNS", 16)


@given(BATCHES)
def test_each_entry_is_found_in_a_segment_that_grows(batches: list[list[int]]) -> None:
    segment = Segment(batches)
    for slot in range(8):
        last = segment.runs.last_of(slot)
        assert (last.last if last else -1) == segment.next.get(slot, 0) - 1
        for entry_id in range(segment.next.get(slot, 0) + 2):
            _expect(segment.runs.following(slot, entry_id), segment, slot, entry_id)
    assert (segment.runs.records, segment.runs.size) == (segment.records, segment.size)


def _footer(segment: Segment) -> tuple[Root, dict[int, Runs]]:
    *blocks, root = encode_footer(segment.runs.in_order(), segment.last_data_entry)
    return Root.decode(root), dict(enumerate(map(decode_block, blocks)))


def _by_footer(root: Root, blocks: dict[int, Runs], slot: int, entry_id: int) -> Iterator[Run]:
    for number in root.blocks_of(slot, entry_id):
        yield from blocks[number].following(slot, entry_id)


@given(BATCHES)
def test_each_entry_is_found_by_the_footer(batches: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hedwig.hub.ledgers.shared.entries.footers.BLOCK_RUNS_MAX", 3)
        segment = Segment(batches)
        root, blocks = _footer(segment)
        assert root.blocks == len(blocks)
        assert (root.records, root.size, root.last_data_entry) == (segment.records, segment.size, len(batches) - 1)
        assert root.highest_slot == max(segment.next)
        for slot in range(8):
            candidates = root.blocks_of(slot)
            last = blocks[candidates[-1]].last_of(slot) if candidates else None
            assert (last.last if last else -1) == segment.next.get(slot, 0) - 1
            for entry_id in range(segment.next.get(slot, 0) + 2):
                _expect(_by_footer(root, blocks, slot, entry_id), segment, slot, entry_id)
        keys = [fields[:2] for block in blocks.values() for fields in block.fields()]
        assert keys == sorted(set(keys))


def test_footer_of_a_segment_without_entries() -> None:
    (data,) = encode_footer([], 4)
    root = Root.decode(data)
    assert (root.blocks, root.records, root.last_data_entry) == (0, 0, 4)
    assert not root.blocks_of(1)


def test_slot_with_more_runs_than_a_block_is_found_in_all_of_them() -> None:
    segment = Segment([[1, 2]] * (3 * BLOCK_RUNS_MAX), first_ids=10)
    root, blocks = _footer(segment)
    assert len(blocks) == 6
    assert len(root.blocks_of(1, 10)) == 3
    for entry_id in (10, BLOCK_RUNS_MAX + 9, BLOCK_RUNS_MAX + 10, 3 * BLOCK_RUNS_MAX + 9):
        first = next(_by_footer(root, blocks, 2, entry_id))
        assert first.first == entry_id
        assert entry_id - 10 == first.batch


@given(BATCHES, st.data())
def test_what_is_cut_or_extended_is_no_footer(batches: list[list[int]], data: st.DataObject) -> None:
    for part in encode_footer(Segment(batches).runs.in_order(), 1):
        cut = data.draw(st.integers(0, len(part) - 1))
        for damaged in (part[:cut], part + b"x"):
            with pytest.raises(DamagedFooterError):
                decode_block(damaged)
            with pytest.raises(DamagedFooterError):
                Root.decode(damaged)
