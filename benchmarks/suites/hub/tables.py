"""The tables of `hedwig-bench hub`: every load by every driver, and hubs over stores with many topics."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.load.cases import EMBEDDED
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.runs.cells import median, median_value, percentiles
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.rounds import merged
from hedwig.benchmarks.suites.hub.ratios import hub_ratios
from hedwig.benchmarks.suites.hub.stored_sizes import STORES
from hedwig.benchmarks.suites.hub.stored_tables import stored_tables

__all__ = ["ResultRow", "hub_tables", "rows"]

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One line: all rounds of one workload on one driver."""

    what: str
    on: str
    driver: str
    load: str
    rate: str
    spread: str
    latency: str
    errors: str
    hub: str
    generator: str
    bookies: str
    notes: str


def rows(measurements: Sequence[Measurement]) -> list[ResultRow]:
    """Return the lines of measurements. Rounds of one case share a line."""
    return [_row(group) for group in alike(measurements)]


def _row(rounds: Sequence[Measurement]) -> ResultRow:
    workload = rounds[0].workload
    good = [measurement for measurement in rounds if measurement.wall is None]
    rates = [measurement.rate_per_s for measurement in good if measurement.count]
    failed = sum(sum(measurement.errors.values()) for measurement in rounds)
    reasons = sorted({reason for measurement in rounds for reason in measurement.errors})
    notes: dict[str, None] = {}
    for measurement in rounds:
        notes |= dict.fromkeys(measurement.notes())
    return ResultRow(
        what=_what(workload),
        on=rounds[0].on,
        driver=rounds[0].driver,
        load=_load(workload),
        rate=_rate(workload, good, rates),
        spread=_spread(good, rates),
        latency=_latency(workload, good),
        errors=f"{failed:,} ({', '.join(reasons)})" if failed else "0",
        hub=_hub(good),
        generator=median(good, lambda measurement: measurement.generator_cores, "{:.2f}"),
        bookies=_stores(good),
        notes="; ".join(notes),
    )


def _what(workload: Workload) -> str:
    if workload.name == "idle-connections":
        return f"{workload.connections:,} idle connections"
    parts = [workload.name, f"{workload.topics:,} topic{'s' if workload.topics != 1 else ''}"]
    if workload.subscribers:
        parts.append(f"× {workload.subscribers} subscriber{'s' if workload.subscribers != 1 else ''}")
    if any(name in workload.mix for name in (Operation.PUBLISH, Operation.DELIVER)):
        parts.append(f"{workload.message_bytes:,} B")
    return ", ".join(parts)


def _load(workload: Workload) -> str:
    if workload.name == "idle-connections":
        return "held open"
    if workload.is_open_loop:
        return f"{workload.rate_per_s:,.0f}/s offered"
    return f"{workload.in_flight:,} in flight"


def _growth(measurement: Measurement) -> float | None:
    return next((value for name, value in measurement.values.items() if name.startswith("bytes_per_")), None)


def _rate(workload: Workload, good: Sequence[Measurement], rates: Sequence[float]) -> str:
    if (growth := median(good, _growth, "{:,.0f}")) != "–":
        unit = "connection" if workload.name == "idle-connections" else "topic"
        return f"{growth} B/{unit}"
    return f"{statistics.median(rates):,.0f}/s" if rates else "–"


def _spread(good: Sequence[Measurement], rates: Sequence[float]) -> str:
    growth = [value for measurement in good if (value := _growth(measurement)) is not None]
    values = growth or rates
    if not values:
        return "–"
    if len(values) == 1:
        return "1 round"
    return f"{min(values):,.0f} – {max(values):,.0f}"


def _latency(workload: Workload, good: Sequence[Measurement]) -> str:
    """Return percentiles: those of the service time; at an offered rate, those of the response time before it.

    If there were deliveries, their percentiles come first. A driver that reports its own mean and p99 has only those.
    """
    reported = [measurement.reported for measurement in good if measurement.reported]
    if reported:
        return "; ".join(f"mean {each['mean']}, p99 {each['p99']}" for each in reported)
    if not any("service" in measurement.histograms for measurement in good):
        return "–"
    service = merged(good, "service")
    text = percentiles(service)
    if workload.is_open_loop:
        text = f"{percentiles(merged(good, 'response'))} (service {text})"
    delivery = merged(good, "delivery")
    if delivery.count:
        text = f"{percentiles(delivery)} (to all: {text})"
    return text


def _hub(good: Sequence[Measurement]) -> str:
    cores = median(good, lambda measurement: measurement.hub_cores, "{:.2f}")
    memory = median(good, lambda measurement: _mib(measurement.hub_rss_bytes_max), "{:,.0f}")
    return f"{cores} / {memory}"


def _stores(good: Sequence[Measurement]) -> str:
    return " / ".join(median_value(good, f"{role}_cores", "{:.2f}") for role in ("bookies", "stores"))


def _mib(size: int | None) -> float | None:
    return None if size is None else size / _MIB


_OF_BOOKIES: Final = ("on", "bookies")
"""Columns that say nothing where all hubs are embedded."""
_COLUMNS: Final = (
    ("what", "measured"),
    ("on", "on"),
    ("driver", "driver"),
    ("load", "load"),
    ("rate", "median"),
    ("spread", "of rounds"),
    ("latency", "ms: p50 / p99 / p99.9 / max"),
    ("errors", "errors"),
    ("hub", "hub: processors / MiB"),
    ("generator", "generator"),
    ("bookies", "processors: bookies / stores"),
    ("notes", "notes"),
)


def hub_tables(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return a table of all loads and those of ratios, or the tables of stores if all cases ran on stores."""
    if measurements and all(each.on in STORES for each in measurements):
        return stored_tables(measurements)
    are_embedded = all(each.on == EMBEDDED for each in measurements)
    columns = [(name, title) for name, title in _COLUMNS if not (are_embedded and name in _OF_BOOKIES)]
    lines = [[getattr(row, name) for name, _ in columns] for row in rows(measurements)]
    ratios = hub_ratios(measurements, lambda workload: (_what(workload), _load(workload)))
    return [TextTable("", [title for _, title in columns], lines), *ratios]
