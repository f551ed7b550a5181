"""Counting ledgers from outside: which there are, whose they are, and which of some exist. No ledger is opened."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hedwig.versions import Version

__all__ = ["LedgerCensus", "LedgerEntry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What is on record of a ledger.

    `last_entry_id` is -1 for an empty ledger, and None for one that nobody closed. `made_ms` is when it was made, in ms
    since 1970, None if nothing says so; `about` is what its maker wrote there. `version` is that of the record, None
    where a ledger cannot be deleted from outside. `error` says that the record cannot be read.
    """

    ledger_id: int
    last_entry_id: int | None = None
    made_ms: int | None = None
    about: Mapping[str, bytes] = field(default_factory=dict)
    version: Version | None = None
    error: str | None = None


class LedgerCensus(Protocol):
    """Knows which ledgers there are."""

    async def find(self, ledger_ids: Sequence[int]) -> list[LedgerEntry | None]:
        """Return what is on record of some ledgers, in their order; None for one that does not exist.

        Raises: LedgerStoreUnavailableError.
        """
        ...

    def pages(self) -> AsyncIterator[list[LedgerEntry]]:
        """Iterate over all ledgers, ascending, page by page; those made or deleted meanwhile may be among them or not.

        Raises: LedgerStoreUnavailableError.
        """
        ...

    async def now_ms(self) -> int | None:
        """Return the time by the clock that dates ledgers, in ms since 1970; None where they have no date.

        Raises: LedgerStoreUnavailableError.
        """
        ...

    async def delete(self, entry: LedgerEntry) -> bool:
        """Delete a ledger if its record is still as `entry` says; say whether it is gone.

        Raises: LedgerStoreUnavailableError - it may be gone all the same; look again.
        """
        ...
