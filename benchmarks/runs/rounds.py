"""Rounds of one case: which of them count, and their joint figures."""

from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.runs.results import Measurement
from hedwig.histograms import Histogram

__all__ = ["failed_share", "good", "is_enough", "is_reached", "merged"]

_BEYOND_MIN: Final = 10


def good(rounds: Sequence[Measurement]) -> list[Measurement]:
    """Return the rounds that met no wall, and in which at least one operation finished."""
    return [each for each in rounds if each.wall is None and each.count]


def failed_share(rounds: Sequence[Measurement]) -> float:
    """Return the share of all operations that failed for good; 0 if failures were repeated until they succeeded."""
    failed = sum(each.failed for each in rounds if not each.are_failures_repeated)
    return failed / (failed + sum(each.operations for each in rounds)) if failed else 0.0


def is_reached(rounds: Sequence[Measurement]) -> bool:
    """Say whether all rounds kept up with the offered load; a closed loop offers none."""
    return all(each.is_offered_load_reached is not False for each in rounds)


def is_enough(operations: int, percentile: float) -> bool:
    """Say whether there are enough operations for a percentile: ten beyond it, so 1,000 for p99, 10,000 for p99.9."""
    return operations * (100 - percentile) >= 100 * _BEYOND_MIN - 1e-6


def merged(rounds: Sequence[Measurement], name: str) -> Histogram:
    """Return the histogram of that name, merged over all rounds."""
    return Histogram.merged(each.histograms[name] for each in rounds if name in each.histograms)
