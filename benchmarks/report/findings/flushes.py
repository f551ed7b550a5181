"""Whether logs were forced: how often the disk was flushed under loads that change something, and that only read."""

import statistics
from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.load.workloads import Operation
from hedwig.benchmarks.machine.disk_flushes import FLUSHES
from hedwig.benchmarks.report.compare.figures import good
from hedwig.benchmarks.report.page import Section, Table
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.words import count, driver_title, load_words

__all__ = ["flush_section"]

_SEES_ALL: Final = 0.9
"""A disk that counts fewer flushes than this for each synced append proves nothing."""
_READING: Final = frozenset({Operation.READ_OWNER, Operation.READ_SUBSCRIPTIONS, Operation.LIST_PAGE})
_COLUMNS: Final = ("durability", "measured", "on", "operations/s", "flushes of the disk/s", "for each operation")


def flush_section(result: Result) -> Section | None:
    """Return what the disk was told under the loads that offer a rate; None if that was not, or cannot be, counted."""
    seen = result.environment.get("disk_flushes_per_sync")
    loads = [each for each in good(result.measurements) if each.workload.is_open_loop and FLUSHES in each.values]
    if seen is None or seen < _SEES_ALL or not loads:
        return None
    lines = []
    for durability in _distinct([each.on for each in loads]):
        of_stage = [each for each in loads if each.on == durability]
        for name in _distinct([_name(each) for each in of_stage]):
            for driver in _distinct([each.driver for each in of_stage]):
                if group := [each for each in of_stage if (_name(each), each.driver) == (name, driver)]:
                    rate = statistics.median(each.rate_per_s for each in group)
                    flushes = statistics.median(each.values[FLUSHES] for each in group)
                    shown = [count(rate), _few(flushes), f"{_for_each(group):.2f}"]
                    lines.append([durability, name, driver_title(driver), *shown])
    says = (
        "The disk counts how often it is told to put what its cache holds on its medium; tried before the run, that "
        f"was {seen:.2f} times for each append that was synced. Changes that come at the same moment share a flush; a "
        "log that is forced cannot do without one. For each change, over all loads that offer a rate: "
        f"{'; '.join(_told(loads))}. The table has medians over all numbers of topics and rounds."
    )
    return Section(
        title="Whether the logs were forced",
        says=[says],
        tables=[Table(title="", columns=_COLUMNS, lines=lines)],
        is_folded=True,
    )


def _told(loads: Sequence[Measurement]) -> list[str]:
    """Return for each durability how many flushes a change came to on each backend, and what there was in reads."""
    told = []
    for durability in _distinct([each.on for each in loads]):
        of_backends = []
        for driver in _distinct([each.driver for each in loads]):
            own = [each for each in loads if (each.on, each.driver) == (durability, driver)]
            if changes := [each for each in own if not _only_reads(each)]:
                of_backends.append(f"{driver_title(driver)} {_for_each(changes):.2f}")
        if of_backends:
            told.append(f"{durability} {', '.join(of_backends)}")
    reads = [each for each in loads if _only_reads(each)]
    return [*told, f"for each read {_for_each(reads):.2f}"] if reads else told


def _for_each(group: Sequence[Measurement]) -> float:
    """Return how many flushes there were for each operation that was finished."""
    return sum(each.values[FLUSHES] * each.seconds for each in group) / sum(each.count for each in group)


def _only_reads(measurement: Measurement) -> bool:
    return all(Operation(name) in _READING for name in measurement.workload.mix)


def _name(measurement: Measurement) -> str:
    return f"{measurement.workload.name}, {load_words(measurement.workload)}"


def _few(value: float) -> str:
    return count(value) if value else "0"


def _distinct(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))
