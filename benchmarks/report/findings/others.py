"""The parts of a report on hubs, on compare-and-set, on whole listings, and on takeover storms."""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from hedwig.benchmarks.load.workloads import Operation
from hedwig.benchmarks.report.charts.bars import Bar, bars_chart
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.charts.latency import open_loops, percentile_chart, percentile_table
from hedwig.benchmarks.report.charts.storm import storm_chart
from hedwig.benchmarks.report.charts.storms import storms_chart
from hedwig.benchmarks.report.charts.sweeps import contention_charts, depth_chart
from hedwig.benchmarks.report.compare.figures import figures, good
from hedwig.benchmarks.report.page import Chart, Section
from hedwig.benchmarks.runs.results import Measurement, Result, alike
from hedwig.benchmarks.runs.walls import wall_kind, wall_of, wall_words
from hedwig.benchmarks.runs.words import case_words, count, driver_title, side_words
from hedwig.benchmarks.suites.cas.suite import writers_per_key
from hedwig.benchmarks.suites.hub.stored_suite import FAIL_OVER, STORES

__all__ = ["bar_sections", "cas_sections", "listing_sections", "takeover_sections"]

_MIB: Final = 1 << 20


def cas_sections(result: Result) -> list[Section]:
    """Return the sections on a result of `hedwig-bench cas`."""
    palette = Palette()
    sections = []
    for name in dict.fromkeys(each.workload.name for each in result.measurements):
        own = [each for each in result.measurements if each.workload.name == name]
        if name == Operation.CONTENDED_UPDATE:
            charts: list[Chart] = contention_charts(
                own,
                palette,
                lambda each: writers_per_key(each.workload),
                name="cas-contended",
                subtitle=f"{own[0].workload.in_flight} writers in all",
            )
        else:
            chart = depth_chart(own, palette, name=f"cas-{name}", subtitle="medians of the rounds, lowest to highest")
            charts = [chart] if chart is not None else []
        table = percentile_table("", alike(own))
        sections.append(
            Section(title=f"Compare-and-set: {name}", charts=charts, tables=[table] if table is not None else [])
        )
    return sections


def bar_sections(result: Result) -> list[Section]:
    """Return the sections on a result of `hedwig-bench hub`, or of a program that this one does not know."""
    palette = Palette()
    groups = alike(result.measurements)
    closed = [group for group in groups if not group[0].workload.is_open_loop]
    charts = []
    for name in dict.fromkeys(group[0].workload.name for group in closed):
        own = [group for group in closed if group[0].workload.name == name]
        found = next((found for group in own if (found := figures(result.program, group, are_times_first=False))), [])
        # How long topics are away is seconds until the hub is there, and then until it has them.
        for place, what in enumerate([each.name for each in found[: 2 if name == FAIL_OVER else 1]] or ["walls"]):
            charts.append(
                _bars(
                    own,
                    palette,
                    partial(_rounds, result.program, what),
                    name=f"hub-{name}" if not place else f"hub-{name}-{place + 1}",
                    title=f"{name}: {what.replace('s until', 'seconds until')}",
                    form=_seconds if what.startswith("s ") else count,
                )
            )
    sections = [
        Section(
            title="Hubs: as much as possible",
            says=["Medians of the rounds; the thin lines go from the lowest round to the highest."],
            charts=[chart for chart in charts if chart is not None],
        )
    ]
    offered = open_loops(result.measurements)
    latencies: list[Chart] = []
    for words in dict.fromkeys(case_words(group[0].workload) for group in offered):
        chart = percentile_chart(
            [group for group in offered if case_words(group[0].workload) == words],
            palette,
            name=f"hub-latency-{len(latencies) + 1}",
            title=f"{words.split(', ')[0]}: response times",
            subtitle=words,
            label=side_words,
            side=side_words,
        )
        latencies += [chart] if chart is not None else []
    table = percentile_table("", groups)
    if latencies or table:
        sections.append(
            Section(
                title="Hubs: latency",
                says=[
                    "At offered rates a time counts from when a message should have been published (solid); dotted is "
                    "the time from when it was sent. In closed loops both are the same, and a stall hides there."
                ],
                charts=latencies,
                tables=[table] if table is not None else [],
            )
        )
    return [section for section in sections if section.charts or section.tables]


