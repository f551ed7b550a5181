"""Measure a hub that may end during the measurement."""

from collections.abc import Callable

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.suites.hub.process import AnyHub

__all__ = ["watched"]


def watched(hub: AnyHub, measure: Callable[[], Measurement]) -> Measurement:
    """Run `measure`. If the hub ends meanwhile, the wall says so, with the last line of its log.

    Raises: BenchmarkError - `measure` failed. If the hub ended, the error says that.
    """
    try:
        measurement = measure()
    except BenchmarkError:
        if hub.is_running:
            raise
        raise BenchmarkError(f"the hub ended while it was measured: {hub.last_words()}") from None
    if not hub.is_running:
        measurement.wall = f"the hub ended while it was measured: {hub.last_words()}"
    return measurement
