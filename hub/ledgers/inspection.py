"""Read ledgers from outside. The process that has a ledger open notices nothing, and no ledger is ever fenced."""

from dataclasses import dataclass
from typing import Protocol

from hedwig.model import HubInfo

__all__ = ["LedgerFacts", "LedgerInspector", "LogShare"]


@dataclass(frozen=True, slots=True)
class LogShare:
    """What a virtual ledger has of its shared log: entries in so many `segments`.

    `hub` is the incarnation that writes the log; None if the log was removed, since nothing referred to it.
    """

    hub: HubInfo | None
    segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What is known of a ledger from outside.

    `last_entry_id` is -1 for an empty ledger. For a ledger that is not closed, it is the last entry that could be seen,
    and there may be more. `stored_bytes` is the size of its entries; None if that is unknown before the ledger closes.
    `share` is set for a virtual ledger.
    """

    is_closed: bool
    last_entry_id: int
    stored_bytes: int | None
    share: LogShare | None = None


class LedgerInspector(Protocol):
    """Reads ledgers that others write. It changes no ledger, not even one that is not closed."""

    async def facts(self, ledger_id: int) -> LedgerFacts:
        """Return what is known of a ledger. Raises: NoSuchLedgerError; LedgerStoreUnavailableError."""
        ...

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        """Return payloads from `first_entry_id` on, without gap.

        The list has at most `entries_max` payloads, and at most `bytes_max` bytes unless its first payload is larger.
        It may be shorter. It is empty only behind the last entry seen.

        Raises: NoSuchLedgerError; CorruptEntryError; LedgerStoreUnavailableError.
        """
        ...

    async def aclose(self) -> None:
        """Release all resources. May be called twice."""
        ...
