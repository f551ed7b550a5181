"""A case, the unit of measurement: a workload, by a driver, on a kind of hub or store."""

from dataclasses import dataclass
from typing import Final

from hedwig.benchmarks.load.workloads import Workload

__all__ = ["EMBEDDED", "Case"]

EMBEDDED: Final = "embedded"
"""A standalone hub on the embedded store: the default of measurements."""


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, the name of the driver that runs it, and the kind of hub and stores that it needs."""

    workload: Workload
    driver: str
    on: str = EMBEDDED
