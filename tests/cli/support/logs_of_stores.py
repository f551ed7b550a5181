"""Stores with shared logs, and the logs that stores have."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hedwig.metadata import NEW, MetadataStore, open_metadata
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, MessageSeqId, Topic

__all__ = ["HUBS", "change_log", "fill_logs", "logs", "with_store"]

T = TypeVar("T")

HUBS: Final = [HubInfo(host="hub", port=4080, epoch=epoch) for epoch in range(4)]


def with_store(url: str, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Return what `work` returns for the store at `url`."""

    async def run() -> T:
        async with await open_metadata(url) as store:
            return await work(store)

    return asyncio.run(run())


async def fill_logs(store: MetadataStore) -> None:
    """Make four logs: two that ranges of a topic each name, one that an owner names, and one that nobody names."""
    made = [await KeptLogRecords(store.named_records).create(hub) for hub in HUBS]
    for number, topic in enumerate((Topic(b"a/1"), Topic(b"b/1"))):
        virtual = LedgerRange(ledger_id=virtual_id(made[number].number, 1), start=1, end=MessageSeqId(5))
        ranges = (LedgerRange(ledger_id=9, start=1, end=MessageSeqId(0)), virtual)
        await store.persistence.write(topic, LedgerRanges(ranges), NEW)
    await store.ownership.write(Topic(b"c/1"), HubInfo(host="hub", port=4080, epoch=2, log=2), NEW)


def logs(url: str) -> list[LogRecord]:
    """Return the logs of a store."""

    async def read(store: MetadataStore) -> list[LogRecord]:
        records = KeptLogRecords(store.named_records)
        return [log async for number in records.numbers() if (log := await records.read(number)) is not None]

    return with_store(url, read)


def change_log(url: str, number: int, listed: tuple[int, ...] | None) -> None:
    """List other ledgers in a log, as its hub does; None: delete it."""

    async def change(store: MetadataStore) -> bool:
        records = KeptLogRecords(store.named_records)
        present = await records.read(number)
        assert present is not None
        if listed is None:
            return await records.delete(present)
        return await records.replace(present, present.changed(listed=listed))

    assert with_store(url, change)
