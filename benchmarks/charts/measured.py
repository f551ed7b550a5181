"""Charts of measurements: medians of rounds, percentiles of all their times, and where sides met walls."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hedwig.benchmarks.charts.charts import Axis, Bar, Curve, Point, Wall, bars_chart, curves_chart
from hedwig.benchmarks.charts.drawing import Palette
from hedwig.benchmarks.charts.sections import Chart, Section, TextTable
from hedwig.benchmarks.runs.figures import OwnFigures, figures
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.rounds import good, is_enough, is_reached, merged
from hedwig.benchmarks.runs.walls import wall_kind, wall_of
from hedwig.benchmarks.runs.words import case_words, count, ms, short_count, side_words
from hedwig.histograms import PERCENTILES, Histogram

__all__ = ["Sweep", "case_sections", "curves_of", "percentile_chart", "percentile_table", "sweep_charts"]

_STEPS: Final = 12
"""Points of a percentile curve for each factor of ten: 12 from p90 to p99, and 12 from p99 to p99.9."""
_DEEPEST: Final = 4.0
_BEYOND: Final = 10
_TICKS: Final = ((0.0, "0"), (-math.log10(0.5), "p50"), (1.0, "p90"), (2.0, "p99"), (3.0, "p99.9"), (4.0, "p99.99"))

Side = Callable[[Measurement], str]


def curves_of(
    measurements: Sequence[Measurement],
    x: Callable[[Measurement], float],
    y: Callable[[Measurement], float],
    *,
    side: Side = lambda each: each.driver,
) -> list[Curve]:
    """Return a curve for each side: medians of the rounds, and the walls that its cases met.

    A point is hollow if a round did not reach its offered rate.
    """
    curves = []
    for name in dict.fromkeys(map(side, measurements)):
        points, walls = [], []
        for group in alike([each for each in measurements if side(each) == name]):
            at = x(group[0])
            if measured := good(group):
                values = [y(each) for each in measured]
                hollow = not is_reached(measured)
                points.append(Point(at, statistics.median(values), min(values), max(values), hollow))
            why = next((each.wall for each in group if each.wall is not None), None) or wall_of(group)
            if why is not None:
                walls.append(Wall(at, wall_kind(why)))
        points.sort(key=lambda point: point.x)
        curves.append(Curve(side=name, points=points, walls=walls))
    return curves


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A row of a table of charts: `y` of each side against `x`, for the measurements that `of` selects."""

    name: str
    title: str
    x: Callable[[Measurement], float]
    x_label: str
    y: Callable[[Measurement], float]
    y_label: str
    of: Callable[[Measurement], bool] = lambda _: True
    form: Callable[[float], str] = count
    is_log: bool = True


def sweep_charts(
    sweeps: Sequence[Sweep],
    measurements: Sequence[Measurement],
    palette: Palette,
    subtitle: str,
    *,
    side: Side,
    completed: Callable[[list[Curve]], list[Curve]] = list,
) -> list[Chart]:
    """Return the charts of the rows that have measurements. `completed` adds to curves what no measurement has."""
    charts = [
        curves_chart(
            each.name,
            each.title,
            subtitle,
            completed(curves_of([one for one in measurements if each.of(one)], each.x, each.y, side=side)),
            palette,
            Axis(label=each.x_label, form=short_count),
            Axis(label=each.y_label, is_log=each.is_log, form=each.form),
        )
        for each in sweeps
    ]
    return [chart for chart in charts if chart is not None]


def percentile_chart(
    name: str, title: str, subtitle: str, groups: Sequence[Sequence[Measurement]], palette: Palette, *, side: Side
) -> Chart | None:
    """Draw response times, each side's rounds together; at an offered rate, also service times, dotted.

    Sides that did not reach the offered rate are left out, and named in the subtitle. Their times are those of a
    growing queue.
    """
    curves: list[Curve] = []
    behind = []
    for group in groups:
        measured = good(group)
        response = merged(measured, "response")
        if not response.count:
            continue
        who = side(group[0])
        if not is_reached(measured):
            behind.append(who)
            continue
        curves.append(Curve(side=who, points=_points(response), has_marks=False))
        if group[0].workload.is_open_loop:
            service = _points(merged(measured, "service"))
            curves.append(Curve(side=who, points=service, is_dotted=True, has_marks=False))
    if behind:
        subtitle += f"; offered load not reached: {', '.join(behind)}"
    deepest = max((point.x for curve in curves for point in curve.points), default=0.0)
    ticks = [(at, text) for at, text in _TICKS if at <= deepest + 1e-9]
    x = Axis(label="percentile", is_log=False, ticks=ticks)
    y = Axis(label="ms; dotted: from when it began", form=lambda value: ms(value * 1000))
    return curves_chart(name, title, subtitle, curves, palette, x, y)


