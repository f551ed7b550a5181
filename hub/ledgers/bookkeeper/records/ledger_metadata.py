"""The metadata of a ledger: which bookies hold which entries, and whether it is open."""

import enum
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums

__all__ = ["Ensemble", "LedgerMetadata", "LedgerState"]


class LedgerState(enum.IntEnum):
    """The states of a ledger, by their numbers in its metadata."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """The bookies that hold the entries from `first_entry_id` on, by position, until the next ensemble begins.

    `unknown` holds the other fields that a newer BookKeeper wrote.
    """

    first_entry_id: int
    bookies: tuple[str, ...]
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMetadata:
    """One ledger's record in ZooKeeper. `length` and `last_entry_id` are valid only once the ledger is closed.

    `digest` and `password` are None where the record lacks them, as in the oldest format. By `creation_token`, a client
    recognises a record that it created. `custom` belongs to the application. `unknown` holds the other fields that a
    newer BookKeeper wrote.
    """

    format_version: int = 3
    quorums: Quorums
    state: LedgerState
    ensembles: tuple[Ensemble, ...]
    length: int = 0
    last_entry_id: int = -1
    digest: DigestKind | None
    password: bytes | None
    created_ms: int | None = None
    custom: Mapping[str, bytes] = field(default_factory=dict)
    creation_token: int | None = None
    unknown: bytes = b""

    @property
    def last_ensemble(self) -> Ensemble:
        return self.ensembles[-1]

    def ensemble_of(self, entry_id: int) -> Ensemble:
        """Return the ensemble that holds an entry."""
        firsts = [ensemble.first_entry_id for ensemble in self.ensembles]
        return self.ensembles[max(0, bisect_right(firsts, entry_id) - 1)]

    def in_recovery(self) -> "LedgerMetadata":
        return replace(self, state=LedgerState.IN_RECOVERY, creation_token=None)

    def closed(self, last_entry_id: int, length: int) -> "LedgerMetadata":
        state = LedgerState.CLOSED
        return replace(self, state=state, last_entry_id=last_entry_id, length=length, creation_token=None)

    def with_ensemble(self, first_entry_id: int, bookies: tuple[str, ...]) -> "LedgerMetadata":
        """Return this with another ensemble from an entry on. That entry is not before the last ensemble's first."""
        last = self.last_ensemble
        assert first_entry_id >= last.first_entry_id, "entries of earlier ensembles are acknowledged"
        kept = self.ensembles[:-1] if last.first_entry_id == first_entry_id else self.ensembles
        ensemble = Ensemble(first_entry_id=first_entry_id, bookies=bookies)
        return replace(self, ensembles=(*kept, ensemble), creation_token=None)
