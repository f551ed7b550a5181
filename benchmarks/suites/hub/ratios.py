"""Ratios of measurements side by side: our hub against the original, our other hubs, its ledger client, and znodes."""

from collections.abc import Callable, Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.drivers.drivers import LEDGERS, ZNODES
from hedwig.benchmarks.load.cases import EMBEDDED
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.runs.cas_ratios import percentile_ratio, ratio
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.suites.hub.sizes import CLUSTER, CLUSTER_43, ORIGINAL, SHARED

__all__ = ["hub_ratios"]

_OURS: Final = (CLUSTER_43, CLUSTER, SHARED)
_COLUMNS: Final = ("measured", "load", "driver", "our hub on")


def hub_ratios(measurements: Sequence[Measurement], named: Callable[[Workload], tuple[str, str]]) -> list[TextTable]:
    """Return the tables of ratios: against the original hub, the ledger client alone, and messages as znodes.

    Ratios are taken within rounds. Tables that would be empty are left out.

    Args: named - returns the words for a workload and for its load.
    """
    groups = alike([each for each in measurements if each.wall is None and each.count])
    tables: list[TextTable] = []
    against = [line for group in groups if group[0].on in _OURS and (line := _original_line(group, groups, named))]
    if against:
        tables.append(
            TextTable("our hub ÷ the original", (*_COLUMNS, "rate ÷ original's", "p50 ÷ original's"), against)
        )
    shares = [line for group in groups if group[0].on in _OURS and (line := _ledger_line(group, groups, named))]
    if shares:
        tables.append(TextTable("our hub ÷ the ledger client alone", (*_COLUMNS, "rate ÷ ledger client's"), shares))
    for on, title, short in (
        (CLUSTER, "a ledger for each topic", "per topic's"),
        (EMBEDDED, "the embedded hub", "its"),
    ):
        lines = [line for group in groups if group[0].on == SHARED and (line := _other_line(group, groups, named, on))]
        if lines:
            shown = (*_COLUMNS[:3], f"rate ÷ {short}", f"p50 ÷ {short}", f"p99 ÷ {short}")
            tables.append(TextTable(f"a shared log ÷ {title}", shown, lines))
    znodes = [line for group in groups if group[0].driver != ZNODES and (line := _znodes_line(group, groups, named))]
    if znodes:
        columns = (*_COLUMNS[:3], "rate ÷ znodes'", "p50 ÷ znodes'")
        tables.append(TextTable("our hub ÷ messages as znodes in ZooKeeper alone", columns, znodes))
    return tables


def _znodes_line(
    group: Sequence[Measurement],
    groups: Sequence[Sequence[Measurement]],
    named: Callable[[Workload], tuple[str, str]],
) -> list[str] | None:
    beside = _beside(group, groups, on=group[0].on, driver=ZNODES)
    if not beside:
        return None
    rates = ratio(group, beside, lambda each: each.rate_per_s)
    return [*named(group[0].workload), group[0].driver, rates, percentile_ratio(group, beside, "delivery", 50)]


def _original_line(
    group: Sequence[Measurement],
    groups: Sequence[Sequence[Measurement]],
    named: Callable[[Workload], tuple[str, str]],
) -> list[str] | None:
    if group[0].driver == LEDGERS:
        return None
    beside = _beside(group, groups, on=ORIGINAL, driver=group[0].driver)
    if not beside:
        return None
    return [
        *named(group[0].workload),
        group[0].driver,
        group[0].on,
        ratio(group, beside, lambda each: each.rate_per_s),
        percentile_ratio(group, beside, "service", 50),
    ]


def _other_line(
    group: Sequence[Measurement],
    groups: Sequence[Sequence[Measurement]],
    named: Callable[[Workload], tuple[str, str]],
    on: str,
) -> list[str] | None:
    """Return the line of a group beside the same load on another of our hubs; None if that was not measured."""
    beside = _beside(group, groups, on=on, driver=group[0].driver)
    if not beside:
        return None
    return [
        *named(group[0].workload),
        group[0].driver,
        ratio(group, beside, lambda each: each.rate_per_s),
        percentile_ratio(group, beside, "service", 50),
        percentile_ratio(group, beside, "service", 99),
    ]


def _ledger_line(
    group: Sequence[Measurement],
    groups: Sequence[Sequence[Measurement]],
    named: Callable[[Workload], tuple[str, str]],
) -> list[str] | None:
    # The ledger client is measured once for each kind of bookie.
    bookies = CLUSTER if group[0].on == SHARED else group[0].on
    beside = {} if group[0].driver == LEDGERS else _beside(group, groups, on=bookies, driver=LEDGERS)
    if not beside:
        return None
    rate = ratio(group, beside, lambda each: each.rate_per_s)
    return [*named(group[0].workload), group[0].driver, group[0].on, rate]


def _beside(
    group: Sequence[Measurement], groups: Sequence[Sequence[Measurement]], *, on: str, driver: str
) -> dict[int, Measurement]:
    """Return, by round, the measurements of the same workload on another kind of hub, or by another driver."""
    load = group[0].workload
    for other in groups:
        if other[0].on == on and other[0].driver == driver and other[0].workload == load:
            return {each.round: each for each in other}
    return {}
