"""List the ledgers on bookies, by their metadata in ZooKeeper. No bookie is asked."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from hedwig.errors import CorruptRecordError, NoSuchLedgerError
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerState
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import Glance, ZookeeperLedgerMetadata
from hedwig.hub.ledgers.census import LedgerEntry

__all__ = ["BookkeeperLedgerCensus"]

_AT_ONCE: Final = 128


class BookkeeperLedgerCensus:
    """A LedgerCensus of the ledgers below one root of a ZooKeeper. Other applications may have ledgers there too."""

    def __init__(self, metadata: ZookeeperLedgerMetadata) -> None:
        self._metadata = metadata

    async def find(self, ledger_ids: Sequence[int]) -> list[LedgerEntry | None]:
        wanted = [ledger_id for ledger_id in dict.fromkeys(ledger_ids) if self._metadata.can_keep(ledger_id)]
        entries: dict[int, LedgerEntry] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            for glance in await self._metadata.glance(wanted[start : start + _AT_ONCE]):
                if (entry := _entry(glance)) is not None:
                    entries[entry.ledger_id] = entry
        for ledger_id in wanted:
            # `glance` asks a ZooKeeper server that may be behind. `_exists` asks one that has caught up.
            if ledger_id not in entries and await self._exists(ledger_id):
                entries[ledger_id] = LedgerEntry(ledger_id=ledger_id)
        return [entries.get(ledger_id) for ledger_id in ledger_ids]

    async def pages(self) -> AsyncIterator[list[LedgerEntry]]:
        batch: list[int] = []
        async for ledger_id in self._metadata.ledgers():
            batch.append(ledger_id)
            if len(batch) == _AT_ONCE:
                yield await self._entries(batch)
                batch = []
        if batch:
            yield await self._entries(batch)

    async def now_ms(self) -> int:
        return await self._metadata.now_ms()

    async def delete(self, entry: LedgerEntry) -> bool:
        assert entry.version is not None, "it was read"
        return await self._metadata.delete_at(entry.ledger_id, entry.version)

    async def _exists(self, ledger_id: int) -> bool:
        try:
            await self._metadata.read(ledger_id)
        except NoSuchLedgerError:
            return False
        except CorruptRecordError:
            return True
        return True

    async def _entries(self, ledger_ids: Sequence[int]) -> list[LedgerEntry]:
        entries = map(_entry, await self._metadata.glance(ledger_ids))
        return [entry for entry in entries if entry is not None]


def _entry(glance: Glance) -> LedgerEntry | None:
    if glance.error is not None:
        return LedgerEntry(ledger_id=glance.ledger_id, made_ms=glance.made_ms, error=str(glance.error))
    if glance.held is None:
        return None
    metadata = glance.held.value
    return LedgerEntry(
        ledger_id=glance.ledger_id,
        last_entry_id=metadata.last_entry_id if metadata.state is LedgerState.CLOSED else None,
        made_ms=glance.made_ms if metadata.created_ms is None else metadata.created_ms,
        about=metadata.custom,
        version=glance.held.version,
    )
