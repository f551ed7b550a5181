"""The interface of every ledger store. Hubs reach messages on disk only through it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = ["InDoubt", "LedgerStore", "LedgerStoreStats", "LogCounters"]

InDoubt: TypeAlias = Callable[[int, int], None]
"""Receives the id of a ledger that may have been made, and the token of the attempt to make it."""


@dataclass(slots=True)
class LogCounters:
    """What a store has done with shared logs since it was opened. The numbers only grow.

    A roll lasts from the moment in which the log sends no more batches until it goes on in its next segment.
    """

    batches: int = 0
    records: int = 0
    batch_bytes: int = 0
    read_batches: int = 0
    read_batch_bytes: int = 0
    rolls: int = 0
    roll_s: float = 0.0
    recoveries: int = 0
    recovery_s: float = 0.0
    merged_segments: int = 0
    merged_bytes: int = 0
    dead_segments: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStoreStats:
    """What a store holds at this moment.

    `live_bytes` is what a rewrite would keep, as last counted. `damage_count` counts the unreadable locations.
    `is_full` says that no ledger can be made now. A value is None if the store would have to ask a server for it. `log`
    is None if the store knows no shared logs.
    """

    ledgers: int | None
    open_ledgers: int
    segments: int | None
    stored_bytes: int | None
    live_bytes: int | None
    queued_bytes: int
    damage_count: int | None
    is_full: bool
    log: LogCounters | None = None


class LedgerStore(Protocol):
    """Append-only ledgers with one writer each; entry ids are 0, 1, 2 ... without gap.

    A ledger is open for append only in the process that made it, until it is closed, fenced or deleted. It never opens
    again. No operation has a deadline of its own; a caller that cannot wait for a slow disk uses `asyncio.timeout`. A
    cancelled append, close or delete has an unknown outcome, and leaves the store usable.
    """

    async def create(self, about: Mapping[str, bytes] | None = None, in_doubt: InDoubt | None = None) -> int:
        """Return the id of a new ledger, open for append by this process. An id is never given twice.

        `about` is for people and tools that look at ledgers from outside; a store may leave it out. If this call fails
        or is cancelled but may have made a ledger, it calls `in_doubt` once before it raises. `undo` deletes that
        ledger.

        Raises: LedgerStoreUnavailableError - no caller receives the id of a ledger that this call may have made.
        """
        ...

    async def undo(self, ledger_id: int, token: int) -> None:
        """Delete a ledger that a `create` in doubt may have made.

        It is no error if there is no such ledger, or if another `create` made it. Afterwards that `create` in doubt can
        no longer make a ledger. Any store of the same ledgers can do this. May be repeated.

        Raises: LedgerStoreUnavailableError - the outcome is unknown, so repeat it.
        """
        ...

    async def open_and_fence(self, ledger_id: int) -> int:
        """Take the ledger over: shut its writer out, seal it, and return its last entry id, -1 for an empty one.

        From then on no process can append to it, and the answer never changes. May be repeated.

        Raises: NoSuchLedgerError - it does not exist; LedgerStoreUnavailableError - the writer is shut out all the
            same, so repeat it to learn the last entry id.
        """
        ...

    def start_append(self, ledger_id: int, entry_id: int, payload: bytes) -> "asyncio.Future[None]":
        """Begin an `append` and return its future; for callers that have more appends than tasks.

        The future carries the errors of `append`. Cancelling the future cancels the append.
        """
        ...

    async def append(self, ledger_id: int, entry_id: int, payload: bytes) -> None:
        """Append the entry; return once it survives a crash of the process and of the machine.

        Calls may overlap. They take effect in the order in which they began; the store acknowledges them in that order
        per ledger. If one fails, the later ones on that ledger fail too. The caller then appends the first that failed
        next.

        Raises: EntryOrderError - `entry_id` is not the next one; LedgerFencedError - taken over, or never open here;
            LedgerClosedError - sealed; NoSuchLedgerError - it does not exist; InvalidArgumentError - the payload is too
            large; LedgerStoreFullError - surely not stored, may be tried again; LedgerWriteError - unknown whether
            stored.
        """
        ...

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        """Return the payloads of acknowledged entries from `first_entry_id` on, without gap.

        The list has at most `entries_max` payloads, and at most `bytes_max` bytes unless its first payload is larger.
        It may be shorter: a damaged entry behind the first ends it. It is empty only behind the last entry.

        Raises: NoSuchLedgerError - it does not exist; CorruptEntryError - the first entry is damaged.
        """
        ...

    async def bytes_from(self, ledger_id: int, first_entry_id: int, *, enough: int) -> int:
        """Return how many bytes the payloads of the acknowledged entries from `first_entry_id` on have together.

        It may stop beyond `enough`. A damaged entry may count or not.

        Raises: NoSuchLedgerError - it does not exist; LedgerStoreUnavailableError; CorruptEntryError - too many entries
            are damaged.
        """
        ...

    async def last_entry_id(self, ledger_id: int) -> int:
        """Return the id of the last acknowledged entry, -1 for none. Raises: NoSuchLedgerError."""
        ...

    async def close(self, ledger_id: int) -> int:
        """Seal the ledger after the appends in progress, and return its last entry id. May be repeated.

        Raises: as `open_and_fence`; nothing can be appended afterwards in any case.
        """
        ...

    def let_go(self, ledger_id: int) -> None:
        """Stop appending to a ledger that was made here, and drop its state. One that is not open here is fine.

        The ledger stays as it is, for the hub that takes it over. The outcome of appends in progress is uncertain.
        """
        ...

    def is_spread(self, ledger_id: int) -> bool:
        """Say whether so many parts of the store hold the entries of a ledger that another one should follow it."""
        ...

    def is_settled(self, ledger_ids: Collection[int]) -> bool:
        """Say whether any process could read all entries of these ledgers now, after `open_and_fence` if it must."""
        ...

    async def settle(self, ledger_ids: Collection[int]) -> None:
        """Return once `is_settled` holds for these ledgers, none of which is open for append here.

        Raises: LedgerStoreUnavailableError; LedgerFencedError - another process does it instead of this one.
        """
        ...

    async def delete(self, ledger_id: int) -> None:
        """Remove the ledger for good; one that does not exist is fine. The store frees its space later.

        Raises: LedgerStoreUnavailableError.
        """
        ...

    def ledgers(self) -> AsyncIterator[int]:
        """Yield the ids of all ledgers, ascending. One that is made or deleted meanwhile may be included or not.

        A store may leave out a ledger without entries that is not open here. It may include a deleted one until it has
        freed its space.
        """
        ...

    async def stats(self) -> LedgerStoreStats:
        """Return what the store holds."""
        ...

    async def aclose(self) -> None:
        """Finish the operations in progress, refuse those that wait, release all resources. May be called twice."""
        ...