def _points(histogram: Histogram) -> list[Point]:
    """Return the curve of a histogram, up to the last percentile that ten of its times lie beyond."""
    if not histogram.count:
        return []
    deepest = min(_DEEPEST, max(0.0, math.log10(histogram.count / _BEYOND)))
    depths = [step / _STEPS for step in range(int(deepest * _STEPS) + 1)]
    by_depth = {depth: 100 * (1 - 10**-depth) for depth in depths}
    times_us = histogram.percentiles_us(by_depth.values())
    values = {depth: times_us[percentile] / 1000 for depth, percentile in by_depth.items()}
    return [Point(depth, value, value, value) for depth, value in values.items()]


def percentile_table(title: str, measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return a table of the percentiles of all cases that have times, or an empty list if no case has any."""
    lines = []
    for group in alike(measurements):
        response = merged(good(group), "response")
        if not response.count:
            continue
        shown = response.percentiles_us(PERCENTILES)
        notes = dict.fromkeys(note for each in group for note in each.notes())
        enough = [ms(shown[each]) if is_enough(response.count, each) else "–" for each in PERCENTILES]
        start = [case_words(group[0].workload), side_words(group[0]), f"{response.count:,}"]
        lines.append([*start, *enough, ms(response.max_us), "; ".join(notes)])
    percentiles = (f"p{percentile:g}, ms" for percentile in PERCENTILES)
    columns = ("measured", "on", "operations", *percentiles, "max, ms", "notes")
    return [TextTable(title, columns, lines)] if lines else []


def case_sections(
    what: str, measurements: Sequence[Measurement], own: OwnFigures, *, ink_of: Side = side_words
) -> list[Section]:
    """Return two sections: bars with the figures of each closed loop, and the latency of all cases.

    Args: what - the suite's name in titles and file names; own - the suite's own figures; ink_of - returns the name
        that decides a side's colour.
    """
    palette = Palette()
    groups = alike(measurements)
    closed = [group for group in groups if not group[0].workload.is_open_loop]
    charts: list[Chart | None] = []
    for name in dict.fromkeys(group[0].workload.name for group in closed):
        rounds_of = [group for group in closed if group[0].workload.name == name]
        by_name = [{each.name: each for each in figures(group, own=own, are_times_first=False)} for group in rounds_of]
        usual = [each for each in next(filter(None, by_name), {}) if not each.endswith(", ms")]
        for position, figure in enumerate(usual or ["walls"], 1):
            bars = []
            for group, of_group in zip(rounds_of, by_name, strict=True):
                case, side = case_words(group[0].workload), side_words(group[0])
                bar = Bar(group=case, label=side, side=ink_of(group[0]), value=None)
                if figure in of_group:
                    values = of_group[figure].rounds
                    middle, low, high = statistics.median(values), min(values), max(values)
                    bars.append(replace(bar, value=middle, low=low, high=high))
                else:
                    bars.append(replace(bar, note=wall_kind(wall_of(group) or "no figure of this kind")))
            slug = name.replace(" ", "-").replace("/", "-")
            title, said = f"{name}: {figure}", "medians of the rounds; thin lines: lowest to highest"
            charts.append(bars_chart(f"{what}-{slug}-{position}", title, said, bars, palette, count))
    offered = [group for group in groups if group[0].workload.is_open_loop]
    latencies = [
        percentile_chart(
            f"{what}-latency-{number}",
            f"{words.split(', ')[0]}: response times",
            words,
            [group for group in offered if case_words(group[0].workload) == words],
            palette,
            side=side_words,
        )
        for number, words in enumerate(dict.fromkeys(case_words(group[0].workload) for group in offered), 1)
    ]
    return [
        Section(title=f"{what}: as much as possible", charts=[chart for chart in charts if chart is not None]),
        Section(
            title=f"{what}: latency",
            charts=[chart for chart in latencies if chart is not None],
            tables=percentile_table("", measurements),
        ),
    ]
