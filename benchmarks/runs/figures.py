"""The compared figures of a measurement: the rate, or times if the rate was offered and kept up, or memory."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hedwig.benchmarks.runs.compare_rounds import Difference, Relation, differ, differ_in_rounds, over_all
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.rounds import good, is_enough, merged

__all__ = [
    "FAILED_MAX",
    "PERCENTILES",
    "RATE",
    "SECONDS_MIN",
    "SIZES",
    "Figure",
    "OwnFigures",
    "compared",
    "difference_of",
    "figures",
    "is_too_short",
    "less",
    "no_figures",
    "percentile_figures",
]

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)
SECONDS_MIN: Final = 1.0
"""A shorter round of a closed loop decides nothing: one pause of a garbage collector could fill it."""
FAILED_MAX: Final = 0.01
"""Sides with a larger share of failed operations are not compared: operations that fail may be quick."""
_JUDGED_BY: Final = (99.0, 90.0, 50.0)
"""Percentiles in the order of preference; queues show most in the first. One with too few operations is skipped."""
RATE: Final = "operations/s"
_GROWTH: Final = "bytes_per_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of all rounds together, and its value in each round.

    form: the format of its values. words: the word for a second side that has more of it, and for one that has less.
    is_more_worse: whether a higher value is a change for the worse.
    is_percentile: its value is that of merged histograms; to join several runs takes their histograms.
    """

    name: str
    value: float
    rounds: tuple[float, ...]
    form: str
    words: tuple[str, str]
    is_more_worse: bool
    is_percentile: bool = False

    def text(self) -> str:
        """Return the figure, and the range of its rounds."""
        middle = self.form.format(self.value)
        if len(self.rounds) < 2:
            return middle
        low, high = (self.form.format(value) for value in (min(self.rounds), max(self.rounds)))
        return f"{middle} ({low} – {high})"


OwnFigures: TypeAlias = Callable[[Sequence[Measurement]], list[Figure]]
"""Returns the figures of good rounds to compare instead of rates and times; none if these are compared."""


def no_figures(_: Sequence[Measurement]) -> list[Figure]:
    """Return no figures: rates and times are compared."""
    return []


def is_too_short(judged_by: Figure, rounds: Sequence[Measurement]) -> bool:
    """Say whether a round of a closed loop was too short for its rate and times to say anything about a side."""
    return (judged_by.name == RATE or judged_by.is_percentile) and any(
        not each.workload.is_open_loop and each.seconds < SECONDS_MIN for each in rounds
    )


def figures(rounds: Sequence[Measurement], *, own: OwnFigures, are_times_first: bool) -> list[Figure]:
    """Return the figures of the good rounds; the first one decides the comparison of two sides.

    own: returns a suite's own figures of them, which replace the usual ones if there are any.
    are_times_first: both sides kept up with an offered rate, so the rate says nothing.
    """
    measured = good(rounds)
    if not measured:
        return []
    return _growth(measured) or own(measured) or _usual(measured, are_times_first=are_times_first)


def _usual(measured: Sequence[Measurement], *, are_times_first: bool) -> list[Figure]:
    rates = tuple(each.rate_per_s for each in measured)
    rate = Figure(
        name=RATE,
        value=statistics.median(rates),
        rounds=rates,
        form="{:,.0f}" if min(rates) >= 10 else "{:,.1f}",
        words=("faster", "slower"),
        is_more_worse=False,
    )
    times = [*percentile_figures(measured, "response"), *percentile_figures(measured, "delivery")]
    if not are_times_first or not times:
        return [rate, *times]
    names = [f"response p{percentile:g}, ms" for percentile in _JUDGED_BY]
    first = [each for name in names for each in times if each.name == name]
    return [*first, *(each for each in times if each.name not in names), rate]


def difference_of(first: Figure, second: Figure, *, are_side_by_side: bool) -> Difference:
    """Return how a figure of the second side relates to the same figure of the first.

    For a percentile it has the ratio of the two values, which are those of merged histograms. A reader who divides
    them gets the same. are_side_by_side: the rounds alternated on one machine, so they are compared in pairs.
    """
    in_rounds = differ_in_rounds(first.rounds, second.rounds) if are_side_by_side else None
    difference = in_rounds or differ(first.rounds, second.rounds)
    return over_all(difference, second.value / first.value) if first.is_percentile and first.value else difference


def compared(first: Figure, second: Figure) -> tuple[Difference, str]:
    """Return the difference of a figure of two sides measured apart, and a word for the second side."""
    difference = difference_of(first, second, are_side_by_side=False)
    words = {Relation.MORE: first.words[0], Relation.LESS: first.words[1]}
    return difference, words.get(difference.verdict, difference.verdict.value)


_TIMES: Final = ("slower", "faster")
SIZES: Final = ("larger", "smaller")


def less(
    name: str,
    measured: Sequence[Measurement],
    value: Callable[[Measurement], float],
    form: str,
    words: tuple[str, str] = _TIMES,
) -> Figure:
    """Return a figure whose lower values are better."""
    rounds = tuple(value(each) for each in measured)
    return Figure(name=name, value=statistics.median(rounds), rounds=rounds, form=form, words=words, is_more_worse=True)


def _growth(measured: Sequence[Measurement]) -> list[Figure]:
    names = [name for name in measured[0].values if name.startswith(_GROWTH)]
    if not names or not all(names[0] in each.values for each in measured):
        return []
    unit = names[0].removeprefix(_GROWTH)
    return [less(f"bytes for each {unit}", measured, lambda each: each.values[names[0]], "{:,.0f}", SIZES)]


def percentile_figures(
    measured: Sequence[Measurement], name: str, *, what: str | None = None, form: str = "{:,.2f}"
) -> list[Figure]:
    """Return percentiles of the merged histograms, without those for which a round has too few times."""
    if not all(name in each.histograms for each in measured):
        return []
    fewest = min(each.histograms[name].count for each in measured)
    asked = [percentile for percentile in PERCENTILES if is_enough(fewest, percentile)]
    total = merged(measured, name).percentiles_us(asked)
    # Ask for all percentiles of a histogram in one call: each call walks through its buckets.
    by_round = [each.histograms[name].percentiles_us(asked) for each in measured]
    return [
        Figure(
            name=f"{what or name} p{percentile:g}, ms",
            value=total[percentile] / 1000,
            rounds=tuple(times_us[percentile] / 1000 for times_us in by_round),
            form=form,
            words=_TIMES,
            is_more_worse=True,
            is_percentile=True,
        )
        for percentile in asked
    ]
