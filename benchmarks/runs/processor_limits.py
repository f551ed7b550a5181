"""Processors that a side of a comparison kept busy, and whether these, not its store, may have been its limit."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from hedwig.benchmarks.runs.results import Measurement

__all__ = ["LIMIT_UNKNOWN", "Processors"]

LIMIT_UNKNOWN: Final = "not known whether the client was the limit"
"""A limit as good as any other: what might have been one decides nothing."""
_CLIENT_MAX: Final = 0.8
"""Of a processor: a client has one thread, and what waits for it queues before it is busy all the time."""
_MACHINE_MAX: Final = 0.9
_EMBEDDED: Final = frozenset({"sqlite"})
"""Stores without servers: the client is the store."""


@dataclass(frozen=True, slots=True)
class Processors:
    """Processors kept busy, medians of the rounds; None where nobody knows, be it of one round.

    has_servers: else `servers` is None as well.
    """

    client: float | None
    servers: float | None
    clients: int = 1
    has_servers: bool = True

    @classmethod
    def of(cls, rounds: Sequence[Measurement]) -> Self:
        """Return what a side used in its rounds."""
        return cls(
            _median([each.generator_cores for each in rounds]),
            _median([_of_servers(each) for each in rounds]),
            max((each.generator_processes for each in rounds), default=1),
            has_servers=not any(each.driver in _EMBEDDED for each in rounds),
        )

    def limit(self, cpus: int | None) -> str | None:
        """Return why a side may be held back by something else than its store, on a machine with `cpus` processors."""
        found = []
        if self.has_servers and self.client is not None and self.client > _CLIENT_MAX * self.clients:
            found.append("the client may be the limit")
        if cpus and sum(used or 0.0 for used in (self.client, self.servers)) > _MACHINE_MAX * cpus:
            found.append("the machine was full")
        if not found and (self.client is None or (self.has_servers and self.servers is None)):
            found.append(LIMIT_UNKNOWN)
        return " and ".join(found) or None

    def text(self) -> str:
        """Return both, in a word."""
        shown = ("–" if value is None else f"{value:.2f}" for value in (self.client, self.servers))
        return " / ".join(shown)


def _of_servers(measurement: Measurement) -> float | None:
    """Return what servers used. Of results from before it was read at both ends of a window, 0 is "not known"."""
    used = measurement.values.get("servers_cpu_s")
    return used / measurement.seconds if used and measurement.seconds else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None
