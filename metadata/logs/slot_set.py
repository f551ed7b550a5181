"""A set of slots of one log, at about a bit for each slot."""

from typing import Final

__all__ = ["SlotSet"]

_PAGE_BITS: Final = 16
_PAGE_BYTES: Final = 1 << (_PAGE_BITS - 3)
_PAGE_MASK: Final = (1 << _PAGE_BITS) - 1


class SlotSet:
    """Slots that were added. They are numbered from 1 without gap, so most of a range is added sooner or later.

    A record that names a far slot by mistake costs one page of 8 KiB.
    """

    __slots__ = ("_pages",)

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def __bool__(self) -> bool:
        return bool(self._pages)

    def __contains__(self, slot: int) -> bool:
        page = self._pages.get(slot >> _PAGE_BITS)
        offset = slot & _PAGE_MASK
        return page is not None and bool(page[offset >> 3] >> (offset & 7) & 1)

    def add(self, slot: int) -> None:
        page = self._pages.get(slot >> _PAGE_BITS)
        if page is None:
            page = self._pages[slot >> _PAGE_BITS] = bytearray(_PAGE_BYTES)
        offset = slot & _PAGE_MASK
        page[offset >> 3] |= 1 << (offset & 7)
