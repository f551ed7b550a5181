"""What of a segment is still needed: the slots that have records there, and how many bytes of theirs are live."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from hedwig.hub.ledgers.shared.entries.columns import column
from hedwig.hub.ledgers.shared.entries.runs import Run

__all__ = ["SegmentUse"]

_SLOT: Final = Run._fields.index("slot")
_SIZE: Final = Run._fields.index("size")


class SegmentUse:
    """The slots of one segment, with the bytes of their payloads. A slot is live until it is dropped.

    It takes 8 bytes a slot.
    """

    __slots__ = ("_is_last_live", "_sizes", "_slots", "live_bytes", "live_slots")

    def __init__(self) -> None:
        self._slots = column()
        self._sizes = column()
        self._is_last_live = False
        self.live_slots = 0
        self.live_bytes = 0

    def noting(self, runs: Iterable[tuple[int, ...]], is_live: Callable[[int], bool]) -> Iterator[tuple[int, ...]]:
        """Yield the fields of `runs`, which are sorted, and note their slots, which are live or not.

        Slots may be dropped between two runs.
        """
        slots, sizes = self._slots, self._sizes
        for run in runs:
            slot, size = run[_SLOT], run[_SIZE]
            if not slots or slots[-1] != slot:
                slots.append(slot)
                sizes.append(0)
                self._is_last_live = is_live(slot)
                self.live_slots += self._is_last_live
            sizes[-1] += size
            if self._is_last_live:
                self.live_bytes += size
            yield run

    def drop(self, slot: int) -> bool:
        """Note that a slot which was live is not needed any more. Return whether it has records here."""
        number = self._number_of(slot)
        if number is None:
            return False
        if number == len(self._slots) - 1:
            self._is_last_live = False
        self.live_slots -= 1
        self.live_bytes -= self._sizes[number]
        return True

    def size_of(self, slot: int) -> int:
        """Return how many bytes the payloads of a slot have here, 0 if it has none."""
        number = self._number_of(slot)
        return 0 if number is None else self._sizes[number]

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield how many bytes each slot has here, and the slot, whether it is live or not."""
        return zip(self._sizes, self._slots, strict=True)

    def _number_of(self, slot: int) -> int | None:
        number = bisect_left(self._slots, slot)
        return number if number < len(self._slots) and self._slots[number] == slot else None
