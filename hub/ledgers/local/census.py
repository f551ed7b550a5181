"""List the ledgers in the data directory of a standalone hub, which may be running. Their only attribute is an id."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, Self

from hedwig.hub.ledgers.census import LedgerEntry
from hedwig.hub.ledgers.local.inspector import LocalLedgerInspector

__all__ = ["LocalLedgerCensus"]

_AT_ONCE: Final = 1024


class LocalLedgerCensus:
    """A LedgerCensus of a local store. It deletes nothing: only the hub deletes ledgers there."""

    def __init__(self, path: Path, inspector: LocalLedgerInspector) -> None:
        self._path = path
        self._inspector = inspector

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Take a first look at the directory `path`. Raises as `LocalLedgerInspector.open`."""
        return cls(path, await LocalLedgerInspector.open(path))

    async def find(self, ledger_ids: Sequence[int]) -> list[LedgerEntry | None]:
        entries = await self._find(ledger_ids)
        if None in entries:
            # The ledger may have been made since the last look.
            self._inspector = await LocalLedgerInspector.open(self._path)
            entries = await self._find(ledger_ids)
        return entries

    async def pages(self) -> AsyncIterator[list[LedgerEntry]]:
        batch: list[LedgerEntry] = []
        for ledger_id in await asyncio.to_thread(self._inspector.ledger_ids):
            batch.append(LedgerEntry(ledger_id=ledger_id))
            if len(batch) == _AT_ONCE:
                yield batch
                batch = []
        if batch:
            yield batch

    async def now_ms(self) -> None:
        return None

    async def delete(self, entry: LedgerEntry) -> bool:
        del entry
        return False

    async def _find(self, ledger_ids: Sequence[int]) -> list[LedgerEntry | None]:
        pairs = zip(ledger_ids, await self._inspector.extents(ledger_ids), strict=True)
        return [None if extent is None else _entry(ledger_id, *extent) for ledger_id, extent in pairs]


def _entry(ledger_id: int, is_closed: bool, last_entry_id: int) -> LedgerEntry:
    return LedgerEntry(ledger_id=ledger_id, last_entry_id=last_entry_id if is_closed else None)
