"""The clock by which a hub counts its own right to serve."""

import time
from typing import Final

__all__ = ["boot_time_s"]

_BOOT_TIME: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Where there is none, a machine that sleeps is not noticed: a hub does not belong on such a machine."""


def boot_time_s() -> float:
    """Return seconds since the start of the machine, those that it slept included."""
    return time.clock_gettime(_BOOT_TIME)
