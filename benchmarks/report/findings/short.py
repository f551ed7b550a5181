"""What a result on metadata backends comes to, before anything else: who was ahead, what met a wall, two pictures."""

from collections.abc import Mapping, Sequence

from hedwig.benchmarks.load.workloads import Choice
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.charts.growth import Stage
from hedwig.benchmarks.report.charts.memory import alive_words, memory_chart
from hedwig.benchmarks.report.charts.overview import overview_chart
from hedwig.benchmarks.report.findings.findings import Finding
from hedwig.benchmarks.report.findings.kept import kept_words
from hedwig.benchmarks.report.findings.pooled import Pooled, pooled_leads
from hedwig.benchmarks.report.page import Section
from hedwig.benchmarks.runs.walls import wall_kind, wall_words
from hedwig.benchmarks.runs.words import driver_title

__all__ = ["Compared", "short_section", "shown_first"]

Compared = Mapping[str, Sequence[Finding]]
"""By the name of a stage, what two backends came to there."""


def shown_first(stages: Sequence[Stage]) -> Stage | None:
    """Return the stage whose rates and memory are shown before all others.

    Of those that come first it is the one with most records.
    """
    durability = next((stage.durability for stage in stages), None)
    own = [stage for stage in stages if stage.durability == durability]
    return max(own, key=lambda stage: stage.subscribers, default=None)


def short_section(
    stages: Sequence[Stage], compared: Compared, over_all: Mapping[str, Sequence[Pooled]], palette: Palette
) -> Section:
    """Return the section. Args: over_all - what all sizes of a durability came to together."""
    first = shown_first(stages)
    says = [" ".join([_subject(stages), *_words(stages)])]
    says += [told for words, each in over_all.items() for told in pooled_leads(each, words)]
    for stage in stages:
        if first and stage.durability == first.durability:
            says += [*filter(None, [kept_words(stage)]), *_memory(stage)]
    says += [told for stage in stages if compared.get(stage.name) for told in _lost(stage)]
    if not compared:
        only = ", ".join(dict.fromkeys(driver_title(name) for stage in stages for name in stage.backends()))
        says.append(f"Nothing stands beside something else here: there is {only or 'nothing'} only.")
    charts = [] if first is None else [overview_chart(first, palette), memory_chart(first, palette)]
    return Section(title="In short", says=says, charts=[chart for chart in charts if chart is not None])


def _subject(stages: Sequence[Stage]) -> str:
    backends = dict.fromkeys(driver_title(name) for stage in stages for name in stage.backends())
    topics = sorted({each.workload.topics for stage in stages for each in stage.measurements})
    subscribers = sorted({stage.subscribers for stage in stages})
    if not topics:
        return "Nothing was measured."
    grown = f"as topics grow from {topics[0]:,} to {topics[-1]:,}" if len(topics) > 1 else f"with {topics[0]:,} topics"
    numbers, plural = " and ".join(f"{each:,}" for each in subscribers), "" if subscribers == [1] else "s"
    return f"What {' and '.join(backends)} can do {grown}, with {numbers} subscription{plural} each."


def _words(stages: Sequence[Stage]) -> list[str]:
    """Return what the words mean that the next sentences need."""
    measured = [each for stage in stages for each in stage.measurements]
    if not measured:
        return []
    told = [
        "What the operations are is said below; “64 in flight” is as many as that at once, as fast as it goes.",
    ]
    if any(each.workload.choice is Choice.ZIPF for each in measured):
        told.append("“zipf”: a few topics get most of the operations, else all are as likely.")
    if len({stage.durability for stage in stages}) > 1:
        told.append("“synced”: what was acknowledged is on the disk; “unsynced”: in the file cache.")
    return told


def _memory(stage: Stage) -> list[str]:
    alive = alive_words(stage)
    return [f"Memory, {stage.words}. {alive}"] if alive else []


def _lost(stage: Stage) -> list[str]:
    """Return a sentence for each backend that could not be filled, and so has no cases from there on."""
    most = max(each.workload.topics for each in stage.measurements)
    told = []
    for backend in stage.backends():
        lost = stage.lost(backend)
        if lost is not None and lost.wall is not None:
            kind, topics = wall_kind(lost.wall), lost.workload.topics
            told.append(
                f"{stage.words}: {driver_title(backend)} could not be filled with {topics:,} topics ({kind}: "
                f"{wall_words(lost)}). It has no cases there"
                + (f", nor at the {most:,} topics that this run went up to." if most > topics else ".")
            )
    return told
