"""What is measured at once: a workload, by a driver, on a kind of hub or store."""

from dataclasses import dataclass
from typing import Final

from hedwig.benchmarks.load.workloads import Workload

__all__ = ["EMBEDDED", "Case"]

EMBEDDED: Final = "embedded"
"""A standalone hub on the embedded store, on which measurements are unless they say otherwise."""


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, the name of the driver that carries it out, and what kind of hub and stores it is for."""

    workload: Workload
    driver: str
    on: str = EMBEDDED
