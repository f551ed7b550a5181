"""Charts and tables of times: percentiles of merged histograms, from when an operation should have begun."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from hedwig.benchmarks.report.charts.curves import Axis, Curve, Point, curves_chart
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.compare.figures import good, is_reached
from hedwig.benchmarks.report.page import Chart, Table
from hedwig.benchmarks.runs.figures import is_enough, merged
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.words import case_words, driver_title, ms, side_words
from hedwig.histograms import PERCENTILES, Histogram

__all__ = ["open_loops", "percentile_chart", "percentile_name", "percentile_table"]

_STEPS: Final = 12
"""Points of a curve for each factor of ten by which less is left beyond it."""
_DEEPEST: Final = 4.0
_BEYOND: Final = 10
_SAID: Final = (50.0, 90.0, 99.0, 99.9)
"""Of the percentiles of the table, those that are said of a picture."""
_TICKS: Final = ((0.0, "0"), (-math.log10(0.5), "p50"), (1.0, "p90"), (2.0, "p99"), (3.0, "p99.9"), (4.0, "p99.99"))


def percentile_chart(
    groups: Sequence[Sequence[Measurement]],
    palette: Palette,
    *,
    name: str,
    title: str,
    subtitle: str,
    label: Callable[[Measurement], str] = lambda each: driver_title(each.driver),
    side: Callable[[Measurement], str] = lambda each: each.driver,
) -> Chart | None:
    """Draw the response times of some sides, each all its rounds together; at an offered rate, service times dotted.

    Sides that did not keep an offered rate up are left out, and named: their times are those of a queue that grows.
    """
    curves: list[Curve] = []
    told, behind = [], []
    for group in groups:
        measured = good(group)
        response = merged(measured, "response") if measured else Histogram()
        if not response.count:
            continue
        who = label(group[0])
        if not is_reached(measured):
            behind.append(who)
            continue
        ink = palette.ink(side(group[0]))
        curves.append(Curve(label=who, ink=ink, points=_points(response), has_marks=False))
        if group[0].workload.is_open_loop:
            service = merged(measured, "service")
            curves.append(Curve(label="", ink=ink, points=_points(service), is_dotted=True, has_marks=False))
        told.append(f"{who} {_shown(response)}")
    says = f"Milliseconds at p50, p90, p99 and p99.9: {'; '.join(told)}." if told else ""
    if behind:
        says += f" Not drawn, because the offered load was not reached: {', '.join(behind)}."
        subtitle += f"; offered load not reached: {', '.join(behind)}"
    if curves:
        deepest = min(curve.points[-1].x for curve in curves)
        subtitle += f"; numbers: {percentile_name(deepest)}, at the ends" if deepest else ""
    return curves_chart(
        name=name,
        title=title,
        subtitle=subtitle,
        says=says.strip(),
        curves=curves,
        x=Axis(label="percentile", is_log=False, ticks=_ticks(curves)),
        y=Axis(label="ms", ending=" ms", form=lambda value: ms(value * 1000)),
    )


def percentile_table(title: str, groups: Sequence[Sequence[Measurement]]) -> Table | None:
    """Return the percentiles of all groups of rounds that have some; None if none has."""
    lines = []
    for group in groups:
        measured = good(group)
        response = merged(measured, "response") if measured else Histogram()
        if not response.count:
            continue
        notes: dict[str, None] = {}
        for each in group:
            notes |= dict.fromkeys(each.notes())
        shown = response.percentiles_us(PERCENTILES)
        lines.append(
            [
                case_words(group[0].workload),
                side_words(group[0]),
                f"{response.count:,}",
                *(
                    ms(shown[percentile]) if is_enough(response.count, percentile) else "–"
                    for percentile in PERCENTILES
                ),
                ms(response.max_us),
                "; ".join(notes),
            ]
        )
    if not lines:
        return None
    percentiles = (f"p{percentile:g}, ms" for percentile in PERCENTILES)
    columns = ("measured", "on", "operations", *percentiles, "max, ms", "notes")
    return _without_empty(title, columns, lines)


def open_loops(measurements: Sequence[Measurement]) -> list[list[Measurement]]:
    """Return the groups of rounds in which a rate was offered."""
    return [group for group in alike(measurements) if group[0].workload.is_open_loop]


def _without_empty(title: str, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """Return a table without columns that nobody fills."""
    kept = [index for index in range(len(columns)) if any(line[index] for line in lines)]
    return Table(
        title=title,
        columns=[columns[index] for index in kept],
        lines=[[line[index] for index in kept] for line in lines],
    )


def _points(histogram: Histogram) -> list[Point]:
    """Return the curve of a histogram, as far as ten of its times lie beyond a percentile."""
    deepest = min(_DEEPEST, max(0.0, math.log10(histogram.count / _BEYOND)))
    depths = [step / _STEPS for step in range(int(deepest * _STEPS) + 1)]
    by_percentile = {depth: 100 * (1 - 10**-depth) for depth in depths}
    found = histogram.percentiles_us(by_percentile.values())
    values = {depth: found[percentile] / 1000 for depth, percentile in by_percentile.items()}
    return [Point(depth, value, value, value) for depth, value in values.items()]


def _ticks(curves: Sequence[Curve]) -> list[tuple[float, str]]:
    deepest = max((point.x for curve in curves for point in curve.points), default=0.0)
    return [(at, text) for at, text in _TICKS if at <= deepest + 1e-9]


def percentile_name(depth: float) -> str:
    """Return `p93` for how deep a curve goes, with a digit behind the point for each nine that it has behind it."""
    digits = max(0, int(depth + 1e-9) - 1)
    return f"p{math.floor((100 * (1 - 10**-depth) + 1e-9) * 10**digits) / 10**digits:g}"


def _shown(histogram: Histogram) -> str:
    found = histogram.percentiles_us(_SAID)
    return " / ".join(ms(found[percentile]) if is_enough(histogram.count, percentile) else "–" for percentile in _SAID)
