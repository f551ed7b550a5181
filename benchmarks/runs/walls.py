"""Walls: where nothing could be measured, why, and whether that says anything about the backend."""

import re
from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.load.workloads import FILL
from hedwig.benchmarks.runs.results import Measurement, failure_words
from hedwig.benchmarks.runs.rounds import good

__all__ = ["ALL_FAILED", "OUR_LIMIT", "wall_kind", "wall_of", "wall_words"]

OUR_LIMIT: Final = "this run's time limit"
"""The kind of walls that a run with more patience would not have met: they do not say which side is better."""
ALL_FAILED: Final = "all failed"
_NOTHING: Final = "nothing was finished in time"
_KINDS: Final = tuple(
    (kind, re.compile(signs, re.IGNORECASE))
    for kind, signs in (
        # The words heap and memory alone are no sign: half of all errors have one of them in their name.
        (
            "memory",
            r"java\.lang\.OutOfMemoryError|GC overhead limit|\bENOMEM\b|Cannot allocate memory|"
            r"insufficient memory for the Java Runtime|its heap is full",
        ),
        ("packet limit", r"packet|jute|too large"),
        ("server ended", r"(\w-\d+|the hub) ended"),
        (
            OUR_LIMIT,
            rf"time for it was over|time was over|{_NOTHING}|topics could be read|not served again within|"
            r"did not say '.*' in time",
        ),
        (ALL_FAILED, r"^all failed: "),
        ("standstill", r"came to a standstill"),
        ("no answer in time", r"timed out|timeout|deadline|did not|longer than"),
    )
)


def wall_kind(why: str) -> str:
    """Return the kind of wall that a reason describes, in a few words."""
    return next((kind for kind, signs in _KINDS if signs.search(why)), "failed")


def wall_words(measurement: Measurement) -> str | None:
    """Return why a measurement has no figure, and how far it got; None if it has one."""
    if measurement.wall is not None:
        if wall_kind(measurement.wall) == OUR_LIMIT and measurement.count and measurement.offered:
            what = "records" if measurement.workload.name == FILL else "operations"
            done = f"{measurement.count:,} of {measurement.offered:,} {what}"
            return f"{measurement.wall}: {done} after {measurement.seconds:,.1f} s"
        return measurement.wall
    if measurement.count:
        return None
    return failure_words([measurement]) or _NOTHING


def wall_of(rounds: Sequence[Measurement]) -> str | None:
    """Return why no round of a case has a figure; None if one has."""
    if good(rounds):
        return None
    walls = [words for each in rounds if each.wall is not None and (words := wall_words(each)) is not None]
    return next(iter(walls), None) or failure_words(rounds) or _NOTHING
