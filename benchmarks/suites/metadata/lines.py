"""The lines that a run of `hedwig-bench metadata` prints about its cases."""

from collections.abc import Mapping

from hedwig.benchmarks.load.workloads import FILL, RESTART, Choice, Workload
from hedwig.benchmarks.runs.results import Measurement

__all__ = ["filling", "named", "result_line"]


def named(workload: Workload) -> str:
    """Return a line that names a case."""
    parts = [f"{workload.name}, {workload.topics:,} topics × {workload.subscribers}"]
    if workload.name in (FILL, RESTART):
        return parts[0]
    if workload.keys:
        parts.append(f"{workload.in_flight // workload.keys} writers per key")
    if workload.wide:
        parts.append(f"{workload.wide:,} subscriptions")
    if workload.choice is Choice.ZIPF:
        parts.append("zipf")
    load = f"{workload.rate_per_s:,.0f}/s offered" if workload.is_open_loop else f"{workload.in_flight:,} in flight"
    return ", ".join([*parts, load])


def result_line(measurement: Measurement) -> str:
    """Return a line with the results of a measurement."""
    parts: list[str] = []
    response = measurement.histograms.get("response")
    if "all_read_s" in measurement.values:
        parts.append(f"all read after {measurement.values['all_read_s']:.1f} s")
        if "written_s" in measurement.values:
            parts.append(f"written after {measurement.values['written_s']:.1f} s")
    elif response is not None and response.count:
        times = response.percentiles_us((50.0, 99.0))
        parts.append(f"{measurement.rate_per_s:,.0f}/s, {times[50.0] / 1000:.1f} ms, p99 {times[99.0] / 1000:.1f} ms")
    elif not measurement.count and measurement.wall is None and not measurement.failed:
        parts.append("nothing was finished in time")
    if "from_topics" in measurement.values:
        parts.append(f"from {measurement.values['from_topics']:,} topics on")
    return "; ".join([*parts, *measurement.notes()])


def filling(progress: Mapping[str, float]) -> str:
    """Return a line on how far a fill is."""
    left = progress["of"] - progress["records"]
    rate = progress["per_s"]
    more = f"about {left / rate / 60:.0f} min more" if rate else "nothing lately"
    return f"{progress['records']:,} of {progress['of']:,} records, {rate:,.0f}/s, {more}"
