"""The tables of `hedwig-bench cas`: one for each operation, every driver beside the Java client."""

import statistics
from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.load.workloads import Operation
from hedwig.benchmarks.machine.disk_flushes import FLUSHES
from hedwig.benchmarks.runs.cas_ratios import per_core, percentile_ratio, ratio, update_ratios
from hedwig.benchmarks.runs.cells import median, percentiles, spread
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.rounds import merged
from hedwig.benchmarks.suites.cas.sizes import writers_per_key

__all__ = ["cas_tables"]

_YARDSTICK: Final = "java"
_COLUMNS: Final = (
    "median",
    "of rounds",
    "× java",
    "client CPU µs",
    "per client core",
    "× java, per core",
    "servers' CPU µs",
    "ms: p50 / p99 / p99.9 / max",
    "p50 × java",
)
_CONTENDED: Final = ("applied", "retries each", "wasted")
_COUNTED: Final = ("flushes of the disk",)
_LAST: Final = ("errors", "notes")


def cas_tables(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return a table for each operation, and one of the ratios that matter."""
    tables: list[TextTable] = []
    for operation in dict.fromkeys(each.workload.name for each in measurements):
        own = [each for each in measurements if each.workload.name == operation]
        contended = operation == Operation.CONTENDED_UPDATE
        load = "writers per key, of 64" if contended else "in flight"
        counted = any(FLUSHES in each.values for each in own)
        more = (*(_CONTENDED if contended else ()), *(_COUNTED if counted else ()))
        lines = _lines(own, contended=contended, counted=counted)
        tables.append(TextTable(operation, (load, "driver", *_COLUMNS, *more, *_LAST), lines))
    if ratios := update_ratios(measurements):
        tables.append(TextTable("update, in short", ("what", "ratio"), ratios))
    return tables


def _lines(measurements: Sequence[Measurement], *, contended: bool, counted: bool) -> list[list[str]]:
    groups = alike(measurements)
    yardsticks = {_load(group[0]): group for group in groups if group[0].driver == _YARDSTICK}
    return [_line(group, yardsticks.get(_load(group[0]), []), contended=contended, counted=counted) for group in groups]


def _load(measurement: Measurement) -> tuple[int, int]:
    return measurement.workload.in_flight, measurement.workload.topics


def _line(rounds: Sequence[Measurement], java: Sequence[Measurement], *, contended: bool, counted: bool) -> list[str]:
    workload = rounds[0].workload
    good = [each for each in rounds if each.wall is None and each.count]
    rates = [each.rate_per_s for each in good]
    beside = {} if rounds[0].driver == _YARDSTICK else {each.round: each for each in java if each.count}
    line = [
        f"{writers_per_key(workload) if contended else workload.in_flight:,}",
        rounds[0].driver,
        f"{statistics.median(rates):,.0f}/s" if rates else "–",
        spread(rates, "{:,.0f}"),
        ratio(good, beside, lambda each: each.rate_per_s),
        median(good, lambda each: _each(each, "client_cpu_s"), "{:,.0f}"),
        median(good, per_core, "{:,.0f}/s"),
        ratio(good, beside, per_core),
        median(good, lambda each: _each(each, "servers_cpu_s"), "{:,.0f}"),
        percentiles(merged(good, "service")) if good else "–",
        percentile_ratio(good, beside, "service", 50),
    ]
    if contended:
        done, refused = sum(each.count for each in good), sum(each.values["refusals"] for each in good)
        attempts = done + refused
        line += [
            f"{done / attempts:.1%}" if attempts else "–",
            f"{refused / done:.2f}" if done else "–",
            _wasted(good),
        ]
    if counted:
        line.append(median(good, _flushes, "{:.2f}"))
    failed = sum(sum(each.errors.values()) for each in rounds)
    reasons = sorted({reason for each in rounds for reason in each.errors})
    notes: dict[str, None] = {}
    for each in rounds:
        notes |= dict.fromkeys(each.notes())
    refusals = sum(each.values["refusals"] for each in good)
    if not contended and refusals:
        notes |= {f"{refusals:,.0f} refused and tried again": None}
    return [*line, f"{failed:,} ({', '.join(reasons)})" if failed else "0", "; ".join(notes)]


def _each(measurement: Measurement, name: str) -> float | None:
    """Return the processor time of one operation in µs, or None if it was not measured."""
    used = measurement.values.get(name)
    return None if used is None or not measurement.count else used / measurement.count * 1e6


def _flushes(measurement: Measurement) -> float | None:
    """Return how often the disk was flushed for one operation, or None if that is not known."""
    flushes = measurement.values.get(FLUSHES)
    return None if flushes is None or not measurement.rate_per_s else flushes / measurement.rate_per_s


def _wasted(good: Sequence[Measurement]) -> str:
    """Return the share of wasted calls. An attempt has two calls, a read and a write; a refusal wastes both."""
    done, refused = sum(each.count for each in good), sum(each.values["refusals"] for each in good)
    calls = 2 * (done + refused)
    return f"{2 * refused / calls:.1%}" if calls else "–"
