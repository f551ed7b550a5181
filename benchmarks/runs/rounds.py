"""Rounds of one case: which of them count, and what they come to together."""

from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.runs.results import Measurement
from hedwig.histograms import Histogram

__all__ = ["failed_share", "good", "is_enough", "is_reached", "merged"]

_BEYOND_MIN: Final = 10


def good(rounds: Sequence[Measurement]) -> list[Measurement]:
    """Return the rounds that met no wall, and in which something was finished."""
    return [each for each in rounds if each.wall is None and each.count]


def failed_share(rounds: Sequence[Measurement]) -> float:
    """Return which share of all operations failed for good; 0 where what failed was tried again until it was done."""
    failed = sum(each.failed for each in rounds if not each.are_failures_repeated)
    return failed / (failed + sum(each.operations for each in rounds)) if failed else 0.0


def is_reached(rounds: Sequence[Measurement]) -> bool:
    """Say whether an offered load was kept up in all rounds; a closed loop offers none."""
    return all(each.is_offered_load_reached is not False for each in rounds)


def is_enough(operations: int, percentile: float) -> bool:
    """Say whether so many operations tell a percentile: ten of them lie beyond it, 1,000 for p99, 10,000 for p99.9."""
    return operations * (100 - percentile) >= 100 * _BEYOND_MIN - 1e-6


def merged(rounds: Sequence[Measurement], name: str) -> Histogram:
    """Return one of the histograms, of all rounds together."""
    return Histogram.merged(each.histograms[name] for each in rounds if name in each.histograms)
