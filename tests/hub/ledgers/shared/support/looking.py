"""A look from outside at the ledgers of segments that are in a directory."""

from pathlib import Path

from hedwig.clock import SystemClock
from hedwig.hub.ledgers.inspection import LedgerFacts
from hedwig.hub.ledgers.local.inspector import LocalLedgerInspector

__all__ = ["DirectoryInspector", "LaterClock"]


class DirectoryInspector:
    """A LedgerInspector that looks at a directory anew at each call.

    `hidden` says how many of the last entries of a ledger it does not see, as readers of an open ledger on bookies do.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.hidden: dict[int, int] = {}

    async def facts(self, ledger_id: int) -> LedgerFacts:
        facts = await (await LocalLedgerInspector.open(self._path)).facts(ledger_id)
        last = facts.last_entry_id - self.hidden.get(ledger_id, 0)
        return LedgerFacts(is_closed=facts.is_closed, last_entry_id=last, stored_bytes=facts.stored_bytes)

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        inspector = await LocalLedgerInspector.open(self._path)
        return await inspector.read(ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)

    async def aclose(self) -> None:
        return


class LaterClock(SystemClock):
    """A clock that a test puts forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s
