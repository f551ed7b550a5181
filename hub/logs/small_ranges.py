"""Which neighbouring ranges of a topic are worth one ledger: the policy alone, without any ledger.

Each idle release ends a ledger, so a topic whose subscriber stays away gets one for each, until its record is full.
Small neighbours are merged in tiers, sixteen to one. A range goes a tier up whenever its messages are copied, so that
happens a few times to each at most, and few ranges of each tier are left.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from hedwig.model import LedgerRange

__all__ = ["FAN", "LargeLedgers", "find_mergeable", "messages_of"]

FAN: Final = 16
"""How many ranges are merged at least."""
_RANGES_MAX: Final = 256
"""How many are merged at most; so many are worth a ledger whatever they hold."""
_LARGE_MAX: Final = 10_000


class LargeLedgers:
    """Ledgers that were found to be no small ones, or not to be read, so that they are left as they are."""

    def __init__(self) -> None:
        self._ids: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, ledger_id: int) -> bool:
        return ledger_id in self._ids

    def add(self, ledger_id: int) -> None:
        """Remember a ledger; of too many, those that came first are forgotten."""
        self._ids[ledger_id] = None
        if len(self._ids) > _LARGE_MAX:
            self._ids.popitem(last=False)


def messages_of(ranges: Sequence[LedgerRange], messages_max: int, large: LargeLedgers) -> list[int]:
    """Return how many messages each range has; 0 for one that stays as it is: open, empty, or not small."""
    return [_messages(each, messages_max, large) for each in ranges]


def _messages(each: LedgerRange, messages_max: int, large: LargeLedgers) -> int:
    if each.end is None or each.start is None or each.ledger_id in large:
        return 0
    messages = each.end.local - each.start + 1
    return messages if 0 < messages <= messages_max else 0


def find_mergeable(messages: Sequence[int]) -> tuple[int, int] | None:
    """Return the first and the end of neighbouring ranges to merge, the smallest and then the newest; None for none.

    `messages` are those of each range, 0 where it is not to be touched. Ranges of less than 16 messages are merged into
    one of at least 16, then those of less than 256 into one of at least 256, and so on.
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
    """Say whether these make one range of the next tier, or are too many in any case."""
    return sum(messages) >= tier or len(messages) >= _RANGES_MAX
