"""What is compared of a measurement: the rate where that is what was looked for, else times, or memory."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hedwig.benchmarks.runs.compare_rounds import Difference, Verdict, differ, differ_in_rounds, over_all
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
"""A closed loop whose round was shorter than that decides nothing: one pause of a collector would be in all of it."""
FAILED_MAX: Final = 0.01
"""Sides of which a larger share of the operations failed are not compared: what fails may be quick."""
_JUDGED_BY: Final = (99.0, 90.0, 50.0)
"""Of the percentiles that there are enough operations for, the one that queues show in most, first."""
RATE: Final = "operations/s"
_GROWTH: Final = "bytes_per_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of all rounds together, and what it was in each.

    form: how it is written. words: what a second side is called that has more of it, and one that has less.
    is_more_worse: so that a change for the worse can be told from one for the better.
    is_percentile: its value is that of merged histograms, of which it takes more to make one of several runs together.
    """

    name: str
    value: float
    rounds: tuple[float, ...]
    form: str
    words: tuple[str, str]
    is_more_worse: bool
    is_percentile: bool = False

    def text(self) -> str:
        """Return the figure, and between what its rounds lie."""
        middle = self.form.format(self.value)
        if len(self.rounds) < 2:
            return middle
        low, high = (self.form.format(value) for value in (min(self.rounds), max(self.rounds)))
        return f"{middle} ({low} – {high})"


OwnFigures: TypeAlias = Callable[[Sequence[Measurement]], list[Figure]]
"""Gives what of some good rounds is compared instead of rates and times; nothing where these are."""


def no_figures(_: Sequence[Measurement]) -> list[Figure]:
    """Return nothing: rates and times are compared."""
    return []


def is_too_short(judged_by: Figure, rounds: Sequence[Measurement]) -> bool:
    """Say whether a round of a closed loop was over so soon that its rate and times tell nothing of a side."""
    return (judged_by.name == RATE or judged_by.is_percentile) and any(
        not each.workload.is_open_loop and each.seconds < SECONDS_MIN for each in rounds
    )


def figures(rounds: Sequence[Measurement], *, own: OwnFigures, are_times_first: bool) -> list[Figure]:
    """Return the figures of the good ones of some rounds, that first by which two sides are compared.

    own: a suite's own figures of them, which take the place of the usual ones if there are any.
    are_times_first: the rate was offered, and kept up by both sides, so that it says nothing.
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
    """Return how a figure of the second side relates to the same of the first.

    Of a percentile it is the ratio of the two values, which are those of merged histograms: what a reader gets who
    divides them. are_side_by_side: the rounds alternated on one machine, each of the first with the one beside it.
    """
    in_rounds = differ_in_rounds(first.rounds, second.rounds) if are_side_by_side else None
    found = in_rounds or differ(first.rounds, second.rounds)
    return over_all(found, second.value / first.value) if first.is_percentile and first.value else found


def compared(first: Figure, second: Figure) -> tuple[Difference, str]:
    """Return the difference of a figure of two sides, measured apart, and what the second side is, in a word."""
    found = difference_of(first, second, are_side_by_side=False)
    words = {Verdict.MORE: first.words[0], Verdict.LESS: first.words[1]}
    return found, words.get(found.verdict, found.verdict.value)


_TIMES: Final = ("slower", "faster")
SIZES: Final = ("larger", "smaller")


def less(
    name: str,
    measured: Sequence[Measurement],
    value: Callable[[Measurement], float],
    form: str,
    words: tuple[str, str] = _TIMES,
) -> Figure:
    """Return a figure of which less is better."""
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
    """Return percentiles of the merged histograms; none for which single rounds have too few times."""
    if not all(name in each.histograms for each in measured):
        return []
    fewest = min(each.histograms[name].count for each in measured)
    asked = [percentile for percentile in PERCENTILES if is_enough(fewest, percentile)]
    total = merged(measured, name).percentiles_us(asked)
    # One question for all percentiles of a histogram: each walks through its buckets.
    by_round = [each.histograms[name].percentiles_us(asked) for each in measured]
    return [
        Figure(
            name=f"{what or name} p{percentile:g}, ms",
            value=total[percentile] / 1000,
            rounds=tuple(found[percentile] / 1000 for found in by_round),
            form=form,
            words=_TIMES,
            is_more_worse=True,
            is_percentile=True,
        )
        for percentile in asked
    ]