def listing_sections(result: Result) -> list[Section]:
    """Return the section on a result of `hedwig-bench listing`."""
    palette = Palette()
    groups = alike(result.measurements)
    charts = [
        _bars(groups, palette, value, name=f"listing-{name}", title=title, form=form, side_of=lambda each: each.on)
        for name, title, value, form in (
            ("seconds", "Whole listings: seconds", lambda group: [each.seconds for each in group], _seconds),
            (
                "memory",
                "Whole listings: peak memory of the command, MiB",
                lambda group: [each.values["rss_bytes_max"] / _MIB for each in group if "rss_bytes_max" in each.values],
                count,
            ),
        )
    ]
    return [Section(title="Whole listings", charts=[chart for chart in charts if chart is not None])]


def takeover_sections(result: Result) -> list[Section]:
    """Return the section on a result of `hedwig-bench takeover`: sizes beside each other, and a timeline of each."""
    stores = str(result.terms.get("metadata", "HBase")).split("; ")
    charts = [
        storm_chart(
            each,
            store=(store := _store_of(each, stores)).split(",")[0],
            name=f"takeover-{number}",
            subtitle=f"{store}\nround {each.round}; {each.workload.rate_per_s:,.0f} publishes a second, "
            f"session timeout {each.values['session_timeout_s']:g} s",
        )
        for number, each in enumerate(result.measurements, 1)
        if each.count and each.series and "killed_at_s" in each.values
    ]
    walls = [
        f"Round {each.round} met a wall: {why}."
        for each in result.measurements
        if (why := wall_words(each)) is not None
    ]
    sizes = storms_chart(result.measurements)
    return [Section(title="The takeover storm", says=walls, charts=[*([sizes] if sizes is not None else []), *charts])]


def _store_of(measurement: Measurement, stores: Sequence[str]) -> str:
    """Return which of the stores of a run had the metadata; files of older versions have but one."""
    title = driver_title(measurement.on)
    return next((store for store in stores if store.startswith(title)), stores[0])


def _rounds(program: str, what: str, group: Sequence[Measurement]) -> list[float]:
    found = figures(program, group, are_times_first=False)
    return next((list(each.rounds) for each in found if each.name == what), [])


def _bars(
    groups: Sequence[Sequence[Measurement]],
    palette: Palette,
    values: Callable[[Sequence[Measurement]], list[float]],
    *,
    name: str,
    title: str,
    form: Callable[[float], str] = count,
    side_of: Callable[[Measurement], str] = side_words,
) -> Chart | None:
    """Return a bar for each group of rounds, those of one case together."""
    bars, told = [], []
    for group in groups:
        measured = good(group)
        found = values(measured) if measured else []
        side = side_of(group[0])
        case = case_words(group[0].workload)
        # Whose metadata are in a backend's store is drawn as that backend is everywhere.
        ink = palette.ink(group[0].on if group[0].on in STORES else side)
        if found:
            middle = statistics.median(found)
            bars.append(Bar(group=case, label=side, ink=ink, value=middle, low=min(found), high=max(found)))
            told.append(f"{case}, {side}: {form(middle)}")
        else:
            why = wall_of(group) or "no figure of this kind"
            bars.append(Bar(group=case, label=side, ink=ink, value=None, note=wall_kind(why)))
            told.append(f"{case}, {side}: wall ({why})")
    sides = dict.fromkeys(bar.label for bar in bars)
    subtitle = "medians of the rounds" + (f"; {next(iter(sides))}" if len(sides) == 1 else "")
    return bars_chart(name=name, title=title, subtitle=subtitle, says=f"{'; '.join(told)}.", bars=bars, form=form)


def _seconds(value: float) -> str:
    return f"{value:,.1f} s"
