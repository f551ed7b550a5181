"""Prove that the space of deleted virtual ledgers is freed, and that readers get the same from merged segments."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.metadata.logs.record import LogRecord
from hedwig.model import HubInfo
from tests.faults.support.waiting import TIMEOUT_S
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.shared.support.records import RecordsInMemory
from tests.hub.ledgers.support.contents import fill, payload, read_all

HUB = HubInfo(host="here", port=4080, epoch=1)
OTHER = HubInfo(host="there", port=4080, epoch=2)
SMALL = SharedLogOptions(segment_bytes=8 << 10, roll_pause_s=0.0, upkeep_interval_s=0.01, grace_s=0.0)

OpenLog = Callable[..., Awaitable[SharedLedgerStore]]


async def _all_live(_: HubInfo) -> bool:
    return True


@pytest.fixture
async def below(open_store: OpenStore) -> LocalLedgerStore:
    return await open_store(segment_bytes=1 << 20)


@pytest.fixture
def records() -> RecordsInMemory:
    return RecordsInMemory()


@pytest.fixture
async def open_log(below: LocalLedgerStore, records: RecordsInMemory) -> AsyncIterator[OpenLog]:
    """Open the store of a hub; all share their ledgers, and the records of logs."""
    stores: list[SharedLedgerStore] = []

    async def open_it(hub: HubInfo = HUB, options: SharedLogOptions = SMALL) -> SharedLedgerStore:
        stores.append(await SharedLedgerStore.open(below, records, hub, SystemClock(), options, is_alive=_all_live))
        return stores[-1]

    yield open_it
    for each in stores:
        await each.abandon()


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not await condition():  # noqa: ASYNC110 (several hubs change it)
            await asyncio.sleep(0.01)


async def _record(records: RecordsInMemory, store: SharedLedgerStore) -> LogRecord:
    assert store.log is not None
    record = await records.read(store.log)
    assert record is not None
    return record


async def _ledgers(below: LocalLedgerStore) -> set[int]:
    return {each async for each in below.ledgers()}


async def _fill_and_close(store: SharedLedgerStore, count: int, entries: int) -> list[int]:
    """Return ledgers with entries, all in sealed segments."""
    ledgers = [await store.create() for _ in range(count)]
    for entry in range(entries):
        await fill(store, ledgers, range(entry, entry + 1))
    for each in ledgers:
        await store.close(each)
    await store.settle(ledgers)
    return ledgers


async def test_segments_without_a_live_record_go_with_their_ledgers(
    open_log: OpenLog, below: LocalLedgerStore, records: RecordsInMemory
) -> None:
    store = await open_log()
    ledgers = await _fill_and_close(store, 10, 30)
    assert len((await _record(records, store)).segments) > 2
    for each in ledgers:
        await store.delete(each)

    async def is_empty() -> bool:
        record = await _record(records, store)
        return not record.segments and not record.dropped and await _ledgers(below) == set(record.listed)

    await _until(is_empty)


async def test_half_dead_segments_are_merged_and_their_readers_notice_nothing(
    open_log: OpenLog, below: LocalLedgerStore, records: RecordsInMemory
) -> None:
    """One ledger in ten is kept. Another hub has read the record before, and reads from it afterwards."""
    store, other = await open_log(), await open_log(OTHER)
    ledgers = await _fill_and_close(store, 50, 20)
    kept = ledgers[::10]
    assert len(await read_all(other, kept[0])) == 20
    before = (await _record(records, store)).segments
    for each in set(ledgers) - set(kept):
        await store.delete(each)

    async def is_merged() -> bool:
        record = await _record(records, store)
        named = record.ledgers | (await _record(records, other)).ledgers
        return sum(each.size for each in record.segments) < 2 * SMALL.segment_bytes and await _ledgers(below) == named

    await _until(is_merged)
    assert not set(before) & set((await _record(records, store)).segments)
    for reader in (store, other):
        for each in kept:
            assert await read_all(reader, each) == [payload(each, entry) for entry in range(20)]
            assert await reader.last_entry_id(each) == 19
            assert len(await reader.read(each, 7, entries_max=3, bytes_max=1 << 20)) == 3


async def test_what_a_log_has_done_and_holds_is_counted(open_log: OpenLog, records: RecordsInMemory) -> None:
    store, other = await open_log(), await open_log(OTHER)
    ledgers = await _fill_and_close(store, 50, 20)
    kept, size = ledgers[::10], len(payload(ledgers[0], 0))
    before, log = (await _record(records, store)).segments, store.log
    assert log is not None
    largest = await store.largest(3)
    assert set(largest) <= set(ledgers)
    assert list(largest.values()) == [20 * size] * 3
    assert await store.mean_bytes(log) == await other.mean_bytes(log) == size
    stats = await store.stats()
    assert (stats.stored_bytes, stats.live_bytes) == (50 * 20 * size, 50 * 20 * size)
    for each in set(ledgers) - set(kept):
        await store.delete(each)

    async def is_merged() -> bool:
        return not set(before) & set((await _record(records, store)).segments)

    await _until(is_merged)
    stats = await store.stats()
    assert (stats.stored_bytes, stats.live_bytes) == (5 * 20 * size, 5 * 20 * size)
    assert set(await store.largest(50)) == set(kept)
    counted = stats.log
    assert counted is not None
    assert (counted.records, counted.merged_segments) == (50 * 20, len(before))
    assert counted.merged_bytes >= 5 * 20 * size
    assert counted.rolls == len(before)
    assert 0 < counted.batches <= 20 * len(ledgers)
    assert counted.batch_bytes > 50 * 20 * size
    assert 0 <= counted.roll_s < TIMEOUT_S
    for each in kept:
        await store.delete(each)

    async def is_empty() -> bool:
        return not (await _record(records, store)).segments

    await _until(is_empty)
    assert counted.dead_segments > 0
    assert (await store.stats()).live_bytes == 0

    assert await other.shut_out(log)
    assert await other.shut_out(log), "again, which is no other recovery"
    recovered = (await other.stats()).log
    assert recovered is not None
    assert recovered.recoveries == 1
    assert 0 < recovered.recovery_s < TIMEOUT_S


async def test_many_small_segments_become_few(open_log: OpenLog, records: RecordsInMemory) -> None:
    """Each topic that closes its ledger may end a segment."""
    store = await open_log(options=SharedLogOptions(roll_pause_s=0.0, upkeep_interval_s=0.01, grace_s=0.0))
    ledgers = []
    for _ in range(40):
        ledgers += await _fill_and_close(store, 1, 3)

    async def are_few() -> bool:
        return len((await _record(records, store)).segments) < 16

    await _until(are_few)
    for each in ledgers:
        assert await read_all(store, each) == [payload(each, entry) for entry in range(3)]


async def test_what_nobody_needs_goes_although_writes_of_the_record_fail_and_answers_are_lost(
    open_log: OpenLog, below: LocalLedgerStore, records: RecordsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(4)
    replace = RecordsInMemory.replace

    async def unreliable(self: RecordsInMemory, present: LogRecord, wanted: LogRecord) -> bool:
        kind = source.random()
        if kind < 0.3:
            raise MetadataUnavailableError("not written")
        done = await replace(self, present, wanted)
        if kind < 0.6:
            raise UncertainStateError("no answer")
        return done

    store = await open_log()
    ledgers = await _fill_and_close(store, 50, 20)
    kept = ledgers[::10]
    monkeypatch.setattr(RecordsInMemory, "replace", unreliable)
    for each in set(ledgers) - set(kept):
        await store.delete(each)

    async def is_merged() -> bool:
        record = await _record(records, store)
        return sum(each.size for each in record.segments) < 2 * SMALL.segment_bytes and (
            await _ledgers(below) == record.ledgers
        )

    await _until(is_merged)
    for each in kept:
        assert await read_all(store, each) == [payload(each, entry) for entry in range(20)]


async def test_a_log_that_is_taken_over_amid_merging_loses_nothing(
    open_log: OpenLog, below: LocalLedgerStore, records: RecordsInMemory
) -> None:
    """The taker reads what the record names, whether the merged segment or the former ones."""
    for pause_s in (0.0, 0.002, 0.005, 0.01, 0.02, 0.04):
        store, taker = await open_log(), await open_log(OTHER)
        assert store.log is not None
        ledgers = await _fill_and_close(store, 50, 20)
        kept = ledgers[::10]
        for each in set(ledgers) - set(kept):
            await store.delete(each)
        await asyncio.sleep(pause_s)
        assert await taker.shut_out(store.log)
        await store.abandon()
        record = await _record(records, store)
        assert {ledger for each in record.segments for ledger in each.ledgers} <= await _ledgers(below)
        for each in kept:
            assert await read_all(taker, each) == [payload(each, entry) for entry in range(20)]


async def test_a_ledger_in_many_segments_should_be_followed_by_another(
    open_log: OpenLog, records: RecordsInMemory
) -> None:
    """It would cost its readers a look at each of them, and while it is open none of them goes."""
    store = await open_log(options=SharedLogOptions(roll_pause_s=0.0, upkeep_interval_s=3600.0))
    ledger, entries = await store.create(), 0
    while not store.is_spread(ledger):
        await store.append(ledger, entries, payload(ledger, entries))
        entries += 1
        await _fill_and_close(store, 1, 1)
    assert len((await _record(records, store)).segments) == entries == 15
    assert await store.close(ledger) == entries - 1
    assert not store.is_spread(ledger)
    assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(entries)]
