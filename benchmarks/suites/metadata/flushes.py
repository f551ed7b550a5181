"""Whether logs were forced to the disk: how often it was flushed under loads that write and under loads that read."""

import statistics
from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.machine.disk_flushes import FLUSHES
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.rounds import good
from hedwig.benchmarks.runs.words import count, driver_title, load_words

__all__ = ["flush_tables"]

_SEES_ALL: Final = 0.9
"""If a disk counts fewer flushes than this for each synced append, its counts prove nothing."""
_COLUMNS: Final = ("durability", "measured", "on", "operations/s", "flushes of the disk/s", "for each operation")


def flush_tables(result: Result) -> list[TextTable]:
    """Return a table of the disk's flushes under the loads that offer a rate.

    Changes at the same moment can share a flush, but a forced log needs at least one. Returns an empty list if flushes
    were not counted, or cannot be.
    """
    seen = result.environment.get("disk_flushes_per_sync")
    loads = [each for each in good(result.measurements) if each.workload.is_open_loop and FLUSHES in each.values]
    if seen is None or seen < _SEES_ALL or not loads:
        return []
    lines = []
    for durability in _distinct([each.on for each in loads]):
        of_stage = [each for each in loads if each.on == durability]
        for name in _distinct([_name(each) for each in of_stage]):
            for driver in _distinct([each.driver for each in of_stage]):
                if group := [each for each in of_stage if (_name(each), each.driver) == (name, driver)]:
                    rate = statistics.median(each.rate_per_s for each in group)
                    flushes = statistics.median(each.values[FLUSHES] for each in group)
                    shown = [count(rate), count(flushes) if flushes else "0", f"{_for_each(group):.2f}"]
                    lines.append([durability, name, driver_title(driver), *shown])
    return [TextTable(f"{seen:.2f} flushes for each append that was synced before the run", _COLUMNS, lines)]


def _for_each(group: Sequence[Measurement]) -> float:
    """Return the number of flushes for each finished operation."""
    return sum(each.values[FLUSHES] * each.seconds for each in group) / sum(each.count for each in group)


def _name(measurement: Measurement) -> str:
    return f"{measurement.workload.name}, {load_words(measurement.workload)}"


def _distinct(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))
