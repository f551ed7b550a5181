"""When measurements began, so that it can be told from a result how long a run took, and with what in between."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from hedwig.benchmarks.runs.results import Measurement

__all__ = ["StartTimes"]


class StartTimes:
    """Notes when measurements began: by the clock, and in seconds since this was made, which nobody can set back."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic: Final = monotonic
        self._began = monotonic()

    def noted(self, carry_out: Callable[[], Measurement]) -> Measurement:
        """Carry a measurement out, and note in it when that began."""
        started, started_s = datetime.now(UTC), self._monotonic() - self._began
        measurement = carry_out()
        measurement.started = started.isoformat(timespec="milliseconds")
        measurement.started_s = round(started_s, 3)
        return measurement
