"""Processors that a side of a comparison kept busy, and whether these, not its store, may have been its limit."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from benchmarks.results import Measurement

__all__ = ["Processors"]

_CLIENT_MAX: Final = 0.8
"""Of a processor: a client has one thread, and what waits for it queues before it is busy all the time."""
_MACHINE_MAX: Final = 0.9


@dataclass(frozen=True, slots=True)
class Processors:
    """Processors kept busy, medians of the rounds; None where nobody knows. `servers`: None of a store without any."""

    client: float | None
    servers: float | None
    clients: int = 1

    @classmethod
    def of(cls, rounds: Sequence[Measurement]) -> Self:
        """Return what a side used in its rounds."""
        of_clients = [each.generator_cores for each in rounds if each.generator_cores is not None]
        of_servers = [
            each.values["servers_cpu_s"] / each.seconds
            for each in rounds
            if each.seconds and "servers_cpu_s" in each.values
        ]
        return cls(
            statistics.median(of_clients) if of_clients else None,
            statistics.median(of_servers) if of_servers else None,
            max((each.generator_processes for each in rounds), default=1),
        )

    def limit(self, cpus: int | None) -> str | None:
        """Return why a side may be held back by something else than its store, on a machine with `cpus` processors."""
        found = []
        # Of an embedded store the client is the store.
        if self.client is not None and self.servers is not None and self.client > _CLIENT_MAX * self.clients:
            found.append("the client may be the limit")
        if cpus and self.client is not None and self.client + (self.servers or 0.0) > _MACHINE_MAX * cpus:
            found.append("the machine was full")
        return " and ".join(found) or None

    def text(self) -> str:
        """Return both, in a word."""
        shown = ("–" if value is None else f"{value:.2f}" for value in (self.client, self.servers))
        return " / ".join(shown)
