"""The charts of `hedwig-bench metadata`: each backend over growing numbers of topics, and one against another."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hedwig.benchmarks.charts.charts import (
    Axis,
    Curve,
    Factor,
    Line,
    Panel,
    Point,
    Wall,
    curves_chart,
    factors_chart,
    grid_chart,
    panels_chart,
)
from hedwig.benchmarks.charts.drawing import Palette
from hedwig.benchmarks.charts.measured import Sweep, curves_of, percentile_chart, percentile_table, sweep_charts
from hedwig.benchmarks.charts.sections import Chart, Section, TextTable
from hedwig.benchmarks.load.workloads import FILL, RESTART, Choice
from hedwig.benchmarks.runs.results import Measurement, Result, alike
from hedwig.benchmarks.runs.rounds import good
from hedwig.benchmarks.runs.walls import wall_kind, wall_words
from hedwig.benchmarks.runs.words import case_words, driver_title, load_words, short_count
from hedwig.benchmarks.stores.cases import MEMORY
from hedwig.benchmarks.suites.metadata.against import PREFERRED, Against, against, against_table
from hedwig.benchmarks.suites.metadata.flushes import flush_tables
from hedwig.histograms import Histogram

__all__ = ["metadata_sections"]

_MIB: Final = 1 << 20
_NOTHING: Final = 0.2
"""Where counts of 0 are drawn, since a logarithmic axis has no 0."""
_LIVE: Final = "store_live_heap_bytes"
_RESIDENT: Final = "store_rss_bytes_max"
_GROWTH: Final = (
    Sweep(
        name="disk",
        title="Disk of the store when it was filled, logs included",
        of=lambda each: "disk_bytes" in each.values,
        x=lambda each: each.workload.topics,
        x_label="topics",
        y=lambda each: each.values["disk_bytes"] / _MIB,
        y_label="MiB",
    ),
    Sweep(
        name="restart",
        title="Restart: from the kill until the last of 200 topics was read",
        of=lambda each: each.workload.name == RESTART,
        x=lambda each: each.workload.topics,
        x_label="topics",
        y=lambda each: each.values["all_read_s"],
        y_label="seconds",
    ),
)
_CONTENTION: Final = (
    Sweep(
        name="contention-rate",
        title="operations a second",
        x=lambda each: each.workload.in_flight // each.workload.keys,
        x_label="writers of one key",
        y=lambda each: each.rate_per_s,
        y_label="operations/s",
    ),
    Sweep(
        name="contention-retries",
        title="retries for each one done",
        x=lambda each: each.workload.in_flight // each.workload.keys,
        x_label="writers of one key",
        y=lambda each: each.values.get("refusals", 0.0) / each.count,
        y_label="retries",
        is_log=False,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """One ladder of a run: all measurements with one durability and one number of subscriptions a topic."""

    name: str
    words: str
    measurements: Sequence[Measurement]

    def backends(self) -> list[str]:
        return list(dict.fromkeys(each.driver for each in self.measurements))

    def lost(self, backend: str) -> Measurement | None:
        """Return the fill in which a backend met a wall, if it did. It has no cases after that."""
        own = (each for each in self.measurements if each.driver == backend and each.workload.name == FILL)
        return next((each for each in own if each.wall is not None), None)

    def with_losses(self, curves: Sequence[Curve]) -> list[Curve]:
        """Return the curves, and add the wall that ended a backend's ladder where a curve lacks it."""
        extended = []
        for curve in curves:
            lost = self.lost(curve.side)
            if lost is not None and lost.wall is not None:
                at = lost.workload.topics
                if at not in [wall.x for wall in curve.walls]:
                    curve = replace(curve, walls=[*curve.walls, Wall(at, wall_kind(lost.wall))])
            extended.append(curve)
        return extended


