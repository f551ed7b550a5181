"""Charts against the number of topics: rates, disk and restarts of each backend, and where it met a wall."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.benchmarks.load.workloads import FILL, RESTART, Choice
from hedwig.benchmarks.report.charts.curves import Axis, Curve, Point, Wall, curves_chart
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.compare.figures import good, is_reached
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.walls import wall_kind, wall_of, wall_words
from hedwig.benchmarks.runs.words import count, driver_title, load_words, mib, short_count

__all__ = [
    "TOPICS",
    "Rates",
    "Stage",
    "disk_chart",
    "lost_words",
    "rate_charts",
    "rates_of",
    "restart_chart",
    "says_at_the_end",
    "stages_of",
]

_MIB: Final = 1 << 20
TOPICS: Final = Axis(label="topics", form=short_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One ladder of a run: all that was measured with one durability and one number of subscriptions of each topic."""

    durability: str
    subscribers: int
    measurements: tuple[Measurement, ...]

    @property
    def name(self) -> str:
        return f"{self.durability}-{self.subscribers}"

    @property
    def words(self) -> str:
        plural = "s" if self.subscribers != 1 else ""
        return f"{self.durability}, {self.subscribers:,} subscription{plural} a topic"

    def backends(self) -> list[str]:
        """Return the backends, in the order in which they stand in the result."""
        return list(dict.fromkeys(each.driver for each in self.measurements))

    def lost(self, backend: str) -> Measurement | None:
        """Return how filling ended for a backend, if it met a wall there and so has no cases from then on."""
        found = (each for each in self.measurements if each.driver == backend and each.workload.name == FILL)
        return next((each for each in found if each.wall is not None), None)


