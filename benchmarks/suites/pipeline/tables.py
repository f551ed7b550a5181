"""The table of `hedwig-bench pipeline`: how long each step took, and how much memory it held."""

from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.runs.cells import median, spread
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.suites.pipeline.steps import ROW_BY_ROW

__all__ = ["pipeline_tables"]

_COLUMNS: Final = ("step", "store", "rows", "seconds", "of rounds", "rows/s", "× row by row", "peak MiB", "notes")
_MIB: Final = 1 << 20


def pipeline_tables(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return the one table."""
    lines = [_line(rounds, _row_by_row_per_s(measurements, rounds[0].on)) for rounds in alike(measurements)]
    return [TextTable("", _COLUMNS, lines)] if lines else []


def _row_by_row_per_s(measurements: Sequence[Measurement], on: str) -> float | None:
    """Return the mean rate of the row-by-row writer on a backend, or None if it did not run there."""
    measured = [
        each for each in measurements if each.workload.name == ROW_BY_ROW and each.on == on and each.wall is None
    ]
    return sum(each.rate_per_s for each in measured) / len(measured) if measured else None


def _line(rounds: Sequence[Measurement], slow_per_s: float | None) -> list[str]:
    good = [each for each in rounds if each.wall is None]
    walls = dict.fromkeys(each.wall for each in rounds if each.wall is not None)
    peaks = [each.values["bytes_max"] / _MIB for each in good if "bytes_max" in each.values]
    is_compared = slow_per_s is not None and rounds[0].workload.name in ("load", "restore")
    return [
        rounds[0].workload.name,
        rounds[0].on,
        median(good, lambda each: each.count, "{:,.0f}"),
        median(good, lambda each: each.seconds, "{:,.1f}"),
        spread([each.seconds for each in good], "{:,.1f}"),
        median(good, lambda each: each.rate_per_s, "{:,.0f}"),
        median(good, lambda each: each.rate_per_s / (slow_per_s or 1), "{:,.1f}") if is_compared else "–",
        f"{max(peaks):,.0f}" if peaks else "–",
        "; ".join(walls),
    ]
