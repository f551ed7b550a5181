"""A set of slots of one log, at a bit for each slot up to the highest in it."""

__all__ = ["SlotSet"]


class SlotSet:
    """Slots that were added. They are numbered from 1 without gap, so most of a range is added sooner or later."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = bytearray()

    def __bool__(self) -> bool:
        return bool(self._bits)

    def __contains__(self, slot: int) -> bool:
        index = slot >> 3
        return index < len(self._bits) and bool(self._bits[index] >> (slot & 7) & 1)

    def add(self, slot: int) -> None:
        index = slot >> 3
        if index >= len(self._bits):
            self._bits.extend(bytes(index + 1 - len(self._bits)))
        self._bits[index] |= 1 << (slot & 7)