def stages_of(measurements: Sequence[Measurement]) -> list[Stage]:
    """Return the stages of a result, in their order."""
    keys = dict.fromkeys((each.on, each.workload.subscribers) for each in measurements)
    return [
        Stage(
            durability=on,
            subscribers=subscribers,
            measurements=tuple(
                each for each in measurements if (each.on, each.workload.subscribers) == (on, subscribers)
            ),
        )
        for on, subscribers in keys
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The rates of one workload under one load: a curve for each backend. `says` tells nothing of walls."""

    name: str
    load: str
    says: str
    curves: Sequence[Curve]

    @property
    def what(self) -> str:
        return "records" if self.name == FILL else "operations"

    @property
    def load_words(self) -> str:
        """Return the load in words; none where there is but one way to do it."""
        return "" if self.name == FILL else self.load

    @property
    def words(self) -> str:
        return f"{self.name}, {self.load_words}" if self.load_words else self.name


def rates_of(stage: Stage, palette: Palette) -> list[Rates]:
    """Return the rates of each workload and load at which as much as possible was done."""
    chosen = [
        each
        for each in stage.measurements
        if not each.workload.is_open_loop
        and each.workload.choice is not Choice.ZIPF
        and not each.workload.keys
        and each.workload.name != RESTART
    ]
    found = []
    for name, load in dict.fromkeys((each.workload.name, _load(each)) for each in chosen):
        own = [each for each in chosen if (each.workload.name, _load(each)) == (name, load)]
        what = "records" if name == FILL else "operations"
        curves = _curves(stage, own, palette, lambda each: each.rate_per_s, is_fill=name == FILL)
        if curves:
            says = says_at_the_end(stage, own, f"{what} a second", count, lambda each: each.rate_per_s)
            found.append(Rates(name=name, load=load, says=says, curves=curves))
    return found


def rate_charts(stage: Stage, palette: Palette) -> list[Chart]:
    """Return a chart for each workload and load at which as much as possible was done."""
    charts = [
        curves_chart(
            name=f"rate-{stage.name}-{_slug(rates.name, rates.load)}",
            title=f"{rates.name}: {rates.what} a second",
            subtitle=f"{stage.words}; {rates.load}" if rates.name != FILL else stage.words,
            says=_joined(rates.says, *lost_words(stage)),
            curves=rates.curves,
            x=TOPICS,
            y=Axis(label=f"{rates.what}/s", ending="/s", form=_rate),
        )
        for rates in rates_of(stage, palette)
    ]
    return [chart for chart in charts if chart is not None]


def disk_chart(stage: Stage, palette: Palette) -> Chart | None:
    """Return what a store took on the disk once it was filled, logs included."""
    own = [each for each in stage.measurements if "disk_bytes" in each.values]
    return curves_chart(
        name=f"disk-{stage.name}",
        title="Disk of the store",
        subtitle=f"{stage.words}; when it was filled, logs included",
        says=_says(stage, own, "disk", mib, _disk),
        curves=_curves(stage, own, palette, _disk, is_fill=True),
        x=TOPICS,
        y=Axis(label="MiB on disk", ending=" MiB"),
    )


def restart_chart(stage: Stage, palette: Palette) -> Chart | None:
    """Return how long topics were away after the server with the records was killed."""
    own = [each for each in stage.measurements if each.workload.name == RESTART]
    return curves_chart(
        name=f"restart-{stage.name}",
        title="Restart: until topics can be read again",
        subtitle=f"{stage.words}; seconds from the kill to the last of 200 topics",
        says=_says(stage, own, "seconds from the kill", _seconds, lambda each: each.values["all_read_s"]),
        curves=_curves(stage, own, palette, lambda each: each.values["all_read_s"]),
        x=TOPICS,
        y=Axis(label="seconds", form=_seconds),
    )


def _curves(
    stage: Stage,
    own: Sequence[Measurement],
    palette: Palette,
    value: Callable[[Measurement], float],
    *,
    is_fill: bool = False,
) -> list[Curve]:
    """Return a curve for each backend that has points, or has lost them to a wall."""
    curves = []
    ladder = sorted({each.workload.topics for each in own})
    for backend in stage.backends():
        groups = alike([each for each in own if each.driver == backend])
        points, walls = [], []
        for group in sorted(groups, key=lambda group: group[0].workload.topics):
            measured = good(group)
            topics = group[0].workload.topics
            if measured:
                values = [value(each) for each in measured]
                hollow = not is_reached(measured)
                points.append(Point(topics, statistics.median(values), min(values), max(values), hollow))
            why = next((each.wall for each in group if each.wall is not None), None) or wall_of(group)
            if why is not None:
                walls.append(Wall(topics, wall_kind(why)))
        lost = stage.lost(backend)
        if lost is not None and lost.wall is not None and (groups or not is_fill):
            at = lost.workload.topics
            if ladder and at not in [wall.x for wall in walls]:
                walls.append(Wall(at, wall_kind(lost.wall)))
        if points or walls:
            curves.append(Curve(label=driver_title(backend), ink=palette.ink(backend), points=points, walls=walls))
    return curves


def _says(
    stage: Stage,
    own: Sequence[Measurement],
    what: str,
    form: Callable[[float], str],
    value: Callable[[Measurement], float],
) -> str:
    """Return the ends of the curves in words, and what became of those that ended earlier."""
    return _joined(says_at_the_end(stage, own, what, form, value), *lost_words(stage)) if own else ""


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def says_at_the_end(
    stage: Stage,
    own: Sequence[Measurement],
    what: str,
    form: Callable[[float], str],
    value: Callable[[Measurement], float],
) -> str:
    """Return what each backend came to at the most topics; nothing if none came there."""
    last = max((each.workload.topics for each in own), default=0)
    told = []
    for backend in stage.backends():
        measured = good([each for each in own if each.driver == backend and each.workload.topics == last])
        if measured:
            told.append(f"{driver_title(backend)} {form(statistics.median([value(each) for each in measured]))}")
    return f"At {last:,} topics, {what}: {', '.join(told)}." if told else ""


def lost_words(stage: Stage) -> list[str]:
    """Return a sentence for each backend that could not be filled any further."""
    return [
        f"{driver_title(backend)} met a wall at {lost.workload.topics:,} topics: {wall_words(lost)}."
        for backend in stage.backends()
        if (lost := stage.lost(backend)) is not None
    ]


def _disk(measurement: Measurement) -> float:
    return measurement.values["disk_bytes"] / _MIB


def _load(measurement: Measurement) -> str:
    return load_words(measurement.workload)


def _slug(name: str, load: str) -> str:
    return name if name == FILL else f"{name}-{load}".replace(", ", "-").replace(" ", "-").replace(",", "")


def _rate(value: float) -> str:
    return short_count(value) if value >= 10_000 else count(value)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 10 else f"{value:,.0f} s"
