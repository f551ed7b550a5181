"""The tables of `hedwig-bench metadata`: every backend beside ZooKeeper, the topic counts one below the other."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.load.workloads import FILL, RESTART, Workload
from hedwig.benchmarks.runs.cas_ratios import percentile_ratio, ratio
from hedwig.benchmarks.runs.cells import median, median_mib, median_value, percentiles, spread
from hedwig.benchmarks.runs.figures import Figure, less
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.rounds import merged
from hedwig.benchmarks.stores.cases import MEMORY

__all__ = ["metadata_figures", "metadata_tables"]

_YARDSTICK: Final = "zookeeper"
_MIB: Final = 1 << 20
_FIRST: Final = ("topics × subscriptions", "backend")
_FILL: Final = (*_FIRST, "records/s", "× zookeeper", "store MiB", "disk MiB", "batch ms: p50 / p99 / p99.9 / max")
_RESTART: Final = (
    *_FIRST,
    "s until the first read",
    "owners",
    "ledger ranges",
    "subscriptions",
    "s until all of a sample",
    "s until a write",
    "live heap MiB",
)
_CASE: Final = (
    "load",
    *_FIRST,
    "median",
    "of rounds",
    "× zookeeper",
    "ms: p50 / p99 / p99.9 / max",
    "p99 × zookeeper",
    "retries each",
    "servers' CPU µs",
    "client's CPU µs",
    "store MiB",
)
_LAST: Final = ("errors", "notes")


def metadata_tables(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return the tables: for each durability one for filling, one for each workload, and one for restarts."""
    tables: list[TextTable] = []
    for durability in dict.fromkeys(each.on for each in measurements):
        own = [each for each in measurements if each.on == durability]
        names = list(dict.fromkeys(each.workload.name for each in own))
        for name in sorted(names, key=lambda name: (name == RESTART, name != FILL, names.index(name))):
            groups = alike([each for each in own if each.workload.name == name])
            loads = list(dict.fromkeys(_load(group[0].workload) for group in groups))
            groups.sort(key=lambda group: _order(group[0].workload, loads))
            columns, cells = {FILL: (_FILL, _fill), RESTART: (_RESTART, _restart)}.get(name, (_CASE, _case))
            lines = [cells(group, _beside(group, groups)) + _end(group) for group in groups]
            tables.append(TextTable(f"{durability}: {name}", (*columns, *_LAST), lines))
    return tables


def _order(workload: Workload, loads: Sequence[str]) -> tuple[int, int, int]:
    """Return the sort key of a line: its load, then the counts."""
    return loads.index(_load(workload)), workload.subscribers, workload.topics


def _beside(group: Sequence[Measurement], groups: Sequence[Sequence[Measurement]]) -> dict[int, Measurement]:
    """Return, by round, the yardstick's measurements of the same case; none if the group is the yardstick's."""
    first = group[0]
    if first.driver == _YARDSTICK:
        return {}
    matching = (other for other in groups if other[0].driver == _YARDSTICK and other[0].workload == first.workload)
    return {each.round: each for each in next(matching, []) if each.wall is None and each.count}


def _counts(workload: Workload) -> str:
    return f"{workload.topics:,} × {workload.subscribers:,}"


def _load(workload: Workload) -> str:
    parts = [f"{workload.rate_per_s:,.0f}/s offered" if workload.is_open_loop else f"{workload.in_flight:,} in flight"]
    if workload.keys:
        parts.append(f"{workload.in_flight // workload.keys} per key")
    if workload.wide:
        parts.append(f"{workload.wide:,} subscriptions")
    if workload.choice == "zipf":
        parts.append("zipf")
    return ", ".join(parts)


def _good(group: Sequence[Measurement]) -> list[Measurement]:
    return [each for each in group if each.wall is None and each.count]


def _fill(group: Sequence[Measurement], beside: dict[int, Measurement]) -> list[str]:
    seen = [each for each in group if each.count]
    return [
        _counts(group[0].workload),
        group[0].driver,
        median(seen, lambda each: each.rate_per_s, "{:,.0f}"),
        ratio(_good(group), beside, lambda each: each.rate_per_s),
        median_mib(seen, "store_rss_bytes_max"),
        median_mib(seen, "disk_bytes"),
        percentiles(merged(seen, "service")) if seen else "–",
    ]


def _restart(group: Sequence[Measurement], _: dict[int, Measurement]) -> list[str]:
    names = [f"{name}_read_s" for name in ("first", "owners", "ranges", "subscriptions", "all")]
    shown = (median_value(group, name, "{:.1f}") for name in (*names, "written_s"))
    return [_counts(group[0].workload), group[0].driver, *shown, median_mib(group, "store_live_heap_bytes")]


def _case(group: Sequence[Measurement], beside: dict[int, Measurement]) -> list[str]:
    workload, good = group[0].workload, _good(group)
    rates = [each.rate_per_s for each in good]
    return [
        _load(workload),
        _counts(workload),
        group[0].driver,
        f"{statistics.median(rates):,.0f}/s" if rates else "–",
        spread(rates, "{:,.0f}"),
        ratio(good, beside, lambda each: each.rate_per_s),
        _latency(workload, good),
        percentile_ratio(good, beside, "response", 99),
        median(good, lambda each: each.values["refusals"] / each.count, "{:.2f}"),
        median(good, _each("servers_cpu_s"), "{:,.0f}"),
        median(good, _each("client_cpu_s"), "{:,.0f}"),
        median_mib(good, "store_rss_bytes_max"),
    ]


def _latency(workload: Workload, good: Sequence[Measurement]) -> str:
    """Return percentiles of the response time, and at an offered rate also those of the service time."""
    if not good:
        return "–"
    response = percentiles(merged(good, "response"))
    return f"{response} (service {percentiles(merged(good, 'service'))})" if workload.is_open_loop else response


def _each(name: str) -> Callable[[Measurement], float | None]:
    """Return a function that returns the processor time of one operation in µs; None for 0, which was not measured."""
    return lambda each: used / each.count * 1e6 if (used := each.values.get(name)) and each.count else None


def _held(server: Mapping[str, Any]) -> str:
    """Return what a live server held when its backend met a wall."""
    heap = [server["heap_used_bytes"], server["heap_max_bytes"]]
    used, most = ("unknown" if size is None else f"{size / _MIB:,.0f}" for size in heap)
    resident = "" if server["rss_bytes"] is None else f", {server['rss_bytes'] / _MIB:,.0f} MiB resident"
    return f"{server['server']} lives: {used} of {most} MiB of heap{resident}"


def _end(group: Sequence[Measurement]) -> list[str]:
    failed = sum(sum(each.errors.values()) for each in group)
    reasons = sorted({reason for each in group for reason in each.errors})
    notes: dict[str, None] = {}
    for each in group:
        notes |= dict.fromkeys((*each.notes(), *map(_held, each.reported.get(MEMORY, ()))))
        if "busy_cores" in each.values:
            notes[f"servers were still at work: {each.values['busy_cores']:.2f} processors"] = None
    return [f"{failed:,} ({', '.join(reasons)})" if failed else "0", "; ".join(notes)]


def metadata_figures(measured: Sequence[Measurement]) -> list[Figure]:
    """Return how long topics were not served in a restart; no figures for any other case."""
    if measured[0].workload.name != RESTART:
        return []
    return [less("s until all of a sample was read", measured, lambda each: each.values["all_read_s"], "{:,.1f}")]
