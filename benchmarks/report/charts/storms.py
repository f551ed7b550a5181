"""Storms of several sizes beside each other: how long the topics of a killed hub were away, against how many it had."""

import statistics
from collections.abc import Sequence

from hedwig.benchmarks.report.charts.curves import Axis, Curve, Point, Wall, curves_chart
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.compare.figures import good
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.walls import wall_kind, wall_of
from hedwig.benchmarks.runs.words import driver_title, short_count

__all__ = ["storms_chart"]


def storms_chart(measurements: Sequence[Measurement]) -> Chart | None:
    """Return seconds until all lost topics were served again, for each store; None of storms of one size alone."""
    if len({each.workload.topics for each in measurements}) < 2:
        return None
    palette = Palette()
    curves, told = [], []
    for store in dict.fromkeys(each.on for each in measurements):
        points, walls = [], []
        for group in alike([each for each in measurements if each.on == store]):
            topics = group[0].workload.topics
            if measured := good(group):
                values = [each.values["all_served_s"] for each in measured]
                points.append(Point(topics, statistics.median(values), min(values), max(values)))
            if (why := wall_of(group)) is not None:
                walls.append(Wall(topics, wall_kind(why)))
        points.sort(key=lambda point: point.x)
        curves.append(Curve(label=driver_title(store), ink=palette.ink(store), points=points, walls=walls))
        times = ", ".join(f"{point.y:.1f} s of {point.x:,.0f} topics" for point in points)
        told += [f"{driver_title(store)}: {times}."] if points else []
        told += [f"{driver_title(store)} met a wall at {wall.x:,.0f} topics: {wall.kind}." for wall in walls]
    known = next((each.values for each in good(measurements)), {})
    subtitle = ""
    if known:
        subtitle = f"one of {known['hubs']:.0f} hubs, which own all topics between them; "
        subtitle += f"session timeout {known['session_timeout_s']:g} s"
    return curves_chart(
        name="takeover-sizes",
        title="A hub is killed: seconds until all its topics are served again",
        subtitle=subtitle,
        says=" ".join(told),
        curves=curves,
        x=Axis(label="topics of all hubs", form=short_count),
        y=Axis(label="seconds", ending=" s", form=lambda value: f"{value:.3g}"),
    )
