"""The clock by which a hub counts its own right to serve."""

import time
from typing import Final

__all__ = ["boot_time_s"]

_BOOT_TIME: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Without CLOCK_BOOTTIME, a hub does not notice that its machine sleeps, so it must not run on such a machine."""


def boot_time_s() -> float:
    """Return the seconds since the start of the machine, including those that it slept."""
    return time.clock_gettime(_BOOT_TIME)
