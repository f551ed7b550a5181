"""Draws: the random key of each operation, without end, and at almost no cost while a load runs."""

import itertools
import random
from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Final

__all__ = ["AHEAD", "draws"]

AHEAD: Final = 1 << 17
"""Keys drawn beforehand: more than a load of the usual time has operations."""
_AT_ONCE: Final = 256
"""Keys drawn at once when they run out: a pause of about 0.1 ms, some hundred nanoseconds for each key."""
_ZIPF_EXPONENT: Final = 0.99
"""The skew of YCSB's default."""


def draws(count: int, salt: str, *, is_zipf: bool) -> Callable[[int], int]:
    """Return a function that gives a random number from 0 to `count` - 1 for each position, independent of all others.

    The same salt gives the same numbers, in whichever order the caller asks. All numbers are equally likely.
    With `is_zipf`, the number n is as likely as the rank n + 1 of Zipf's law.
    """
    numbers, weights = range(count), _zipf_weights(count) if is_zipf else None
    # One stream for all positions: a new stream for each stretch of them would cost more than the stretch.
    choices = random.Random(salt).choices
    drawn = array("q", choices(numbers, cum_weights=weights, k=AHEAD))

    def at(position: int) -> int:
        try:
            return drawn[position]
        except IndexError:
            while position >= len(drawn):
                drawn.extend(choices(numbers, cum_weights=weights, k=_AT_ONCE))
            return drawn[position]

    return at


@lru_cache(maxsize=1)
def _zipf_weights(count: int) -> "array[float]":
    """Return the cumulative weights of the ranks. Ten million take seconds, so they are kept."""
    return array("d", itertools.accumulate(1 / rank**_ZIPF_EXPONENT for rank in range(1, count + 1)))
