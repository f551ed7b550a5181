"""Whether logs were forced: how often the disk was flushed under loads that change something, and that only read."""

import statistics
from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import Table
from hedwig.benchmarks.machine.disk_flushes import FLUSHES
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.rounds import good
from hedwig.benchmarks.runs.words import count, driver_title, load_words

__all__ = ["flush_tables"]

_SEES_ALL: Final = 0.9
"""A disk that counts fewer flushes than this for each synced append proves nothing."""
_COLUMNS: Final = ("durability", "measured", "on", "operations/s", "flushes of the disk/s", "for each operation")


def flush_tables(result: Result) -> list[Table]:
    """Return what the disk was told under the loads that offer a rate; none if that was not, or cannot be, counted.

    Changes that come at the same moment share a flush; a log that is forced cannot do without one.
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
    return [Table(f"{seen:.2f} flushes for each append that was synced before the run", _COLUMNS, lines)]


def _for_each(group: Sequence[Measurement]) -> float:
    """Return how many flushes there were for each operation that was finished."""
    return sum(each.values[FLUSHES] * each.seconds for each in group) / sum(each.count for each in group)


def _name(measurement: Measurement) -> str:
    return f"{measurement.workload.name}, {load_words(measurement.workload)}"


def _distinct(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))
