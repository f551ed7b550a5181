"""Rounds with known tails, in which all times together differ from the mean of the rounds."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hedwig.benchmarks.runs.results import Measurement
from hedwig.histograms import Histogram

__all__ = ["CONTRARY", "CONTRARY_OVER_ALL", "EVEN", "LONGER", "LONGER_OVER_ALL", "OF_ROUNDS", "Tails", "timed"]

Tail = Mapping[float, int]
"""The number of operations by their milliseconds; all others take one."""
Tails = Mapping[str, Mapping[int, Tail]]
"""The tails of each side, in each round."""

OF_ROUNDS: Final = 1.25
"""In each round of these, HBase's 99th percentile is better by this factor, and so is any mean of them."""
LONGER: Final[Tails] = {
    "zookeeper": {1: {100: 40}, 2: {10: 20}, 3: {10: 20}},
    "hbase": {1: {80: 20}, 2: {8: 20}, 3: {8: 20}},
}
"""Of 3,000 times, 30 are the slowest per cent. ZooKeeper's longest round holds all of its 30, HBase's does not."""
LONGER_OVER_ALL: Final = 100 / 8
CONTRARY: Final[Tails] = {
    "zookeeper": {1: {100: 20}, 2: {10: 20}, 3: {10: 20}},
    "hbase": {1: {80: 40}, 2: {8: 20}, 3: {8: 20}},
}
"""The same with sides exchanged: over all times ZooKeeper is better."""
CONTRARY_OVER_ALL: Final = 10 / 80
EVEN: Final[Tails] = {
    "zookeeper": {1: {100: 20}, 2: {10: 20}, 3: {10: 20}},
    "hbase": {1: {80: 20, 9.9: 40}, 2: {8: 20}, 3: {8: 20}},
}
"""Over all times HBase is better by one per cent, which is nothing."""


def timed(measurement: Measurement, tail: Tail, operations: int = 1000) -> Measurement:
    """Return a measurement of N times with a known tail, whose offered rate was kept up."""
    times = Histogram()
    times.record(1000, operations - sum(tail.values()))
    for ms, count in tail.items():
        times.record(round(1000 * ms), count)
    done = round(measurement.workload.rate_per_s * measurement.seconds)
    return replace(measurement, count=done, missed=0, histograms={"service": times, "response": times})
