"""What all ledgers of a client share: its options, bookies and metadata, and the bookies that it suspects."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Final

from hedwig.errors import ConfigurationError
from hedwig.hub.ledgers.bookkeeper.bookies.bookies import BookieRegistry, Bookies
from hedwig.hub.ledgers.bookkeeper.records.metadata_store import LedgerMetadataStore

__all__ = ["BookieCluster", "BookieClusterOptions", "Suspects"]

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieClusterOptions:
    """The deadlines and bounds of a client.

    An append may wait `append_timeout_s` for its quorum, changes of the ensemble included. Then the writer gives the
    ledger up, and the outcome of its appends in progress is uncertain. For `suspicion_s`, new ensembles avoid a bookie
    that failed. A writer without a spare bookie looks for one every `spare_retry_s`.

    After `tell_lac_after_s` without a new entry, a writer tells bookies its last add confirmed. Otherwise only the next
    entry carries it. This is for clients that read a ledger that is open elsewhere. It costs one request to each bookie
    of the ledger; 0: never.
    """

    add_timeout_s: float = 5.0
    read_timeout_s: float = 5.0
    append_timeout_s: float = 30.0
    speculative_read_s: float = 2.0
    suspicion_s: float = 30.0
    spare_retry_s: float = 1.0
    busy_pause_s: float = 0.05
    pending_bytes_max: int = 64 * _MIB
    read_ahead: int = 32
    tell_lac_after_s: float = 0.0

    def __post_init__(self) -> None:
        for name in (
            "add_timeout_s",
            "read_timeout_s",
            "append_timeout_s",
            "speculative_read_s",
            "suspicion_s",
            "spare_retry_s",
            "busy_pause_s",
            "pending_bytes_max",
            "read_ahead",
        ):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"bookkeeper: {name} is {getattr(self, name)}; it must be above 0")
        if not self.tell_lac_after_s >= 0:
            raise ConfigurationError(f"bookkeeper: tell_lac_after_s is {self.tell_lac_after_s}; it must be 0 or above")


class Suspects:
    """Bookies that failed lately. The registry does not tell: a dead one stays registered until its session ends."""

    def __init__(self, suspicion_s: float) -> None:
        self._suspicion_s = suspicion_s
        self._until: dict[str, float] = {}
        self._loop = asyncio.get_running_loop()

    def add(self, bookie: str) -> None:
        self._until[bookie] = self._loop.time() + self._suspicion_s

    def current(self) -> Collection[str]:
        now = self._loop.time()
        for bookie in [bookie for bookie, until in self._until.items() if until <= now]:
            del self._until[bookie]
        return self._until.keys()


class BookieCluster:
    """What every ledger of one client uses. For one event loop."""

    def __init__(
        self,
        bookies: Bookies,
        registry: BookieRegistry,
        metadata: LedgerMetadataStore,
        options: BookieClusterOptions,
        random: Random,
    ) -> None:
        self.bookies = bookies
        self.registry = registry
        self.metadata = metadata
        self.options = options
        self.random = random
        self.suspects = Suspects(options.suspicion_s)
        self.pending_bytes = 0
        """The bytes of all entries that writers have accepted and not acknowledged."""
