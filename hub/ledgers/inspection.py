"""Looking at ledgers from outside: whoever has them open notices nothing, and no ledger is ever fenced by it."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["LedgerFacts", "LedgerInspector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What is known of a ledger from outside.

    `last_entry_id` is -1 for none; of a ledger that is not closed it is the last one that could be seen, and there may
    be more. `stored_bytes` are those of its entries, None if that is not known before it is closed.
    """

    is_closed: bool
    last_entry_id: int
    stored_bytes: int | None


class LedgerInspector(Protocol):
    """Reads ledgers that others write. It changes nothing, also no ledger that nobody closed."""

    async def facts(self, ledger_id: int) -> LedgerFacts:
        """Return what is known of a ledger. Raises: NoSuchLedgerError; LedgerStoreUnavailableError."""
        ...

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        """Return payloads from `first_entry_id` on, without gap; maybe fewer, and none only behind the last one seen.

        At most `entries_max` and, from the second on, `bytes_max`.

        Raises: NoSuchLedgerError; CorruptEntryError; LedgerStoreUnavailableError.
        """
        ...

    async def aclose(self) -> None:
        """Let go of everything. May be called twice."""
        ...
