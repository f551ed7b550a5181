"""Draws: which key each operation goes to, by chance, without end, and at next to no cost while a load runs."""

import itertools
import random
from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Final

__all__ = ["AHEAD", "draws"]

AHEAD: Final = 1 << 17
"""So many are drawn beforehand: more than loads have operations in the time of a usual one."""
_AT_ONCE: Final = 256
"""So many are drawn when they run out: a pause of a tenth of a millisecond, some hundred nanoseconds for each."""
_ZIPF_EXPONENT: Final = 0.99
"""The skew of YCSB's default."""


def draws(count: int, salt: str, *, is_zipf: bool) -> Callable[[int], int]:
    """Return what tells a number from 0 to `count` - 1 by its place, independent of those at all other places.

    The same salt gives the same numbers, whatever is asked for first. All are equally likely, or, if `is_zipf`, the
    number n as likely as the rank n + 1 of Zipf's law.
    """
    numbers, weights = range(count), _zipf_weights(count) if is_zipf else None
    # One stream for all places: to begin one anew for each stretch of them would cost more than the stretch.
    choices = random.Random(salt).choices
    drawn = array("q", choices(numbers, cum_weights=weights, k=AHEAD))

    def at(place: int) -> int:
        try:
            return drawn[place]
        except IndexError:
            while place >= len(drawn):
                drawn.extend(choices(numbers, cum_weights=weights, k=_AT_ONCE))
            return drawn[place]

    return at


@lru_cache(maxsize=1)
def _zipf_weights(count: int) -> "array[float]":
    """Return the weights of the ranks, each with those before it. Ten million take seconds, so they are kept."""
    return array("d", itertools.accumulate(1 / rank**_ZIPF_EXPONENT for rank in range(1, count + 1)))