def metadata_sections(result: Result) -> list[Section]:
    """Return the report sections of a result."""
    palette = Palette()
    by_stage: dict[tuple[str, int], list[Measurement]] = {}
    for each in result.measurements:
        by_stage.setdefault((each.on, each.workload.subscribers), []).append(each)
    stages = [
        _Stage(
            name=f"{on}-{subscribers}",
            words=f"{on}, {subscribers:,} subscription{'s' if subscribers != 1 else ''} a topic",
            measurements=own,
        )
        for (on, subscribers), own in by_stage.items()
    ]
    sections = [Section(title="Walls", tables=_walls(result.measurements))]
    for number, stage in enumerate(stages):
        of_stage = _of_stage(stage, palette)
        sections += [replace(one, title=f"{one.title}: {stage.words}", is_folded=number > 0) for one in of_stage]
    return [*sections, Section(title="Whether the logs were forced", tables=flush_tables(result), is_folded=True)]


def _of_stage(stage: _Stage, palette: Palette) -> list[Section]:
    growth = [replace(each, name=f"{each.name}-{stage.name}") for each in _GROWTH]
    growth_charts = sweep_charts(
        growth, stage.measurements, palette, stage.words, side=_driver, completed=stage.with_losses
    )
    contended = [
        each
        for each in stage.measurements
        if each.workload.keys and not each.workload.is_open_loop and each.workload.choice is not Choice.ZIPF
    ]
    # Contention is measured at both ends of a ladder. The chart shows the upper end, the tables show both.
    most = max((each.workload.topics for each in contended), default=0)
    contended = [each for each in contended if each.workload.topics == most]
    contention = [replace(each, name=f"{each.name}-{stage.name}") for each in _CONTENTION]
    said = f"{stage.words}, {most:,} topics"
    charts, tables = _against(stage, palette)
    return [
        Section(title="Rates against topics", charts=_charts(_overview(stage, palette))),
        Section(title="One backend against the other", charts=charts, tables=tables),
        Section(title="Memory, disk and restarts", charts=[*_charts(_memory(stage, palette)), *growth_charts]),
        Section(
            title="Latency",
            charts=_latencies(stage, palette),
            tables=percentile_table("response times", stage.measurements),
        ),
        Section(title="Second by second", charts=_charts(_series(stage, palette))),
        Section(
            title="Writers of the same key", charts=sweep_charts(contention, contended, palette, said, side=_driver)
        ),
    ]


def _driver(measurement: Measurement) -> str:
    return measurement.driver


def _charts(*charts: Chart | None) -> list[Chart]:
    return [chart for chart in charts if chart is not None]


