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
    "Verdict",
    "bound_words",
    "differ",
    "differ_in_rounds",
    "middle",
    "over_all",
    "undecided",
]

LEAST: Final = 0.02
"""Differences below this share are not told, however alike the rounds: windows and clocks are not truer than that."""
_PAIRS_MIN: Final = 3
_T: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""What Student's t does not exceed in 97.5 % of cases, for 1, 2, … 20 degrees of freedom."""
_T_LIMIT: Final = 1.960
_DIGITS_MAX: Final = 6


class Verdict(StrEnum):
    """What the second side is to the first."""

    MORE = "more"
    LESS = "less"
    NOISE = "within the noise"
    UNKNOWN = "noise unknown"
    MIXED = "rounds and all times disagree"
    SHORT = "too short to tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a figure of the second side relates to the same of the first.

    ratio: the second divided by the first, as it is told: that of the rounds, unless there is one `over_all`; None if a
        round is not above 0.
    of_rounds: the same, each the geometric mean of its rounds.
    low, high: that of the rounds is between them in 95 of 100 such cases; None if that cannot be told.
    how: how the verdict was found, in words.
    """

    ratio: float | None
    of_rounds: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    how: str


def differ(first_rounds: Sequence[float], second_rounds: Sequence[float]) -> Difference:
    """Compare what a figure of two sides was in single rounds.

    Rounds differ by factors, and each side has a noise of its own: the interval is Welch's, of the logarithms. It is
    put around what it is the interval of, the ratio of geometric means, which lies within the rounds' ratios always.
    """
    if not all(value > 0 and math.isfinite(value) for value in (*first_rounds, *second_rounds)):
        return Difference(
            ratio=None, of_rounds=None, low=None, high=None, verdict=Verdict.UNKNOWN, how="a figure is not above 0"
        )
    ratio = middle(second_rounds) / middle(first_rounds)
    if min(len(first_rounds), len(second_rounds)) < 2:
        rounds = "1 round" if len(first_rounds) == len(second_rounds) else "1 round on one side"
        return Difference(ratio=ratio, of_rounds=ratio, low=None, high=None, verdict=Verdict.UNKNOWN, how=rounds)
    return _judged(
        ratio, _half_width([math.log(value) for value in first_rounds], [math.log(value) for value in second_rounds])
    )


def differ_in_rounds(first_rounds: Sequence[float], second_rounds: Sequence[float]) -> Difference | None:
    """Compare two figures whose rounds alternated on one machine, one of the first with the one beside it; else None.

    What a round's neighbours had in common, such as other work on the machine, is in both figures of a ratio and so
    not in the ratio. Two ratios would tell next to nothing of their noise: at least three are needed.
    """
    rounds = len(first_rounds)
    if rounds != len(second_rounds) or rounds < _PAIRS_MIN or min(*first_rounds, *second_rounds) <= 0:
        return None
    ratios = [second / first for first, second in zip(first_rounds, second_rounds, strict=True)]
    width = _t(rounds - 1) * math.sqrt(_variance([math.log(ratio) for ratio in ratios]))
    return _judged(middle(ratios), width)


def over_all(difference: Difference, ratio: float) -> Difference:
    """Return what is told of a percentile, by the ratio of that of all times of each side, from merged histograms.

    The mean of percentiles is the percentile of nothing, so the rounds' ratios only say how far rounds go and whether
    there is a difference at all. The ratio over all may lie anywhere beside their interval, since a round with a long
    tail has more of the slowest times than its share of the rounds. Where it does not lie on the side that the rounds
    are on, by `LEAST` as they must, they disagree, and nothing is concluded.
    """
    if difference.ratio is None:
        return difference
    if difference.low is None or difference.high is None:
        return replace(difference, ratio=ratio)
    if (difference.verdict is Verdict.MORE and ratio - 1 < LEAST) or (
        difference.verdict is Verdict.LESS and 1 - ratio < LEAST
    ):
        how = f"{difference.how}, but all times together do not say so"
        return replace(difference, ratio=ratio, verdict=Verdict.MIXED, how=how)
    if difference.low * (1 - LEAST) <= ratio <= difference.high * (1 + LEAST):
        return replace(difference, ratio=ratio)
    return replace(difference, ratio=ratio, how=f"{difference.how}; all times together lie outside the interval")


def middle(ratios: Sequence[float]) -> float:
    """Return the geometric mean of ratios, or of what ratios are made of: twice and half as much come to the same."""
    # Not beyond its values, as the logarithms' rounding would have it now and then.
    return min(max(statistics.geometric_mean(ratios), min(ratios)), max(ratios))


def undecided(difference: Difference, verdict: Verdict, how: str) -> Difference:
    """Return a difference that nothing is concluded from."""
    return replace(difference, low=None, high=None, verdict=verdict, how=how)


def bound_words(ratio: float) -> str:
    """Return an end of an interval with so many digits that it stands on the right side of 1.

    What is far out says only that nothing is known.
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
        verdict, how = Verdict.NOISE, "the interval holds 1"
    elif abs(ratio - 1) < LEAST:
        verdict, how = Verdict.NOISE, f"less than {LEAST:.0%} apart"
    else:
        verdict, how = (Verdict.MORE if ratio > 1 else Verdict.LESS), "the interval is beyond 1"
    return Difference(ratio=ratio, of_rounds=ratio, low=low, high=high, verdict=verdict, how=how)


def _half_width(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how far the logarithm of a ratio of means may be off, to either side.

    Welch's degrees of freedom are an estimate; of few rounds on one side and more on the other it is too high at times,
    so that there it is the least that they can be.
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
    """Return Student's t, between the whole degrees of freedom by their inverses, in which it is nearly straight."""
    inverses = [0.0, *(1 / degrees for degrees in range(len(_T), 0, -1))]
    values = [_T_LIMIT, *reversed(_T)]
    wanted = min(1 / freedom, 1.0)
    upper = max(1, bisect.bisect_left(inverses, wanted))
    share = (wanted - inverses[upper - 1]) / (inverses[upper] - inverses[upper - 1])
    return values[upper - 1] + share * (values[upper] - values[upper - 1])
