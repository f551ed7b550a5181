"""Whether two sides differ, or only as much as rounds of one side differ among themselves."""

import bisect
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

__all__ = [
    "LEAST",
    "Difference",
    "Relation",
    "bound_words",
    "differ",
    "differ_in_rounds",
    "middle",
    "over_all",
    "undecided",
]

LEAST: Final = 0.02
"""Smaller differences are not reported, however alike the rounds: windows and clocks are not more exact than that."""
_PAIRS_MIN: Final = 3
_T: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""The value that Student's t does not exceed in 97.5 % of cases, for 1, 2, … 20 degrees of freedom."""
_T_LIMIT: Final = 1.960
_DIGITS_MAX: Final = 6


class Relation(StrEnum):
    """How the second side relates to the first."""

    MORE = "more"
    LESS = "less"
    NOISE = "within the noise"
    UNKNOWN = "noise unknown"
    MIXED = "rounds and all times disagree"
    SHORT = "too short to tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a figure of the second side relates to the same figure of the first.

    ratio: the second divided by the first, as reported: the ratio of the rounds, unless there is one `over_all`; None
        if a round is not above 0.
    of_rounds: the ratio of the geometric means of the rounds.
    low, high: the ratio of the rounds is between them in 95 of 100 such cases; None if unknown.
    how: how the verdict was found, in words.
    """

    ratio: float | None
    of_rounds: float | None
    low: float | None
    high: float | None
    verdict: Relation
    how: str


def differ(first_rounds: Sequence[float], second_rounds: Sequence[float]) -> Difference:
    """Compare the values of a figure in the single rounds of two sides.

    Rounds differ by factors, and each side has a noise of its own. So the interval is Welch's, of the logarithms.
    It lies around the ratio of the geometric means, which is always within the rounds' ratios.
    """
    if not all(value > 0 and math.isfinite(value) for value in (*first_rounds, *second_rounds)):
        return Difference(
            ratio=None, of_rounds=None, low=None, high=None, verdict=Relation.UNKNOWN, how="a figure is not above 0"
        )
    ratio = middle(second_rounds) / middle(first_rounds)
    if min(len(first_rounds), len(second_rounds)) < 2:
        rounds = "1 round" if len(first_rounds) == len(second_rounds) else "1 round on one side"
        return Difference(ratio=ratio, of_rounds=ratio, low=None, high=None, verdict=Relation.UNKNOWN, how=rounds)
    return _judged(
        ratio, _half_width([math.log(value) for value in first_rounds], [math.log(value) for value in second_rounds])
    )


def differ_in_rounds(first_rounds: Sequence[float], second_rounds: Sequence[float]) -> Difference | None:
    """Compare two figures whose rounds alternated on one machine, round by round; None if the rounds do not pair up.

    Conditions that neighbouring rounds share, such as other work on the machine, affect both figures and so not their
    ratio. Two ratios would say almost nothing about their noise, so at least three are needed.
    """
    rounds = len(first_rounds)
    if rounds != len(second_rounds) or rounds < _PAIRS_MIN or min(*first_rounds, *second_rounds) <= 0:
        return None
    ratios = [second / first for first, second in zip(first_rounds, second_rounds, strict=True)]
    width = _t(rounds - 1) * math.sqrt(_variance([math.log(ratio) for ratio in ratios]))
    return _judged(middle(ratios), width)


def over_all(difference: Difference, ratio: float) -> Difference:
    """Return the difference of a percentile, with the ratio over all times of each side, from merged histograms.

    The mean of percentiles is not a percentile. So the rounds' ratios only say how far rounds vary, and whether there
    is a difference at all. The ratio over all times may lie outside their interval. A round with a long tail has more
    than its share of the slowest times. If that ratio is not on the rounds' side of 1 by at least `LEAST`, the
    two disagree, and the verdict is MIXED.
    """
    if difference.ratio is None:
        return difference
    if difference.low is None or difference.high is None:
        return replace(difference, ratio=ratio)
    if (difference.verdict is Relation.MORE and ratio - 1 < LEAST) or (
        difference.verdict is Relation.LESS and 1 - ratio < LEAST
    ):
        how = f"{difference.how}, but all times together do not say so"
        return replace(difference, ratio=ratio, verdict=Relation.MIXED, how=how)
    if difference.low * (1 - LEAST) <= ratio <= difference.high * (1 + LEAST):
        return replace(difference, ratio=ratio)
    return replace(difference, ratio=ratio, how=f"{difference.how}; all times together lie outside the interval")


def middle(ratios: Sequence[float]) -> float:
    """Return the geometric mean of ratios, or of the values that they divide: twice and half as much cancel out."""
    # Keep it within the values; rounding of the logarithms could otherwise put it outside.
    return min(max(statistics.geometric_mean(ratios), min(ratios)), max(ratios))


def undecided(difference: Difference, verdict: Relation, how: str) -> Difference:
    """Return the difference without interval, with a verdict that concludes nothing."""
    return replace(difference, low=None, high=None, verdict=verdict, how=how)


def bound_words(ratio: float) -> str:
    """Return an end of an interval, with enough digits to stand on the right side of 1.

    A bound that is far from 1 only says that nothing is known, so it gets no digits.
    """
    if not 0.01 <= ratio < 1000:
        return "0" if ratio < 1 else "over 1,000"
    digits = 2
    while float(text := f"{ratio:.{digits}f}") == 1 and ratio != 1 and digits < _DIGITS_MAX:
        digits += 1
    return text


def _judged(ratio: float, width: float) -> Difference:
    """Return the difference of a ratio whose logarithm may be off by `width` to either side."""
    low, high = ratio * math.exp(-width), ratio * math.exp(width)
    if low <= 1 <= high:
        verdict, how = Relation.NOISE, "the interval holds 1"
    elif abs(ratio - 1) < LEAST:
        verdict, how = Relation.NOISE, f"less than {LEAST:.0%} apart"
    else:
        verdict, how = (Relation.MORE if ratio > 1 else Relation.LESS), "the interval is beyond 1"
    return Difference(ratio=ratio, of_rounds=ratio, low=low, high=high, verdict=verdict, how=how)


def _half_width(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how far the logarithm of a ratio of means may be off, to either side.

    Welch's degrees of freedom are an estimate. With different numbers of rounds it is sometimes too high, so the
    minimum is used there.
    """
    parts = [(_variance(values), len(values) - 1) for values in (first, second)]
    total = sum(variance for variance, _ in parts)
    if not total:
        return 0.0
    freedom = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
    if len(first) != len(second):
        freedom = min(degrees for _, degrees in parts)
    return _t(freedom) * math.sqrt(total)


def _variance(values: Sequence[float]) -> float:
    """Return the variance of the mean of values."""
    return statistics.variance(values) / len(values)


def _t(freedom: float) -> float:
    """Return Student's t, interpolated over the inverses of the degrees of freedom, in which it is nearly linear."""
    inverses = [0.0, *(1 / degrees for degrees in range(len(_T), 0, -1))]
    values = [_T_LIMIT, *reversed(_T)]
    wanted = min(1 / freedom, 1.0)
    upper = max(1, bisect.bisect_left(inverses, wanted))
    share = (wanted - inverses[upper - 1]) / (inverses[upper] - inverses[upper - 1])
    return values[upper - 1] + share * (values[upper] - values[upper - 1])
