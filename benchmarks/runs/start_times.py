"""When measurements began, so that a result shows how long a run took, and how long the gaps between them were."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from hedwig.benchmarks.runs.results import Measurement

__all__ = ["StartTimes"]


class StartTimes:
    """Records when measurements began: by the clock, and in monotonic seconds since this object was made."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic: Final = monotonic
        self._began = monotonic()

    def noted(self, carry_out: Callable[[], Measurement]) -> Measurement:
        """Run a measurement, and record in it when it began."""
        started, started_s = datetime.now(UTC), self._monotonic() - self._began
        measurement = carry_out()
        measurement.started = started.isoformat(timespec="milliseconds")
        measurement.started_s = round(started_s, 3)
        return measurement
