"""What the ledger operations need of the store of ledger metadata, and the loop with which all of them change it."""

from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

from hedwig.errors import BadVersionError, LedgerStoreUnavailableError, LedgerWriteError
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata
from hedwig.versions import Version, Versioned

__all__ = ["Change", "LedgerMetadataStore", "update"]

_ROUNDS_MAX: Final = 16


class LedgerMetadataStore(Protocol):
    """The metadata of all ledgers, changed by compare-and-set alone. Every operation has a deadline of its own.

    All raise: LedgerStoreUnavailableError - surely without effect; LedgerWriteError - a write, sent and not answered;
    CorruptRecordError - a record is no ledger metadata.
    """

    async def new_ledger_id(self) -> int:
        """Return an id that was never given before."""
        ...

    async def create(self, ledger_id: int, metadata: LedgerMetadata) -> Version | None:
        """Record a new ledger, and return the version; None if the id is taken by another.

        A record with the same creation token counts as this one: an attempt whose answer was lost wrote it.
        """
        ...

    async def read(self, ledger_id: int) -> Versioned[LedgerMetadata]:
        """Return the record as of now. Raises: NoSuchLedgerError."""
        ...

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: Version) -> Version:
        """Replace the record that has this version. Raises: BadVersionError - it has another; NoSuchLedgerError."""
        ...

    async def delete(self, ledger_id: int) -> None:
        """Remove the record; one that does not exist is fine."""
        ...

    async def delete_at(self, ledger_id: int, version: Version) -> bool:
        """Remove the record if it still has this version; return whether there is none now."""
        ...

    def ledgers(self) -> AsyncIterator[int]:
        """Yield the ids of all ledgers, ascending."""
        ...


Change = Callable[[LedgerMetadata], LedgerMetadata | None]
"""Returns the record as it should be; None if it is so already. It raises if the change is no longer wanted."""


async def update(
    store: LedgerMetadataStore, ledger_id: int, held: Versioned[LedgerMetadata], change: Change
) -> Versioned[LedgerMetadata]:
    """Apply a change by compare-and-set, and return the record as it is then.

    `change` gets `held` at first. After every refusal and every lost answer, it gets the record that is stored then.

    It also raises what `change` raises.

    Raises: NoSuchLedgerError - it does not exist; LedgerStoreUnavailableError - surely not done; LedgerWriteError - it
        may have been done, or may still be.
    """
    lost: LedgerWriteError | None = None
    for _ in range(_ROUNDS_MAX):
        wanted = change(held.value)
        if wanted is None:
            return held
        try:
            return Versioned(wanted, await store.write(ledger_id, wanted, held.version))
        except BadVersionError:
            # A lost write of ours may have changed the version. The stored record tells.
            pass
        except LedgerWriteError as exc:
            lost = exc
        try:
            stored = await store.read(ledger_id)
        except LedgerStoreUnavailableError as exc:
            if lost is not None:
                raise LedgerWriteError(f"{lost}; and {exc}") from exc
            raise
        if stored.version != held.version:
            # The version that a lost write was to replace is gone. So the write shows in what was read, or it will
            # never happen.
            lost = None
        held = stored
    if lost is not None:
        raise LedgerWriteError(f"the metadata of ledger {ledger_id} could not be settled: {lost}") from lost
    raise LedgerStoreUnavailableError(f"other clients keep changing the metadata of ledger {ledger_id}: try again")
