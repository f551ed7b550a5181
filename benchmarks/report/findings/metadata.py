"""The part of a report on metadata backends: who was better, and how each fared as topics became more."""

from collections.abc import Mapping, Sequence

from hedwig.benchmarks.load.workloads import Choice
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.charts.factors import factor_chart
from hedwig.benchmarks.report.charts.growth import Stage, disk_chart, rate_charts, restart_chart, stages_of
from hedwig.benchmarks.report.charts.latency import open_loops, percentile_chart, percentile_table
from hedwig.benchmarks.report.charts.memory import memory_chart
from hedwig.benchmarks.report.charts.overview import overview_chart
from hedwig.benchmarks.report.charts.series import series_chart
from hedwig.benchmarks.report.charts.sweeps import contention_charts
from hedwig.benchmarks.report.findings.findings import PREFERRED, Finding, findings
from hedwig.benchmarks.report.findings.flushes import flush_section
from hedwig.benchmarks.report.findings.kept import kept_table
from hedwig.benchmarks.report.findings.pooled import Pooled, pooled, pooled_table
from hedwig.benchmarks.report.findings.short import Compared, short_section, shown_first
from hedwig.benchmarks.report.findings.verdicts import findings_table, leads, summary
from hedwig.benchmarks.report.page import Chart, Section, Table
from hedwig.benchmarks.runs.results import Measurement, Result, alike
from hedwig.benchmarks.runs.walls import OUR_LIMIT, walls_table
from hedwig.benchmarks.runs.words import load_words

__all__ = ["metadata_sections"]


def metadata_sections(result: Result) -> list[Section]:
    """Return the sections on a result of `hedwig-bench metadata`; the first says in short what it comes to."""
    palette = Palette()
    stages = stages_of(result.measurements)
    compared = _compared(result, stages)
    by_durability: dict[str, list[Finding]] = {}
    for stage in stages:
        if stage.name in compared:
            by_durability.setdefault(stage.durability, []).extend(compared[stage.name])
    over_all = {durability: pooled(found) for durability, found in by_durability.items()}
    short = short_section(stages, compared, over_all, palette)
    found = _better(stages, compared, over_all, palette)
    shown = shown_first(stages)
    for number, stage in enumerate(stages):
        found += _of_stage(stage, palette, is_shown_above=stage is shown, is_folded=number > 0)
    if forced := flush_section(result):
        found.append(forced)
    if cases := _cases(result):
        found.insert(2, cases)
    if walls := walls_table(result.measurements):
        says = (
            "A backend that could not go on is a result: where, and how it failed. "
            f"“{OUR_LIMIT}” is one that this run has set, and no failure: more patience might have seen the end."
        )
        found.insert(2, Section(title="Walls", says=[says], tables=[walls]))
    return [short, *(section for section in found if section.says or section.charts or section.tables)]


def _compared(result: Result, stages: Sequence[Stage]) -> Compared:
    """Return what the two backends came to that are preferred, of each stage that has two."""
    cpus = result.environment.get("cpus_usable") or result.environment.get("cpus")
    compared = {}
    for stage in stages:
        backends = [name for name in PREFERRED if name in stage.backends()]
        found = findings(result.program, stage.measurements, *backends[:2], cpus=cpus) if len(backends) > 1 else []
        if found:
            compared[stage.name] = found
    return compared


def _cases(result: Result) -> Section | None:
    """Return what each workload of a result does, for those who have never heard its name; None if it does not say."""
    says = result.terms.get("workloads")
    if not isinstance(says, Mapping):
        return None
    names = dict.fromkeys(each.workload.name for each in result.measurements)
    lines = [[name, str(says[name])] for name in names if name in says]
    table = Table(title="", columns=("measured", "one operation"), lines=lines)
    return Section(title="What the names mean", tables=[table]) if lines else None


def _better(
    stages: Sequence[Stage], compared: Compared, over_all: Mapping[str, Sequence[Pooled]], palette: Palette
) -> list[Section]:
    """Return who was better, over all sizes and case by case.

    In full at the most topics of each ladder, and at the most of which both sides have figures; at fewer, folded.
    """
    says: list[str] = []
    charts: list[Chart] = []
    tables: list[Table] = []
    smaller: list[Table] = []
    for stage in stages:
        found = compared.get(stage.name)
        if not found:
            continue
        chart = factor_chart(found, palette, name=f"factors-{stage.name}", subtitle=stage.words)
        charts += [chart] if chart is not None else []
        ladder = sorted({each.workload.topics for each in found}, reverse=True)
        shown = _shown(found)
        says += leads(found, stage.words, shown)
        for topics in ladder:
            step = [each for each in found if each.workload.topics == topics]
            title = f"{stage.words}, {topics:,} topics"
            (tables if topics in shown else smaller).append(findings_table(title, step))
            if topics in shown:
                says.append(f"{title}. {summary(step)}")
    return [
        Section(
            title="Who was better",
            says=says,
            charts=charts,
            tables=[
                *(pooled_table(f"{words}, over all sizes", each) for words, each in over_all.items() if each),
                *tables,
            ],
        ),
        Section(title="Who was better with fewer topics", tables=smaller, is_folded=True),
    ]


