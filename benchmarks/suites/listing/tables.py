"""The tables of `hedwig-bench listing`: how long commands over whole stores took, and how much memory they held."""

from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.runs.cells import median, median_value, spread
from hedwig.benchmarks.runs.figures import SIZES, Figure, less
from hedwig.benchmarks.runs.results import Measurement, alike

__all__ = ["listing_figures", "listing_tables"]

_COLUMNS: Final = (
    "command",
    "seconds",
    "of rounds",
    "topics/s",
    "its processor time, s",
    "peak resident MiB",
    "output, MB",
    "notes",
)
_MIB: Final = 1 << 20


def listing_tables(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return a table for each store."""
    stores = dict.fromkeys((each.on, each.workload.topics) for each in measurements)
    tables: list[TextTable] = []
    for on, topics in stores:
        own = [each for each in measurements if (each.on, each.workload.topics) == (on, topics)]
        tables.append(TextTable(f"{on}: {topics:,} topics", _COLUMNS, [_line(rounds) for rounds in alike(own)]))
    return tables


def _line(rounds: Sequence[Measurement]) -> list[str]:
    good = [each for each in rounds if each.wall is None]
    walls = dict.fromkeys(each.wall for each in rounds if each.wall is not None)
    # If all rounds met a wall, show the time and memory of those that ran to their end.
    ran = good or [each for each in rounds if each.values]
    peaks = [each.values["rss_bytes_max"] / _MIB for each in ran]
    return [
        rounds[0].workload.name,
        median(ran, lambda each: each.seconds, "{:,.1f}"),
        spread([each.seconds for each in good], "{:,.1f}"),
        median(good, lambda each: each.rate_per_s, "{:,.0f}"),
        median_value(ran, "cpu_s", "{:,.1f}"),
        f"{max(peaks):,.0f}" if peaks else "–",
        median(good, lambda each: each.values["output_bytes"] / 1e6, "{:,.1f}"),
        "; ".join(walls),
    ]


def listing_figures(measured: Sequence[Measurement]) -> list[Figure]:
    """Return how long a command took, and how much memory it held."""
    memory = less("peak MiB", measured, lambda each: each.values["rss_bytes_max"] / _MIB, "{:,.0f}", SIZES)
    return [less("s", measured, lambda each: each.seconds, "{:,.1f}"), memory]
