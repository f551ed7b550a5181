"""The charts of `hedwig-bench cas`: rates against operations in flight, and the cost of writers that share a key."""

from dataclasses import replace
from typing import Final

from hedwig.benchmarks.charts.drawing import Palette
from hedwig.benchmarks.charts.measured import Sweep, percentile_table, sweep_charts
from hedwig.benchmarks.charts.sections import Section
from hedwig.benchmarks.load.workloads import Operation
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.suites.cas.sizes import writers_per_key

__all__ = ["cas_sections"]

_DEPTH: Final = Sweep(
    name="rate",
    title="operations a second",
    x=lambda each: each.workload.in_flight,
    x_label="operations in flight",
    y=lambda each: each.rate_per_s,
    y_label="operations/s",
)
_CONTENDED: Final = (
    Sweep(
        name="rate",
        title="operations a second",
        x=lambda each: writers_per_key(each.workload),
        x_label="writers of one key",
        y=lambda each: each.rate_per_s,
        y_label="operations/s",
    ),
    Sweep(
        name="retries",
        title="retries for each one done",
        x=lambda each: writers_per_key(each.workload),
        x_label="writers of one key",
        y=lambda each: each.values["refusals"] / each.count,
        y_label="retries",
        is_log=False,
    ),
)


def cas_sections(result: Result) -> list[Section]:
    """Return a section for each operation."""
    palette = Palette()
    sections = []
    for name in dict.fromkeys(each.workload.name for each in result.measurements):
        own = [each for each in result.measurements if each.workload.name == name]
        sweeps = _CONTENDED if name == Operation.CONTENDED_UPDATE else (_DEPTH,)
        named = [replace(each, name=f"cas-{name}-{each.name}", title=f"{name}: {each.title}") for each in sweeps]
        charts = sweep_charts(named, own, palette, "medians of the rounds, lowest to highest", side=_driver)
        sections.append(Section(title=f"Compare-and-set: {name}", charts=charts, tables=percentile_table("", own)))
    return sections


def _driver(measurement: Measurement) -> str:
    return measurement.driver
