"""What a ledger store does, wherever it keeps the ledgers: the only door to messages on disk."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = ["InDoubt", "LedgerStore", "LedgerStoreStats"]

InDoubt: TypeAlias = Callable[[int, int], None]
"""Takes the id of a ledger that may have been made, and the token by which it was to be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStoreStats:
    """What a store holds at this moment.

    `live_bytes` is what rewriting would keep, as it was last counted; `damaged_places` counts unreadable places met;
    `is_full` says that no new ledger can be made now. None is what a store would have to ask others for.
    """

    ledgers: int | None
    open_ledgers: int
    segments: int | None
    stored_bytes: int | None
    live_bytes: int | None
    queued_bytes: int
    damaged_places: int | None
    is_full: bool


class LedgerStore(Protocol):
    """Append-only ledgers with one writer each; entry ids are 0, 1, 2 ... without gap.

    A ledger is open for append in the process that made it, until it is closed, fenced or deleted; never again after
    that. No operation has a deadline of its own: a caller that cannot wait for a slow disk uses `asyncio.timeout`. A
    cancelled append, close or delete has an unknown outcome, and leaves the store usable.
    """

    async def create(self, about: Mapping[str, bytes] | None = None, in_doubt: InDoubt | None = None) -> int:
        """Return the id of a new ledger, open for append by this process. An id is never given twice.

        `about` is for people and tools that look at ledgers from outside; a store may leave it out. If this fails or is
        cancelled, and a ledger may have been made all the same, `in_doubt` is called once before: `undo` deletes it.

        Raises: LedgerStoreUnavailableError - nothing was made that anybody will be given.
        """
        ...

    async def undo(self, ledger_id: int, token: int) -> None:
        """Delete a ledger that a `create` in doubt may have made; one that is another's, or none, is fine.

        None can come of that `create` afterwards. Any store of the same ledgers may be asked; this may be repeated.

        Raises: LedgerStoreUnavailableError - it is not known; repeat it.
        """
        ...

    async def open_and_fence(self, ledger_id: int) -> int:
        """Take the ledger over: shut its writer out, seal it, and return its last entry id, -1 for an empty one.

        From then on nobody appends to it, and the answer never changes. May be repeated.

        Raises: NoSuchLedgerError; LedgerStoreUnavailableError - the writer is shut out all the same; repeat it to learn
            the last entry id.
        """
        ...

    def start_append(self, ledger_id: int, entry_id: int, payload: bytes) -> "asyncio.Future[None]":
        """Begin what `append` does, and return its outcome to come; for callers with more appends than tasks.

        The future carries the errors of `append`; cancelling it is cancelling the append.
        """
        ...

    async def append(self, ledger_id: int, entry_id: int, payload: bytes) -> None:
        """Append the entry; return once it survives a crash of the process and of the machine.

        Calls may overlap: they take effect in the order in which they began, and are acknowledged in that order per
        ledger. If one fails, those behind it on the ledger fail too, and the first that failed is the next to append.

        Raises: EntryOrderError - `entry_id` is not the next one; LedgerFencedError - taken over, or never open here;
            LedgerClosedError - sealed; NoSuchLedgerError; InvalidArgumentError - the payload is too large;
            LedgerStoreFullError - surely not stored, may be tried again; LedgerWriteError - not known whether stored.
        """
        ...

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        """Return the payloads of acknowledged entries from `first_entry_id` on, without gap.

        At most `entries_max` and, from the second on, `bytes_max`; maybe fewer. Empty only behind the last entry.

        Raises: NoSuchLedgerError; CorruptEntryError - the first one is damaged; one behind it ends the answer.
        """
        ...

    async def last_entry_id(self, ledger_id: int) -> int:
        """Return the id of the last acknowledged entry, -1 for none. Raises: NoSuchLedgerError."""
        ...

    async def close(self, ledger_id: int) -> int:
        """Seal the ledger after the appends at hand, and return its last entry id. May be repeated.

        Raises: as `open_and_fence`; nothing can be appended afterwards in any case.
        """
        ...

    def let_go(self, ledger_id: int) -> None:
        """Append no more to a ledger that was made here, and keep nothing of it; one that is not open here is fine.

        It is left as it is, for whoever takes it over; what is at hand is uncertain.
        """
        ...

    async def delete(self, ledger_id: int) -> None:
        """Remove the ledger, for good; one that does not exist is fine. Its space is given back later.

        Raises: LedgerStoreUnavailableError.
        """
        ...

    def ledgers(self) -> AsyncIterator[int]:
        """Yield the ids of all ledgers, ascending; those made or deleted meanwhile may be among them or not."""
        ...

    async def stats(self) -> LedgerStoreStats:
        """Return what the store holds."""
        ...

    async def aclose(self) -> None:
        """Finish what was begun, refuse what waits, and let go of everything. May be called twice."""
        ...
