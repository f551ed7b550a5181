"""Prove how few batches are read for subscribers that are behind, by a hub that has none of them in memory."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from hedwig.clock import SystemClock
from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import TopicPersistenceManager
from hedwig.model import HubInfo
from tests.hub.ledgers.shared.support.counted import CountedStore
from tests.hub.ledgers.shared.support.records import RecordsInMemory
from tests.hub.ledgers.support.contents import payload

TOPICS = 3000
MESSAGES = 10


async def _all_live(_: HubInfo) -> bool:
    return True


class Hubs:
    """Hubs with the same ledgers. Each has nothing in memory that it has not written or read itself."""

    def __init__(self, below: CountedStore) -> None:
        self.below = below
        self._records = RecordsInMemory()
        self._stores: list[SharedLedgerStore] = []

    async def open(self, **options: int | float) -> SharedLedgerStore:
        settings = SharedLogOptions(**options)  # type: ignore[arg-type]
        hub = HubInfo(host="hub", port=len(self._stores) + 1)
        store = await SharedLedgerStore.open(
            self.below, self._records, hub, SystemClock(), settings, is_alive=_all_live
        )
        self._stores.append(store)
        self.below.forget()
        return store

    async def filled(self, topics: int, messages: int, size: int, segment_bytes: int) -> list[int]:
        """Return closed ledgers in sealed segments, whose entries were appended in random order."""
        store = await self.open(segment_bytes=segment_bytes, roll_pause_s=0.0)
        ledgers = [await store.create() for _ in range(topics)]
        order = [ledger for ledger in ledgers for _ in range(messages)]
        random.Random(1).shuffle(order)
        following = dict.fromkeys(ledgers, 0)
        for start in range(0, len(order), 5000):
            appends = []
            for ledger in order[start : start + 5000]:
                appends.append(store.start_append(ledger, following[ledger], payload(ledger, following[ledger], size)))
                following[ledger] += 1
            await asyncio.gather(*appends)
        for ledger in ledgers:
            await store.close(ledger)
        await store.settle(ledgers)
        return ledgers

    async def abandon(self) -> None:
        for store in self._stores:
            await store.abandon()


@pytest.fixture
async def hubs(tmp_path: Path) -> AsyncIterator[Hubs]:
    below = await CountedStore.open(tmp_path, LocalLedgerOptions())
    made = Hubs(below)
    yield made
    await made.abandon()
    await below.aclose()


async def _read_whole(store: SharedLedgerStore, ledger: int, size: int) -> None:
    entries = 0
    while entries < MESSAGES:
        read = await store.read(ledger, entries, entries_max=128, bytes_max=1 << 18)
        assert read == [payload(ledger, entry, size) for entry in range(entries, entries + len(read))]
        entries += len(read)


async def test_each_batch_is_read_about_once_for_all_who_are_behind(hubs: Hubs) -> None:
    """At most one batch is read for each message, whoever else is behind. For 3,000 topics it is far less.

    The memory for batches holds a part of the log only, and the order of the topics has nothing to do with it.
    """
    size = 1000
    ledgers = await hubs.filled(TOPICS, MESSAGES, size, segment_bytes=8 << 20)

    store = await hubs.open()
    await _read_whole(store, ledgers[TOPICS // 2], size)
    segments = len({ledger for ledger, _ in hubs.below.footers})
    assert segments > 2
    assert 0 < hubs.below.batches.total() <= MESSAGES
    assert hubs.below.footers.total() <= 2 * segments

    store = await hubs.open(cache_bytes_max=8 << 20)
    async with asyncio.TaskGroup() as group:
        for ledger in random.Random(2).sample(ledgers, TOPICS):
            group.create_task(_read_whole(store, ledger, size))
    batches = len(hubs.below.batches)
    assert batches > 100
    assert hubs.below.batches.total() < 3 * batches
    assert set(hubs.below.footers.values()) == {1}


async def test_each_batch_of_a_read_gives_it_a_message(hubs: Hubs) -> None:
    """However few messages and bytes a read may return."""
    chance = random.Random(3)
    ledgers = await hubs.filled(50, 40, 1000, segment_bytes=1 << 20)
    for _ in range(100):
        store = await hubs.open()
        ledger, first = chance.choice(ledgers), chance.randrange(40)
        entries_max, bytes_max = chance.randint(1, 50), chance.choice([1, 3000, 10_000, 1 << 20])
        read = await store.read(ledger, first, entries_max=entries_max, bytes_max=bytes_max)
        assert read == [payload(ledger, entry, 1000) for entry in range(first, first + len(read))]
        assert 1 <= len(read) <= entries_max
        assert len(read) == 1 or sum(map(len, read)) <= bytes_max
        assert hubs.below.batches.total() <= len(read)


async def test_those_who_are_behind_in_a_hub_read_together(hubs: Hubs) -> None:
    """However few reads of ledgers the hub does at once. Each reader waits for another batch."""
    writer = await hubs.open()
    ledgers = [await writer.create() for _ in range(100)]
    for ledger in ledgers:
        await writer.append(ledger, 0, payload(ledger, 0))
        await writer.close(ledger)
    await writer.settle(ledgers)
    store = await hubs.open()
    deletions = LedgerDeletions(SystemClock(), 5.0, store)
    persistence = cast(TopicPersistenceManager, None)
    hub = LogContext(store, persistence, HubOptions(reads_max=1), RecentMessages(0), b"", deletions)
    read = await asyncio.gather(*(hub.read(ledger, 0, entries_max=128, bytes_max=1 << 18) for ledger in ledgers))
    assert read == [[payload(ledger, 0)] for ledger in ledgers]
    assert len(hubs.below.batches) == len(ledgers)
    assert hubs.below.calls < len(ledgers) // 4
    await deletions.close()
