"""Whether the ledger ranges of a topic follow each other, and how to mend them if the ledgers prove how."""

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId

__all__ = ["RangeDefect", "RangeFault", "held_ledgers", "mend_ranges", "range_defects", "without_lost"]


class RangeFault(enum.Enum):
    """How a range does not follow the one before it."""

    OVERLAP = "overlap"
    """It begins with messages that the ranges before it hold, too, or it names a ledger that one of them names."""
    GAP = "gap"
    """Between the two there are messages that no ledger holds."""
    OPEN = "open"
    """The one before it has no end, although it is not the last."""


@dataclass(frozen=True, slots=True)
class RangeDefect:
    """One point at which ranges do not follow each other: the ledger behind it, and what is wrong, in words."""

    fault: RangeFault
    ledger_id: int
    text: str


def range_defects(record: LedgerRanges) -> list[RangeDefect]:
    """Return the points at which the ranges of a topic do not follow each other, in order.

    A range of an old record has no start: it begins behind the one before it. One whose ledger was emptied begins
    behind its own end, and holds nothing.
    """
    return list(_defects(record.ranges))


def held_ledgers(record: LedgerRanges) -> list[LedgerRange]:
    """Return the ranges of a topic that hold messages, or may hold some: their ledgers have to exist."""
    return [each for each in record.ranges if not _is_emptied(each)]


def mend_ranges(record: LedgerRanges, last_entries: Mapping[int, int]) -> LedgerRanges | None:
    """Return the ranges of a topic as its ledgers prove them to be; None if they do not prove it.

    A closed ledger tells how many messages it holds, and its entry N is the message N behind the start of its range. So
    an end that differs from that is wrong. If all ranges follow each other once the ends are right, then the ranges are
    right. Repeated and emptied ranges say nothing that the others do not. The last range keeps its end, since ids up to
    it were given to messages.

    Args: last_entries - the last entry of each ledger that is closed, by its id; -1 for an empty one.
    """
    kept: list[LedgerRange] = []
    for each in dict.fromkeys(record.ranges):
        is_last = each is record.ranges[-1]
        if is_last or each.start is None or each.ledger_id not in last_entries:
            kept.append(each)
            continue
        last = each.start + last_entries[each.ledger_id]
        end = each.end if each.end is not None else MessageSeqId(last)
        kept.append(each if end == each.end and end.local == last else replace(each, end=replace(end, local=last)))
    ranges = tuple(each for each in kept if not _is_emptied(each)) or tuple(kept[-1:])
    return None if any(_defects(ranges)) else replace(record, ranges=ranges)


def without_lost(record: LedgerRanges, lost: Collection[int]) -> LedgerRanges | None:
    """Return the ranges of a topic without those whose ledgers are `lost`; None if that would leave a gap.

    Ranges can go from the front only. If all go, the last one stays as an emptied range that tells which message comes
    next, so it must have an end.
    """
    ranges = record.ranges
    gone = 0
    while gone < len(ranges) and (ranges[gone].ledger_id in lost or _is_emptied(ranges[gone])):
        gone += 1
    if gone == 0 or any(each.ledger_id in lost and not _is_emptied(each) for each in ranges[gone:]):
        return None
    if gone < len(ranges):
        return replace(record, ranges=ranges[gone:])
    last = ranges[-1]
    if last.end is None:
        return None
    return replace(record, ranges=(replace(last, start=last.end.local + 1),))


def _defects(ranges: Sequence[LedgerRange]) -> Iterator[RangeDefect]:
    previous: int | None = None
    before: LedgerRange | None = None
    seen: set[int] = set()
    for each in ranges:
        start = each.start if each.start is not None or previous is None else previous + 1
        if each.ledger_id in seen:
            text = f"ledger {each.ledger_id} is named twice"
            yield RangeDefect(RangeFault.OVERLAP, each.ledger_id, text)
        elif before is not None and before.end is None:
            text = f"ledger {before.ledger_id} has no end, although ledger {each.ledger_id} follows it"
            yield RangeDefect(RangeFault.OPEN, each.ledger_id, text)
        elif before is not None and previous is not None and start is not None and start <= previous:
            text = f"ledger {each.ledger_id} begins with message {start}, and those before it hold up to {previous}"
            yield RangeDefect(RangeFault.OVERLAP, each.ledger_id, text)
        elif before is not None and previous is not None and start is not None and start > previous + 1:
            text = f"no ledger holds the messages {previous + 1} to {start - 1}, before ledger {each.ledger_id}"
            yield RangeDefect(RangeFault.GAP, each.ledger_id, text)
        seen.add(each.ledger_id)
        before = each
        previous = previous if each.end is None else max(each.end.local, previous or 0)


def _is_emptied(each: LedgerRange) -> bool:
    return each.end is not None and each.start is not None and each.start > each.end.local
