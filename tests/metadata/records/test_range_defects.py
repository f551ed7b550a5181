"""Prove that ranges that do not follow each other are found, and repaired only as their ledgers prove."""

import pytest

from hedwig.metadata.records.ranges import RangeFault, held_ledgers, mend_ranges, range_defects, without_lost
from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId, RegionSeqId

REMOTE = (RegionSeqId(b"eu", 7),)


def ranges(*parts: tuple[int, int | None, int | None]) -> LedgerRanges:
    """Return the record of (ledger, start, end)s."""
    return LedgerRanges(
        tuple(
            LedgerRange(ledger_id=ledger_id, start=start, end=None if end is None else MessageSeqId(end))
            for ledger_id, start, end in parts
        )
    )


def faults(record: LedgerRanges) -> list[tuple[RangeFault, int]]:
    return [(defect.fault, defect.ledger_id) for defect in range_defects(record)]


@pytest.mark.parametrize(
    "record",
    [
        ranges(),
        ranges((1, 1, None)),
        ranges((1, 1, 5), (2, 6, 9), (3, 10, None)),
        ranges((9, 4, 5), (2, 6, 6)),  # Ids of ledgers need not grow.
        ranges((1, None, 5), (2, None, 9), (3, 10, None)),  # Old records have no starts.
        ranges((1, 6, 5)),  # Consumed and deleted: the record keeps the next id.
        ranges((1, 6, 5), (2, 6, 9)),
        ranges((1, 1, 5), (2, 6, 5), (3, 6, None)),
    ],
)
def test_sound_records_have_no_defect(record: LedgerRanges) -> None:
    assert range_defects(record) == []


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (ranges((1, 1, 5), (2, 5, 9)), [(RangeFault.OVERLAP, 2)]),
        (ranges((1, 1, 9), (2, 3, 5), (3, 10, None)), [(RangeFault.OVERLAP, 2)]),
        (ranges((1, 1, 5), (1, 6, 9)), [(RangeFault.OVERLAP, 1)]),
        (ranges((1, 1, 5), (2, 7, 9)), [(RangeFault.GAP, 2)]),
        (ranges((1, 1, 5), (2, 7, 9), (3, 9, None)), [(RangeFault.GAP, 2), (RangeFault.OVERLAP, 3)]),
        (ranges((1, 1, None), (2, 6, None)), [(RangeFault.OPEN, 2)]),
        (ranges((1, None, 5), (2, 8, None)), [(RangeFault.GAP, 2)]),
    ],
)
def test_each_defect_is_found_at_the_ledger_behind_it(
    record: LedgerRanges, expected: list[tuple[RangeFault, int]]
) -> None:
    assert faults(record) == expected
    assert all(str(defect.ledger_id) in defect.text for defect in range_defects(record))


@pytest.mark.parametrize(
    ("record", "last_entries", "mended"),
    [
        # An end is too low, or too high.
        (ranges((1, 1, 3), (2, 6, None)), {1: 4}, ranges((1, 1, 5), (2, 6, None))),
        (ranges((1, 1, 9), (2, 6, 9)), {1: 4, 2: 3}, ranges((1, 1, 5), (2, 6, 9))),
        # An end is missing: the ledger was closed, but the record does not say so.
        (ranges((1, 1, None), (2, 6, None)), {1: 4}, ranges((1, 1, 5), (2, 6, None))),
        # A range is there twice. This shows without the ledgers.
        (ranges((1, 1, 5), (1, 1, 5), (2, 6, None)), {}, ranges((1, 1, 5), (2, 6, None))),
        # An empty range is redundant.
        (ranges((1, 1, 5), (2, 6, 8), (3, 6, None)), {2: -1}, ranges((1, 1, 5), (3, 6, None))),
        (ranges((1, 1, 5), (2, 4, 3), (3, 6, None)), {}, ranges((1, 1, 5), (3, 6, None))),
    ],
)
def test_what_the_ledgers_prove_is_mended(
    record: LedgerRanges, last_entries: dict[int, int], mended: LedgerRanges
) -> None:
    assert mend_ranges(record, last_entries) == mended
    assert range_defects(mended) == []


@pytest.mark.parametrize(
    ("record", "last_entries"),
    [
        (ranges((1, 1, 5), (2, 7, 9)), {1: 4, 2: 2}),  # Message 6 is in no ledger.
        (ranges((1, 1, 5), (2, 5, 9)), {1: 4, 2: 4}),  # Both ledgers have message 5.
        (ranges((1, 1, 3), (2, 6, None)), {}),  # The ledger does not exist.
        (ranges((1, 1, 5), (1, 6, 9)), {1: 4}),
    ],
)
def test_what_they_do_not_prove_is_left(record: LedgerRanges, last_entries: dict[int, int]) -> None:
    assert mend_ranges(record, last_entries) is None


def test_mending_keeps_the_last_end_and_the_positions_in_other_regions() -> None:
    first = LedgerRange(ledger_id=1, start=1, end=MessageSeqId(3, REMOTE))
    last = LedgerRange(ledger_id=2, start=6, end=MessageSeqId(9))
    mended = mend_ranges(LedgerRanges((first, last)), {1: 4, 2: 0})
    assert mended is not None
    assert [each.end for each in mended.ranges] == [MessageSeqId(5, REMOTE), MessageSeqId(9)]


def test_emptied_ranges_hold_nothing() -> None:
    held = held_ledgers(ranges((1, 6, 5), (2, 6, 9), (3, 10, None)))
    assert [each.ledger_id for each in held] == [2, 3]


@pytest.mark.parametrize(
    ("record", "lost", "rest"),
    [
        (ranges((1, 1, 5), (2, 6, 9)), {1}, ranges((2, 6, 9))),
        (ranges((1, 1, 5), (2, 6, 9), (3, 10, None)), {1, 2}, ranges((3, 10, None))),
        (ranges((1, 1, 5), (2, 6, 9)), {1, 2}, ranges((2, 10, 9))),  # The record keeps the next id.
        (ranges((1, 6, 5), (2, 6, 9), (3, 10, None)), {2}, ranges((3, 10, None))),
        (ranges((1, 1, 5), (2, 6, 9)), {2}, None),
        (ranges((1, 1, 5), (2, 6, None)), {1, 2}, None),
        (ranges((1, 1, None)), {1}, None),
        (ranges((1, 1, 5)), set(), None),
    ],
)
def test_lost_ledgers_go_from_the_front_only(record: LedgerRanges, lost: set[int], rest: LedgerRanges | None) -> None:
    assert without_lost(record, lost) == rest
