"""Prove that readers who wait for entries share what is read, and that none of them holds up the others for ever."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedwig.errors import CorruptEntryError, LedgerError, LedgerStoreClosedError, NoSuchLedgerError
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.ledgers.shared.entries.columns import DamagedEntryError
from hedwig.hub.ledgers.shared.reads.entry_cache import EntryCache
from hedwig.hub.ledgers.shared.reads.entry_reads import EntryReads
from tests.faults.support.waiting import TIMEOUT_S

ENTRIES = 300
DAMAGED = 7


class GatedStore(LocalLedgerStore):
    """Reads once the gate is open, and keeps which entries it was asked for."""

    gate: asyncio.Event
    asked: list[tuple[int, int]]

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        self.asked += [(ledger_id, entry) for entry in range(first_entry_id, first_entry_id + entries_max)]
        await self.gate.wait()
        return await super().read(ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[GatedStore]:
    """A store with two ledgers, 0 and 1, that have entries."""
    opened = await GatedStore.open(tmp_path, LocalLedgerOptions())
    opened.gate, opened.asked = asyncio.Event(), []
    for _ in range(2):
        ledger = await opened.create()
        await asyncio.gather(*(opened.append(ledger, entry, _content(ledger, entry)) for entry in range(ENTRIES)))
    yield opened
    await opened.aclose()


@pytest.fixture
async def reads(store: GatedStore) -> AsyncIterator[EntryReads[bytes]]:
    made: EntryReads[bytes] = EntryReads(store, EntryCache(0, len), _decode)
    yield made
    await made.aclose()


def _content(ledger: int, entry: int) -> bytes:
    return b"damaged" if entry == DAMAGED else b"ledger %d entry %d" % (ledger, entry)


def _decode(data: bytes) -> bytes:
    if data == b"damaged":
        raise DamagedEntryError("it is damaged")
    return data


async def test_all_who_wait_share_one_read(store: GatedStore, reads: EntryReads[bytes]) -> None:
    """Also those who come while it goes on. Nothing is in memory here."""
    first, second = [each async for each in store.ledgers()]
    waiting = [reads.get(first, entry) for entry in (20, 3, 3, 100)]
    await asyncio.sleep(0)
    waiting += [reads.get(first, 3), reads.get(second, 20)]
    store.gate.set()
    async with asyncio.timeout(TIMEOUT_S):
        found = await asyncio.gather(*waiting)
    assert found == [_content(first, entry) for entry in (20, 3, 3, 100, 3)] + [_content(second, 20)]
    assert sorted(store.asked) == [(first, 3), (first, 20), (first, 100), (second, 20)]


async def test_what_nobody_waits_for_any_more_is_not_read(store: GatedStore, reads: EntryReads[bytes]) -> None:
    first, _ = [each async for each in store.ledgers()]
    begun = reads.get(first, 0)
    await asyncio.sleep(0)
    given_up, shared = [reads.get(first, entry) for entry in (10, 10, 11, 12)], reads.get(first, 12)
    for each in given_up:
        each.cancel()
    store.gate.set()
    async with asyncio.timeout(TIMEOUT_S):
        found = await asyncio.gather(begun, shared, reads.get(first, 11))
    assert list(found) == [_content(first, entry) for entry in (0, 12, 11)]
    assert (first, 10) not in store.asked


async def test_an_entry_that_cannot_be_read_is_refused_alone(store: GatedStore, reads: EntryReads[bytes]) -> None:
    first, second = [each async for each in store.ledgers()]
    store.gate.set()
    waiting = [reads.get(first, entry) for entry in range(DAMAGED - 1, DAMAGED + 2)]
    beyond, missing = reads.get(second, ENTRIES), [reads.get(second + 1, entry) for entry in (0, 1, 5)]
    async with asyncio.timeout(TIMEOUT_S):
        found = await asyncio.gather(*waiting, beyond, *missing, return_exceptions=True)
    assert found[0] == _content(first, DAMAGED - 1)
    assert isinstance(found[1], CorruptEntryError)
    assert found[2] == _content(first, DAMAGED + 1)
    assert isinstance(found[3], LedgerError)
    assert all(isinstance(each, NoSuchLedgerError) for each in found[4:])


async def test_nobody_waits_for_ever(store: GatedStore, reads: EntryReads[bytes]) -> None:
    """A crowd never stops to read in one ledger, before the entry that one of the others wants."""
    first, second = [each async for each in store.ledgers()]
    store.gate.set()

    async def go_round(entry: int) -> None:
        while True:
            await reads.get(first, entry)
            entry = entry + 1 if entry < 2 * ENTRIES // 3 else DAMAGED + 1

    crowd = [asyncio.create_task(go_round(entry)) for entry in range(DAMAGED + 1, 2 * ENTRIES // 3)]
    while (first, ENTRIES // 3) not in store.asked:  # noqa: ASYNC110 (the store gives no sign)
        await asyncio.sleep(0)
    async with asyncio.timeout(TIMEOUT_S):
        ahead, other = reads.get(first, ENTRIES - 1), reads.get(second, 0)
        assert await ahead == _content(first, ENTRIES - 1)
        assert await other == _content(second, 0)
    assert not any(each.done() for each in crowd)
    for each in crowd:
        each.cancel()


async def test_who_waits_at_the_end_is_refused(store: GatedStore, reads: EntryReads[bytes]) -> None:
    first, second = [each async for each in store.ledgers()]
    waiting = [reads.get(first, 0), reads.get(second, 1)]
    await asyncio.sleep(0)
    waiting.append(reads.get(first, 2))
    await reads.aclose()
    waiting.append(reads.get(first, 3))
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, LedgerStoreClosedError) for each in found)
