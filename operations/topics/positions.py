"""What the record of a topic's ledgers says of its messages: the ids that each ledger holds, and their number."""

from collections.abc import Sequence
from dataclasses import dataclass

from hedwig.model import LedgerRange

__all__ = ["Held", "TopicPositions"]


@dataclass(frozen=True, slots=True)
class Held:
    """The ids that one ledger holds. `start`: None if an old record lacks it. `end`: None while its hub writes it."""

    ledger_id: int
    start: int | None
    end: int | None

    @property
    def is_closed(self) -> bool:
        return self.end is not None

    @property
    def messages(self) -> int | None:
        """Return how many messages the ledger holds; None if the record alone does not say."""
        return None if self.start is None or self.end is None else self.end - self.start + 1


class TopicPositions:
    """The ledgers of a topic, in order."""

    def __init__(self, ranges: Sequence[LedgerRange]) -> None:
        self.held: list[Held] = []
        previous: int | None = None
        for each in ranges:
            start = each.start if each.start is not None or previous is None else previous + 1
            previous = None if each.end is None else each.end.local
            self.held.append(Held(each.ledger_id, start, previous))

    @property
    def open(self) -> Held | None:
        """The ledger whose end is not on record."""
        return self.held[-1] if self.held and not self.held[-1].is_closed else None

    @property
    def first_id(self) -> int | None:
        """The id of the first kept message, or the next id if there is none; None if an old record does not say."""
        return self.held[0].start if self.held else 1

    @property
    def last_id(self) -> int | None:
        """The id of the last message, 0 if there never was one; None while a ledger is open."""
        return self.held[-1].end if self.held else 0

    @property
    def closed_messages(self) -> int | None:
        """How many messages the closed ledgers hold; None if an old record does not say."""
        total = 0
        for each in self.held:
            if each.is_closed:
                if each.messages is None:
                    return None
                total += each.messages
        return total

    def messages(self, last_id: int | None) -> int | None:
        """Return how many messages are kept up to `last_id`. The caller reads it elsewhere while a ledger is open."""
        if self.open is None:
            return self.closed_messages
        if last_id is None or self.open.start is None or self.closed_messages is None:
            return None
        return self.closed_messages + max(0, last_id - self.open.start + 1)
