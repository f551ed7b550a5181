"""The topic of a generated subscription: popularity by Zipf's law, exactly, and without random draws.

Ranks count topics from the most popular. Rank r has the share (G(r+1) - G(r)) of all subscriptions, where G grows as
the integral of x^-s. So G and its inverse are closed expressions, and subscription j belongs to the rank at which
floor(M·G) passes j. So every row computes its own rank, in any partition. How many subscriptions each rank has is known
before anything is generated.

Spark computes powers and logarithms with Java's StrictMath, which gives the same bits on every machine.
"""

import math
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Popularity", "Shuffle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Popularity:
    """`subscriptions` distributed over `topics`; `exponent` is Zipf's s: at 0 all are alike, 1 is as words of a text.

    Raises: ValueError - a number is out of range.
    """

    topics: int
    subscriptions: int
    exponent: float

    def __post_init__(self) -> None:
        if self.topics < 1 or self.subscriptions < 0 or not 0 <= self.exponent <= 2:
            raise ValueError("popularity needs at least 1 topic, at least 0 subscriptions, and an exponent of 0 to 2")

    def before(self, rank: "Column") -> "Column":
        """Return how many subscriptions the ranks below `rank` have together (bigint); `rank` is 0 to `topics`."""
        from pyspark.sql import functions as F

        share = self._integral(rank.cast("double")) / F.lit(self._whole)
        return F.when(rank >= self.topics, F.lit(self.subscriptions)).otherwise(
            F.floor(F.lit(float(self.subscriptions)) * share)
        )

    def rank_of(self, index: "Column") -> "Column":
        """Return the rank that subscription `index` (0 to `subscriptions` - 1) belongs to (bigint)."""
        from pyspark.sql import functions as F

        area = (index + 1).cast("double") / F.lit(float(self.subscriptions)) * F.lit(self._whole)
        near = F.ceil(self._inverse(area)) - 1
        near = F.least(F.greatest(near, F.lit(0)), F.lit(self.topics - 1))
        # Rounding in the last bit of a double may give a neighbour of the rank, never more.
        below, above = F.greatest(near - 1, F.lit(0)), F.least(near + 1, F.lit(self.topics - 1))
        return F.when(self.before(near) > index, below).when(self.before(near + 1) <= index, above).otherwise(near)

    @property
    def most(self) -> int:
        """Return an upper bound of the number of subscriptions of any rank."""
        if not self.subscriptions:
            return 0
        return min(self.subscriptions, math.ceil(self.subscriptions * self._area(1.0) / self._whole) + 1)

    @property
    def _whole(self) -> float:
        return self._area(float(self.topics))

    def _area(self, rank: float) -> float:
        rest = 1 - self.exponent
        return math.log(rank + 1) if rest == 0 else ((rank + 1) ** rest - 1) / rest

    def _integral(self, rank: "Column") -> "Column":
        from pyspark.sql import functions as F

        rest = 1 - self.exponent
        return F.log(rank + 1) if rest == 0 else (F.pow(rank + 1, F.lit(rest)) - 1) / F.lit(rest)

    def _inverse(self, area: "Column") -> "Column":
        from pyspark.sql import functions as F

        rest = 1 - self.exponent
        return F.exp(area) - 1 if rest == 0 else F.pow(area * F.lit(rest) + 1, F.lit(1 / rest)) - 1


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A one-to-one map of the numbers 0 to `size` - 1 onto themselves: (number · factor + shift) mod size."""

    SIZE_MAX: ClassVar[int] = 3_000_000_000
    """With larger sizes the products would not fit into 63 bits."""

    size: int
    factor: int
    shift: int

    @classmethod
    def of(cls, size: int, seed: int) -> Self:
        """Return a shuffle of `size` numbers, at most SIZE_MAX, that depends on `seed` and `size` alone."""
        random = Random(seed)
        factor = random.randrange(size) | 1
        while math.gcd(factor, size) != 1:
            factor += 2
        return cls(size, factor % size or 1, random.randrange(size))

    def of_number(self, number: "Column") -> "Column":
        """Return the index of `number` modulo the size (bigint); `number` may be any number."""
        from pyspark.sql import functions as F

        size = F.lit(self.size)
        return F.pmod(F.pmod(number, size) * F.lit(self.factor) + F.lit(self.shift), size)
