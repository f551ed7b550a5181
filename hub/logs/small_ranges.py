"""Decides which neighbouring ranges of a topic are worth one ledger. It is the policy alone, without ledgers.

Each idle release ends a ledger. So a topic whose subscriber stays away gets one more each time, until its record is
full. Small neighbours are merged in tiers, sixteen to one. A range goes up a tier whenever its messages are copied. So
each message is copied a few times at most, and few ranges of each tier remain.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from hedwig.model import LedgerRange

__all__ = ["FAN", "LargeLedgers", "find_mergeable", "messages_of"]

FAN: Final = 16
"""The minimum number of ranges to merge."""
_RANGES_MAX: Final = 256
"""The maximum number of ranges to merge; this many are worth a ledger, however few messages they hold."""
_LARGE_MAX: Final = 10_000


class LargeLedgers:
    """The ledgers that turned out not to be small, or not to be readable, so that they stay as they are."""

    def __init__(self) -> None:
        self._ids: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, ledger_id: int) -> bool:
        return ledger_id in self._ids

    def add(self, ledger_id: int) -> None:
        """Add a ledger; if there are too many, drop the oldest entry."""
        self._ids[ledger_id] = None
        if len(self._ids) > _LARGE_MAX:
            self._ids.popitem(last=False)


def messages_of(ranges: Sequence[LedgerRange], messages_max: int, large: LargeLedgers) -> list[int]:
    """Return how many messages each range has; 0 for a range that stays as it is (open, empty, or not small)."""
    return [_messages(each, messages_max, large) for each in ranges]


def _messages(each: LedgerRange, messages_max: int, large: LargeLedgers) -> int:
    if each.end is None or each.start is None or each.ledger_id in large:
        return 0
    messages = each.end.local - each.start + 1
    return messages if 0 < messages <= messages_max else 0


def find_mergeable(messages: Sequence[int]) -> tuple[int, int] | None:
    """Return the first and the end of neighbouring ranges to merge, the smallest and then the newest; None for none.

    `messages` are the numbers of messages of the ranges, 0 for a range that stays as it is. Ranges of less than 16
    messages are merged into one of at least 16. Ranges of less than 256 are then merged into one of at least 256, and
    so on.
    """
    largest = max(messages, default=0)
    tier = FAN
    while tier <= FAN * largest:
        if len(below := [number for number in messages if 0 < number < tier]) >= FAN and _is_worth(below, tier):
            length = total = 0
            for index in range(len(messages) - 1, -1, -1):
                if not 0 < messages[index] < tier:
                    length = total = 0
                    continue
                length += 1
                total += messages[index]
                if length >= FAN and (total >= tier or length >= _RANGES_MAX):
                    return index, index + length
        tier *= FAN
    return None


def _is_worth(messages: Sequence[int], tier: int) -> bool:
    """Say whether these ranges make one range of the next tier, or are too many in any case."""
    return sum(messages) >= tier or len(messages) >= _RANGES_MAX
