"""A local ledger store that counts what is read from it."""

from collections import Counter

from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.shared.entries.footers import is_footer

__all__ = ["CountedStore"]


class CountedStore(LocalLedgerStore):
    """Counts how often each entry was read: batches, and entries of footers apart; and the calls for both."""

    batches: Counter[tuple[int, int]]
    footers: Counter[tuple[int, int]]
    calls: int

    def forget(self) -> None:
        """Count from zero."""
        self.batches, self.footers = Counter(), Counter()
        self.calls = 0

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        self.calls += 1
        payloads = await super().read(ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)
        for entry, payload in enumerate(payloads, start=first_entry_id):
            (self.footers if is_footer(payload) else self.batches)[ledger_id, entry] += 1
        return payloads
