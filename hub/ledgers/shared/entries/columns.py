"""Columns of unsigned numbers of 32 bits, which are stored big-endian and used in the order of the machine."""

import sys
from array import array
from collections.abc import Iterable
from typing import Final, TypeAlias

__all__ = ["NUMBER_BYTES", "Column", "DamagedEntryError", "column", "column_at", "stored"]

Column: TypeAlias = "array[int]"

NUMBER_BYTES: Final = 4
_CODE: Final = "I" if array("I").itemsize == NUMBER_BYTES else "L"


class DamagedEntryError(Exception):
    """The bytes are not the entry of a segment that they should be. The text says why."""


def column(numbers: Iterable[int] = ()) -> Column:
    """Return a column of these numbers."""
    return array(_CODE, numbers)


def stored(numbers: Column) -> bytes:
    """Return the bytes of a column as they are stored."""
    if sys.byteorder == "little":
        numbers = array(_CODE, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def column_at(data: bytes, start: int, count: int) -> Column:
    """Return a column of `count` numbers from its stored bytes, which begin at `start` and must all be there."""
    numbers = array(_CODE)
    numbers.frombytes(data[start : start + NUMBER_BYTES * count])
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
