"""The charts of `hedwig-bench takeover`: each storm second by second, and those of several sizes beside each other."""

from typing import Final

from hedwig.benchmarks.charts.charts import Line, Panel, panels_chart
from hedwig.benchmarks.charts.drawing import Palette
from hedwig.benchmarks.charts.measured import Sweep, sweep_charts
from hedwig.benchmarks.charts.sections import Chart, Section
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.words import driver_title
from hedwig.histograms import Histogram

__all__ = ["takeover_sections"]

_SHARES: Final = 200
_PUBLISHED, _FAILED, _SERVED = "#7B3FA0", "#B8860B", "#1a1a1a"
"""Colours of no backend, since a storm's chart shows only one store."""
_SIZES: Final = Sweep(
    name="takeover-sizes",
    title="A hub is killed: seconds until all its topics are served again",
    x=lambda each: each.workload.topics,
    x_label="topics of all hubs",
    y=lambda each: each.values["all_served_s"],
    y_label="seconds",
)


def takeover_sections(result: Result) -> list[Section]:
    """Return the report section of a result: sizes beside each other, and a timeline of each storm."""
    charts: list[Chart] = []
    if len({each.workload.topics for each in result.measurements}) > 1:
        said = f"session timeout {result.terms['session timeout']}"
        charts += sweep_charts([_SIZES], result.measurements, Palette(), said, side=lambda each: each.on)
    for number, each in enumerate(result.measurements, 1):
        if each.count and each.series and "killed_at_s" in each.values:
            storm = _storm(each, f"takeover-{number}", str(result.terms.get("metadata", "HBase")).split("; "))
            charts += [storm] if storm is not None else []
    return [Section(title="The takeover storm", charts=charts)]


def _storm(measurement: Measurement, name: str, stores: list[str]) -> Chart | None:
    """Draw one storm second by second, from before the kill to the end of the load."""
    workload, values = measurement.workload, measurement.values
    killed_s = values["killed_at_s"]
    # Result files of older versions have only one store.
    title = driver_title(measurement.on)
    store = next((each for each in stores if each.startswith(title)), stores[0])
    short = store.partition(",")[0]
    seconds = sorted(measurement.series)[:-1]  # The last second is not a whole one.
    last = max(measurement.series) - killed_s

    def counts(what: str) -> list[tuple[float, float]]:
        return [(each + 0.5 - killed_s, float(measurement.series[each].get(what, 0))) for each in seconds]

    times = []
    for second in seconds:
        text = measurement.series[second].get("response")
        histogram = Histogram.decode(text) if text else Histogram()
        if histogram.count:
            times.append((second + 0.5 - killed_s, max(histogram.percentile_us(99) / 1000, 0.01)))

    def shares(what: str) -> list[tuple[float, float]]:
        histogram = measurement.histograms.get(what, Histogram())
        if not histogram.count:
            return []
        percentiles = [100 * step / _SHARES for step in range(1, _SHARES + 1)]
        by_share = histogram.percentiles_us(percentiles)
        return [(0.0, 0.0), *((by_share[share] / 1e6, share) for share in percentiles), (last, 100.0)]

    return panels_chart(
        name,
        f"A hub is killed: {workload.topics:,} topics, {values['hubs']:.0f} hubs, metadata in {short}",
        f"{store}\nseconds from the kill; round {measurement.round}; {workload.rate_per_s:,.0f} publishes/s, "
        f"session timeout {values['session_timeout_s']:g} s",
        [
            Panel(
                text="published a second; attempts that failed and were repeated, dashed",
                lines=[
                    Line(colour=_PUBLISHED, points=counts("finished"), step="mid"),
                    Line(colour=_FAILED, points=counts("failed"), is_dashed=True, step="mid"),
                ],
            ),
            Panel(
                text="p99 of what was acknowledged in each second, ms, from when it was due",
                lines=[Line(colour=_PUBLISHED, points=times, step="mid")],
                is_log=True,
            ),
            Panel(
                text="% of the lost topics served again; delivered to again, dashed",
                lines=[
                    Line(colour=_SERVED, points=shares("served"), step="post"),
                    Line(colour=_PUBLISHED, points=shares("delivered"), is_dashed=True, step="post"),
                ],
            ),
        ],
        marks=[(0.0, "killed"), (values["all_served_s"], "all served")],
    )
