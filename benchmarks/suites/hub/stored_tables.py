"""The tables of hubs over stores with many topics: HBase beside ZooKeeper, the topic counts one below the other."""

import statistics
from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.load.workloads import FILL, Workload
from hedwig.benchmarks.runs.cas_ratios import ratio
from hedwig.benchmarks.runs.cells import median, median_mib, median_value, percentiles, spread
from hedwig.benchmarks.runs.figures import Figure, less
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.rounds import merged
from hedwig.benchmarks.suites.hub.stored_sizes import FAIL_OVER

__all__ = ["stored_figures", "stored_tables"]

_YARDSTICK: Final = "zookeeper"
_MIB: Final = 1 << 20
_FILL: Final = ("topics in the store", "metadata in", "records/s", "seconds", "store MiB", "disk MiB", "notes")
_CASE: Final = (
    "load",
    "topics in the store",
    "metadata in",
    "driver",
    "of them",
    "median",
    "of rounds",
    "× zookeeper",
    "ms: p50 / p99 / p99.9 / max",
    "errors",
    "hub: CPU µs each / MiB",
    "store: CPU µs each / MiB",
    "notes",
)
_SECONDS: Final = ("hub serves again, s", "all served, s")


def stored_tables(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return a table for each measurement, that of filling first."""
    tables: list[TextTable] = []
    names = list(dict.fromkeys(each.workload.name for each in measurements))
    for name in sorted(names, key=lambda name: name != FILL):
        groups = alike([each for each in measurements if each.workload.name == name])
        loads = list(dict.fromkeys(_load(group[0].workload) for group in groups))
        groups.sort(key=lambda group: (loads.index(_load(group[0].workload)), group[0].workload.topics))
        if name == FILL:
            tables.append(TextTable(name, _FILL, [_fill(group) for group in groups]))
        elif name == FAIL_OVER:
            columns = (*_CASE[:5], *_SECONDS, *_CASE[5:])
            lines = [[*(line := _case(group, groups))[:5], *_seconds(group), *line[5:]] for group in groups]
            tables.append(TextTable(f"{name}: the hub is killed, and started again on its data", columns, lines))
        else:
            tables.append(TextTable(name, _CASE, [_case(group, groups) for group in groups]))
    return tables


def _fill(group: Sequence[Measurement]) -> list[str]:
    seen = [each for each in group if each.count]
    return [
        f"{group[0].workload.topics:,}",
        group[0].on,
        median(seen, lambda each: each.rate_per_s, "{:,.0f}"),
        median(seen, lambda each: each.seconds, "{:,.0f}"),
        median_mib(seen, "store_rss_bytes_max"),
        median_mib(seen, "disk_bytes"),
        _notes(group),
    ]


def _case(group: Sequence[Measurement], groups: Sequence[Sequence[Measurement]]) -> list[str]:
    first, good = group[0], [each for each in group if each.wall is None and each.count]
    rates = [each.rate_per_s for each in good]
    failed = sum(sum(each.errors.values()) for each in group)
    reasons = sorted({reason for each in group for reason in each.errors})
    return [
        _load(first.workload),
        f"{first.workload.topics:,}",
        first.on,
        first.driver,
        f"{first.workload.sample:,}",
        f"{statistics.median(rates):,.0f}/s" if rates else "–",
        spread(rates, "{:,.0f}"),
        ratio(good, _beside(group, groups), lambda each: each.rate_per_s),
        _latency(first.workload, good),
        f"{failed:,} ({', '.join(reasons)})" if failed else "0",
        f"{median(good, lambda each: _us_each(each, each.hub_cores), '{:,.0f}')} / "
        f"{median(good, lambda each: (each.hub_rss_bytes_max or 0) / _MIB, '{:,.0f}')}",
        f"{median(good, lambda each: _us_each(each, each.values.get('stores_cores')), '{:,.0f}')} / "
        f"{median_mib(good, 'stores_rss_bytes_max')}",
        _notes(group),
    ]


def _us_each(measurement: Measurement, cores: float | None) -> float | None:
    """Return the processor time of one operation in µs. On a shared machine it says more than the rate."""
    return None if cores is None else cores * measurement.seconds / measurement.count * 1e6


def _seconds(group: Sequence[Measurement]) -> list[str]:
    good = [each for each in group if each.wall is None and each.count]
    return [median_value(good, name, "{:.2f}") for name in ("hub_serves_s", "all_served_s")]


def _beside(group: Sequence[Measurement], groups: Sequence[Sequence[Measurement]]) -> dict[int, Measurement]:
    """Return, by round, the yardstick's measurements of the same case; none if the group is the yardstick's."""
    first = group[0]
    if first.on == _YARDSTICK:
        return {}
    for other in groups:
        if (other[0].on, other[0].driver, other[0].workload) == (_YARDSTICK, first.driver, first.workload):
            return {each.round: each for each in other if each.wall is None and each.count}
    return {}


def _load(workload: Workload) -> str:
    if workload.is_open_loop:
        return f"{workload.rate_per_s:,.0f}/s offered"
    return "all at once" if workload.name == FAIL_OVER else f"{workload.in_flight:,} in flight"


def _latency(workload: Workload, good: Sequence[Measurement]) -> str:
    """Return percentiles: those of the service time, or at an offered rate of the response and the service time."""
    if not good:
        return "–"
    service = percentiles(merged(good, "service"))
    return f"{percentiles(merged(good, 'response'))} (service {service})" if workload.is_open_loop else service


def _notes(group: Sequence[Measurement]) -> str:
    notes: dict[str, None] = {}
    for each in group:
        notes |= dict.fromkeys(each.notes())
    return "; ".join(notes)


def stored_figures(measured: Sequence[Measurement]) -> list[Figure]:
    """Return how long the topics of a killed hub were not served; no figures for any other case."""
    if measured[0].workload.name != FAIL_OVER or not all("all_served_s" in each.values for each in measured):
        return []
    return [
        less("s until all topics were served", measured, lambda each: each.values["all_served_s"], "{:,.2f}"),
        less("s until the hub served again", measured, lambda each: each.values["hub_serves_s"], "{:,.2f}"),
    ]
