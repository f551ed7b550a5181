"""Recorded results of small runs, on which reports and comparisons are tested."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hedwig.benchmarks.runs.results import Measurement, Result
from tests.support.checkout import CHECKOUT

__all__ = ["COMMITTED", "OUT_OF_TIME", "THREE_BACKENDS", "changed", "three_backends", "wall"]

_RECORDED: Final = Path(__file__).with_name("recorded")
THREE_BACKENDS: Final = _RECORDED / "three-backends.json"
"""SQLite, ZooKeeper and HBase, 300 and 3,000 topics, three rounds of a few workloads; ended by Ctrl-C."""
OUT_OF_TIME: Final = _RECORDED / "sqlite-out-of-time.json"
"""SQLite alone, 20 topics; 20,000 could not be made in a second."""
COMMITTED: Final = CHECKOUT / "benchmarks" / "results"


def three_backends() -> Result:
    """Return the result with three backends, read anew."""
    return Result.read(THREE_BACKENDS)


def changed(path: Path, into: Path, change: Callable[[Measurement], Measurement | None]) -> Path:
    """Write a result again with changed measurements. If `change` returns None, the measurement is left out."""
    result = Result.read(path)
    measurements = [change(each) for each in result.measurements]
    result.measurements = [each for each in measurements if each is not None]
    result.write(into)
    return into


def wall(measurement: Measurement, why: str) -> Measurement:
    """Return a measurement that met a wall at once."""
    return Measurement(
        workload=measurement.workload,
        driver=measurement.driver,
        round=measurement.round,
        on=measurement.on,
        wall=why,
    )
