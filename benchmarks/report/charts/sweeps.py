"""Charts of what grows with the load: rates against callers in flight, and the price of writers that share a key."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from hedwig.benchmarks.report.charts.curves import Axis, Curve, Point, Wall, curves_chart
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.compare.figures import good
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.walls import wall_kind, wall_of
from hedwig.benchmarks.runs.words import count, driver_title, short_count

__all__ = ["contention_charts", "depth_chart"]

_WRITERS: Final = "writers of one key"


def depth_chart(measurements: Sequence[Measurement], palette: Palette, *, name: str, subtitle: str) -> Chart | None:
    """Return the rate of each driver against operations in flight."""
    return _sweep(
        measurements,
        palette,
        lambda each: each.workload.in_flight,
        lambda each: each.rate_per_s,
        name=name,
        title=f"{measurements[0].workload.name}: operations a second",
        subtitle=subtitle,
        x=Axis(label="operations in flight", form=short_count),
        y=Axis(label="operations/s", ending="/s", form=_short),
    )


def contention_charts(
    measurements: Sequence[Measurement],
    palette: Palette,
    writers: Callable[[Measurement], int],
    *,
    name: str,
    subtitle: str,
) -> list[Chart]:
    """Return, against writers of one key, the rate of what was done, and how often it had to be tried again."""
    what = measurements[0].workload.name
    x = Axis(label=_WRITERS, form=short_count)
    charts = [
        _sweep(
            measurements,
            palette,
            writers,
            lambda each: each.rate_per_s,
            name=f"{name}-rate",
            title=f"{what}: operations a second",
            subtitle=subtitle,
            x=x,
            y=Axis(label="operations/s", ending="/s", form=_short),
        ),
        _sweep(
            measurements,
            palette,
            writers,
            lambda each: each.values.get("refusals", 0.0) / each.count,
            name=f"{name}-retries",
            title=f"{what}: retries for each one done",
            subtitle=subtitle,
            x=x,
            y=Axis(label="retries", is_log=False, form=lambda value: f"{value:.3g}"),
        ),
    ]
    return [chart for chart in charts if chart is not None]


def _sweep(
    measurements: Sequence[Measurement],
    palette: Palette,
    at: Callable[[Measurement], int],
    value: Callable[[Measurement], float],
    *,
    name: str,
    title: str,
    subtitle: str,
    x: Axis,
    y: Axis,
) -> Chart | None:
    curves, told = [], []
    for driver in dict.fromkeys(each.driver for each in measurements):
        points, walls = [], []
        groups = alike([each for each in measurements if each.driver == driver])
        for group in sorted(groups, key=lambda group: at(group[0])):
            values = [value(each) for each in good(group)]
            if values:
                points.append(Point(at(group[0]), statistics.median(values), min(values), max(values)))
            elif (why := wall_of(group)) is not None:
                walls.append(Wall(at(group[0]), wall_kind(why)))
        title_of = driver_title(driver)
        curves.append(Curve(label=title_of, ink=palette.ink(driver), points=points, walls=walls))
        if points:
            told.append(f"{title_of} {y.form(points[0].y)} to {y.form(points[-1].y)}")
    says = f"{y.label} from the left end to the right end: {', '.join(told)}."
    return curves_chart(name=name, title=title, subtitle=subtitle, says=says, curves=curves, x=x, y=y)


def _short(value: float) -> str:
    return short_count(value) if value >= 10_000 else count(value)
