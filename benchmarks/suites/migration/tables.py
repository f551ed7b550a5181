"""The tables of `hedwig-bench migrate`: how long migrations took, their pauses, and how much memory they held."""

from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.runs.cells import median, median_value, spread
from hedwig.benchmarks.runs.results import Measurement, alike

__all__ = ["migration_tables"]

_COLUMNS: Final = (
    "from, to",
    "seconds",
    "of rounds",
    "records/s",
    "longest pause, s",
    "changes/s meanwhile",
    "compared in the pause",
    "its processor time, s",
    "peak resident MiB",
    "notes",
)
_MIB: Final = 1 << 20


def migration_tables(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return a table for each size."""
    sizes = dict.fromkeys((each.workload.topics, each.workload.subscribers) for each in measurements)
    tables: list[TextTable] = []
    for topics, subscribers in sizes:
        own = [
            each for each in measurements if (each.workload.topics, each.workload.subscribers) == (topics, subscribers)
        ]
        title = f"{topics:,} topics × {subscribers}: {topics * (1 + subscribers):,} records"
        tables.append(TextTable(title, _COLUMNS, [_line(rounds) for rounds in alike(own)]))
    return tables


def _line(rounds: Sequence[Measurement]) -> list[str]:
    good = [each for each in rounds if each.wall is None]
    walls = dict.fromkeys(each.wall for each in rounds if each.wall is not None)
    ran = good or [each for each in rounds if each.values]
    peaks = [each.values["rss_bytes_max"] / _MIB for each in ran]
    pauses = [each.values["pause_s"] for each in good]
    return [
        rounds[0].on,
        median(ran, lambda each: each.seconds, "{:,.0f}"),
        spread([each.seconds for each in good], "{:,.0f}"),
        median(good, lambda each: each.rate_per_s, "{:,.0f}"),
        f"{max(pauses):.3f}" if pauses else "–",
        median_value(good, "changes_per_s", "{:,.0f}"),
        median_value(good, "compared_in_pause", "{:,.0f}"),
        median_value(ran, "cpu_s", "{:,.0f}"),
        f"{max(peaks):,.0f}" if peaks else "–",
        "; ".join(walls),
    ]