def _shown(found: Sequence[Finding]) -> set[int]:
    """Return the most topics of which there is anything to say, and the most of which both sides have figures."""
    whole = [each.workload.topics for each in found if not each.has_walls]
    return {max(each.workload.topics for each in found), max(whole, default=0)}


def _of_stage(stage: Stage, palette: Palette, *, is_shown_above: bool, is_folded: bool) -> list[Section]:
    """Return the sections on one ladder. Args: is_shown_above - the pictures of all rates and of memory are there."""
    growth = [disk_chart(stage, palette), restart_chart(stage, palette)]
    if not is_shown_above:
        growth.insert(0, memory_chart(stage, palette))
    plain = [
        each
        for each in stage.measurements
        if each.workload.keys and not each.workload.is_open_loop and each.workload.choice is not Choice.ZIPF
    ]
    # It is measured at both ends of a ladder; the table has both.
    most = max((each.workload.topics for each in plain), default=0)
    plain = [each for each in plain if each.workload.topics == most]
    contention = (
        contention_charts(
            plain,
            palette,
            lambda each: each.workload.in_flight // each.workload.keys,
            name=f"contention-{stage.name}",
            subtitle=f"{stage.words}, {most:,} topics; {plain[0].workload.in_flight} hubs want some topics at once",
        )
        if plain
        else []
    )
    kept = kept_table(stage)
    series = series_chart(stage, palette)
    overview = None if is_shown_above else overview_chart(stage, palette)
    table = percentile_table(f"{stage.words}: response times", alike(stage.measurements))
    return [
        Section(
            title=f"Operations a second against topics: {stage.words}",
            says=[
                "As much as possible at once, uniformly drawn keys. Points are medians of the rounds, lines from the "
                "lowest to the highest. A cross at the bottom is a wall: that backend has no figure there."
            ],
            charts=[*([overview] if overview is not None else []), *rate_charts(stage, palette)],
            tables=[kept] if kept is not None else [],
            is_folded=is_folded,
        ),
        Section(
            title=f"{'Disk' if is_shown_above else 'Memory, disk'} and restarts against topics: {stage.words}",
            charts=[chart for chart in growth if chart is not None],
            is_folded=is_folded,
        ),
        Section(
            title=f"Latency: {stage.words}",
            says=[
                "At offered rates a time counts from when an operation should have begun (solid), so that a stall "
                "shows in all that it held up; dotted is the time from when it did begin. Percentiles are of all "
                "rounds' operations together, from exact histograms."
            ],
            charts=_latency_charts(stage, palette),
            tables=[table] if table is not None else [],
            is_folded=is_folded,
        ),
        Section(
            title=f"Second by second: {stage.words}",
            charts=[series] if series is not None else [],
            is_folded=is_folded,
        ),
        Section(title=f"Writers of the same key: {stage.words}", charts=contention, is_folded=is_folded),
    ]


def _latency_charts(stage: Stage, palette: Palette) -> list[Chart]:
    """Return the percentiles at offered rates, each at the most topics that more than one backend has."""
    groups = open_loops(stage.measurements)
    charts = []
    for name, load in dict.fromkeys((group[0].workload.name, load_words(group[0].workload)) for group in groups):
        own = [g for g in groups if (g[0].workload.name, load_words(g[0].workload)) == (name, load)]
        topics = _most_shared(own)
        chart = percentile_chart(
            [group for group in own if group[0].workload.topics == topics],
            palette,
            name=f"latency-{stage.name}-{name}-{load}".replace(", ", "-")
            .replace(" ", "-")
            .replace("/", "-per-")
            .replace(",", ""),
            title=f"{name}: response times at {load.removesuffix(' offered')}",
            subtitle=f"{stage.words}, {topics:,} topics",
        )
        charts += [chart] if chart is not None else []
    return charts


def _most_shared(groups: Sequence[Sequence[Measurement]]) -> int:
    """Return the largest number of topics at which most backends have times."""
    backends: dict[int, int] = {}
    for group in groups:
        if any(each.count and each.wall is None for each in group):
            backends[group[0].workload.topics] = backends.get(group[0].workload.topics, 0) + 1
    if not backends:
        return max(group[0].workload.topics for group in groups)
    most = max(backends.values())
    return max(topics for topics, count in backends.items() if count == most)