def _walls(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return a table of all walls in full, and of rounds in which all operations failed or none was finished."""
    lines = [
        [f"{each.on}: {case_words(each.workload)}", driver_title(each.driver), f"{each.round}", wall_kind(why), why]
        for each in measurements
        if (why := wall_words(each)) is not None
    ]
    return [TextTable("", ("at", "backend", "round", "kind", "how it failed"), lines)] if lines else []


def _overview(stage: _Stage, palette: Palette) -> Chart | None:
    """Draw the rates of each workload in its closed loops, which run as fast as they can."""
    chosen = [
        each
        for each in stage.measurements
        if not each.workload.is_open_loop
        and each.workload.choice is not Choice.ZIPF
        and not each.workload.keys
        and each.workload.name != RESTART
    ]
    cells = []
    for name in dict.fromkeys(map(_load, chosen)):
        own = [each for each in chosen if _load(each) == name]
        curves = curves_of(own, lambda each: each.workload.topics, lambda each: each.rate_per_s)
        cells.append((name.replace(", ", "\n", 1), stage.with_losses(curves)))
    title = f"Rates against topics: {', '.join(map(driver_title, stage.backends()))}"
    said = f"{stage.words}; operations a second in closed loops, lowest to highest round; a cross: a wall of that kind"
    return grid_chart(f"overview-{stage.name}", title, said, cells, palette)


def _load(measurement: Measurement) -> str:
    name = measurement.workload.name
    return f"{name}: records" if name == FILL else f"{name}, {load_words(measurement.workload)}"


def _memory(stage: _Stage, palette: Palette) -> Chart | None:
    """Draw the live heap after a full collection, and the most memory that all processes held, dotted.

    A process holds as much of its heap as its collector has touched, which sooner or later is the whole heap.
    At a wall there was no full collection. A hollow point there is the heap in use at that time.
    """
    curves: list[Curve] = []
    has_live = False
    for backend in stage.backends():
        own = [each for each in stage.measurements if each.driver == backend]
        live = _by_topics(own, _LIVE, statistics.median)
        walls: list[Wall] = []
        lost = stage.lost(backend)
        if lost is not None and lost.wall is not None:
            walls.append(Wall(lost.workload.topics, wall_kind(lost.wall)))
            used = [server["heap_used_bytes"] for server in lost.reported.get(MEMORY, ())]
            if used and None not in used:
                in_use = sum(used) / _MIB
                live.append(Point(lost.workload.topics, in_use, in_use, in_use, is_hollow=True))
        resident = _by_topics(own, _RESIDENT, max)
        if live:
            has_live = True
            curves.append(Curve(side=backend, points=live, walls=walls))
            curves.append(Curve(side=backend, points=resident, is_dotted=True, has_marks=False))
        else:
            curves.append(Curve(side=backend, points=resident, walls=walls))
    said = f"{stage.words}; dotted: resident; hollow: heap in use at a wall"
    title = "Live heap of the store after a full collection" if has_live else "Resident memory of the store"
    topics, size = Axis(label="topics", form=short_count), Axis(label="MiB")
    return curves_chart(f"memory-{stage.name}", title, said, curves, palette, topics, size)


def _by_topics(own: Sequence[Measurement], name: str, of: Callable[[list[float]], float]) -> list[Point]:
    points = []
    for topics in sorted({each.workload.topics for each in own if name in each.values}):
        values = [each.values[name] / _MIB for each in own if each.workload.topics == topics and name in each.values]
        middle = of(values)
        points.append(Point(topics, middle, middle, middle))
    return points


def _against(stage: _Stage, palette: Palette) -> tuple[list[Chart], list[TextTable]]:
    """Return the chart and the tables that compare the first two of the preferred backends, if a stage has two."""
    backends = [name for name in PREFERRED if name in stage.backends()][:2]
    compared = against(stage.measurements, *backends) if len(backends) > 1 else []
    if not compared:
        return [], []
    factors = [_factor(each) for each in compared if each.difference is not None and each.difference.ratio]
    chart = factors_chart(stage.name, stage.words, compared[0].sides, factors, palette)
    ladder = sorted({each.workload.topics for each in compared}, reverse=True)
    return _charts(chart), [
        against_table(f"{topics:,} topics", [each for each in compared if each.workload.topics == topics])
        for topics in ladder
    ]


def _factor(each: Against) -> Factor:
    assert each.difference is not None, "it was compared"
    assert each.difference.ratio, "it was compared"
    factor = each.better(each.difference.ratio)
    rounds = [each.better(ratio) for ratio in each.ratios] or [factor]
    return Factor(
        case=each.case,
        topics=each.workload.topics,
        factor=factor,
        low=min(rounds),
        high=max(rounds),
        is_sure=each.is_sure,
    )


def _latencies(stage: _Stage, palette: Palette) -> list[Chart]:
    """Return charts of the percentiles at offered rates, each at the step that `_most_shared` chooses."""
    offered = [group for group in alike(stage.measurements) if group[0].workload.is_open_loop]
    charts = []
    for name in dict.fromkeys(_load(group[0]) for group in offered):
        own = [group for group in offered if _load(group[0]) == name]
        topics = _most_shared([each for group in own for each in group])
        chart = percentile_chart(
            f"latency-{stage.name}-{name}".replace(", ", "-").replace(" ", "-").replace("/", "-per-").replace(",", ""),
            f"{name}: response times",
            f"{stage.words}, {topics:,} topics",
            [group for group in own if group[0].workload.topics == topics],
            palette,
            side=_driver,
        )
        charts += _charts(chart)
    return charts


def _most_shared(measurements: Sequence[Measurement]) -> int:
    """Return the number of topics at which the most backends have figures; the largest if there are several."""
    backends: dict[int, set[str]] = {each.workload.topics: set() for each in measurements}
    for each in good(measurements):
        backends[each.workload.topics].add(each.driver)
    return max(backends, key=lambda topics: (len(backends[topics]), topics), default=0)


# ---------------------------------------------------------------------------------------------------- second by second

_Seconds = Mapping[int, Mapping[str, Any]]


def _counted(what: str) -> Callable[[_Seconds, int], float | None]:
    return lambda series, second: float(series.get(second, {}).get(what, 0))


def _p99_ms(series: _Seconds, second: int) -> float | None:
    text = series.get(second, {}).get("response")
    times = Histogram.decode(text) if text else Histogram()
    return times.percentile_us(99) / 1000 if times.count else None


def _servers(what: str, unit: float, *, is_grown: bool) -> Callable[[_Seconds, int], float | None]:
    """Return a function that returns the sum of a usage over all servers in a second, or by how much it grew.

    That function returns None if the sum is not known.
    """

    def value(series: _Seconds, second: int) -> float | None:
        noted, before = series.get(second, {}), series.get(second - 1, {})
        names = [name for name, usage in noted.items() if isinstance(usage, Mapping) and name != "client"]
        if not names or (is_grown and not all(name in before for name in names)):
            return None
        return float(sum(noted[name][what] - (before[name][what] if is_grown else 0) for name in names)) / unit

    return value


_PANELS: Final = (
    ("operations/s", _counted("finished"), True, _NOTHING),
    ("p99, ms", _p99_ms, True, 0.0),
    ("failed/s", _counted("failed"), True, _NOTHING),
    ("tried again/s, as others were faster", _counted("refused"), True, _NOTHING),
    ("servers' processors", _servers("cpu_s", 1.0, is_grown=True), False, 0.0),
    ("servers' resident MiB", _servers("rss_bytes", _MIB, is_grown=False), False, 0.0),
    ("MiB/s that servers wrote to disks", _servers("written_bytes", _MIB, is_grown=True), False, 0.0),
)
"""The panels drawn for each second: a name, the function for its value, whether the axis is logarithmic, and its 0."""


def _series(stage: _Stage, palette: Palette) -> Chart | None:
    """Draw the loads of a step one after the other. Rounds stand beside each other; backends share the axes.

    The step is the one that `_most_shared` chooses. Warm-ups are included.
    """
    measured = [each for each in good(stage.measurements) if each.workload.name not in (FILL, RESTART)]
    topics = _most_shared(measured)
    chosen = [each for each in measured if each.workload.topics == topics]
    lines: dict[str, list[Line]] = {text: [] for text, *_ in _PANELS}
    ticks: list[tuple[float, str]] = []
    end = 0
    for load in dict.fromkeys(map(_load, chosen)):
        begin = end
        own = [each for each in chosen if _load(each) == load]
        for number in sorted({each.round for each in own}):
            beside = [each for each in own if each.round == number]
            for each in beside:
                for text, tell, _, _ in _PANELS:
                    values = [(end + at + 0.5, tell(each.series, at)) for at in range(_whole_seconds(each))]
                    points = [(at, value) for at, value in values if value is not None]
                    lines[text].append(Line(colour=palette.ink(each.driver).colour, points=points))
            end += max(map(_whole_seconds, beside))
        ticks.append(((begin + end) / 2, load))
    panels = [
        Panel(text=text, lines=lines[text], is_log=is_log, nothing=nothing)
        for text, _, is_log, nothing in _PANELS
        # A panel whose values are all 0 is left out.
        if any(value for line in lines[text] for _, value in line.points)
    ]
    said = f"{stage.words}; the rounds of a load beside each other; whole seconds"
    sides = [(driver_title(name), palette.ink(name).colour) for name in dict.fromkeys(each.driver for each in chosen)]
    title = f"Second by second, {topics:,} topics"
    return panels_chart(f"series-{stage.name}", title, said, panels, ticks=ticks, sides=sides)


def _whole_seconds(measurement: Measurement) -> int:
    """Return the number of whole seconds of a load, from its start on."""
    workload = measurement.workload
    happened = ("finished", "failed", "refused")
    done = [second for second, noted in measurement.series.items() if any(noted.get(name) for name in happened)]
    last = max(done, default=0)
    return last if workload.is_bounded else min(last + 1, int(workload.seconds))
