"""Count ledgers from outside: list them, find their makers, check which of some exist. No ledger is opened."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hedwig.versions import Version

__all__ = ["LedgerCensus", "LedgerEntry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What the store records about a ledger.

    `last_entry_id` is -1 for an empty ledger, and None for one that is not closed. `made_ms` is the time at which it
    was made, in ms since 1970; None if the record has no time. `about` is what its maker wrote into the record.
    `version` is the version of the record; None where a ledger cannot be deleted from outside. `error` is set if the
    record cannot be read, and says why. `lost` is set if a part of the ledger is lost, or may be, and says what.
    """

    ledger_id: int
    last_entry_id: int | None = None
    made_ms: int | None = None
    about: Mapping[str, bytes] = field(default_factory=dict)
    version: Version | None = None
    error: str | None = None
    lost: str | None = None


class LedgerCensus(Protocol):
    """Knows which ledgers there are."""

    async def find(self, ledger_ids: Sequence[int]) -> list[LedgerEntry | None]:
        """Return the records of some ledgers, in the order of `ledger_ids`; None for one that does not exist.

        Raises: LedgerStoreUnavailableError.
        """
        ...

    def pages(self) -> AsyncIterator[list[LedgerEntry]]:
        """Iterate over all ledgers, ascending, page by page.

        A ledger that is made or deleted meanwhile may be included or not.

        Raises: LedgerStoreUnavailableError.
        """
        ...

    async def now_ms(self) -> int | None:
        """Return the time by the clock that dates ledgers, in ms since 1970; None where they have no date.

        Raises: LedgerStoreUnavailableError.
        """
        ...

    async def delete(self, entry: LedgerEntry) -> bool:
        """Delete a ledger if its record is unchanged since `entry` was read; return whether it is gone.

        Raises: LedgerStoreUnavailableError - the ledger may be gone all the same, so look again.
        """
        ...
