"""Prove that an inspector sees what a log has of a ledger, in the order of writing, and that it changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import MetadataUnavailableError, NoSuchLedgerError
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.inspection import LedgerFacts, LedgerInspector, LogShare
from hedwig.hub.ledgers.shared.inspector import SharedLedgerInspector
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.model import HubInfo
from tests.faults.support.waiting import TIMEOUT_S
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.shared.support.looking import DirectoryInspector, LaterClock
from tests.hub.ledgers.shared.support.records import RecordsInMemory
from tests.hub.ledgers.support.contents import fill, payload

HUB = HubInfo(host="here", port=4080, epoch=1)
OPTIONS = SharedLogOptions(segment_bytes=8 << 10, roll_pause_s=0.0, upkeep_interval_s=0.01, grace_s=0.0)

OpenLog = Callable[[], Awaitable[SharedLedgerStore]]


class _Records(RecordsInMemory):
    """Records that a test keeps from being written."""

    is_away = False

    async def replace(self, present: LogRecord, wanted: LogRecord) -> bool:
        if self.is_away:
            raise MetadataUnavailableError("the store is away")
        return await super().replace(present, wanted)


async def _nobody(_: HubInfo) -> bool:
    return False


@pytest.fixture
def records() -> _Records:
    return _Records()


@pytest.fixture
async def below(open_store: OpenStore) -> LocalLedgerStore:
    return await open_store(segment_bytes=1 << 20)


@pytest.fixture
def looking(below: LocalLedgerStore, tmp_path: Path) -> DirectoryInspector:
    assert below is not None
    return DirectoryInspector(tmp_path / "ledgers")


@pytest.fixture
async def open_log(below: LocalLedgerStore, records: _Records) -> AsyncIterator[OpenLog]:
    stores: list[SharedLedgerStore] = []

    async def open_it() -> SharedLedgerStore:
        stores.append(await SharedLedgerStore.open(below, records, HUB, SystemClock(), OPTIONS, is_alive=_nobody))
        return stores[-1]

    yield open_it
    for each in stores:
        await each.abandon()


async def _until(records: RecordsInMemory, holds: Callable[[LogRecord], bool]) -> None:
    """Wait until the record of the first log is as a test needs it."""
    async with asyncio.timeout(TIMEOUT_S):
        while (record := await records.read(0)) is None or not holds(record):  # noqa: ASYNC110 (the hub changes it)
            await asyncio.sleep(0.01)


async def _payloads(inspector: LedgerInspector, ledger: int, at_once: int = 7) -> list[bytes]:
    payloads: list[bytes] = []
    while more := await inspector.read(ledger, len(payloads), entries_max=at_once, bytes_max=1 << 20):
        assert len(more) <= at_once
        payloads += more
    return payloads


def _wanted(ledger: int, entries: int) -> list[bytes]:
    return [payload(ledger, entry) for entry in range(entries)]


async def test_it_sees_sealed_and_unsealed_segments_of_a_log_whose_hub_goes_on(
    open_log: OpenLog, below: LocalLedgerStore, records: _Records, looking: DirectoryInspector
) -> None:
    store = await open_log()
    ledgers = [await store.create() for _ in range(5)]
    await fill(store, ledgers, range(62))
    await _until(records, lambda record: len(record.segments) == 4)
    seen = await records.read(0)
    before = seen, [each async for each in below.ledgers()]
    clock = LaterClock()
    inspector = SharedLedgerInspector(looking, records, clock)
    for ledger in ledgers:
        facts = await inspector.facts(ledger)
        assert (facts.is_closed, facts.last_entry_id, facts.stored_bytes) == (False, 61, 62 * 100)
        assert facts.share == LogShare(HUB, 5)
        assert await _payloads(inspector, ledger) == _wanted(ledger, 62)
    assert (await records.read(0), [each async for each in below.ledgers()]) == before
    await fill(store, ledgers, range(62, 90))  # The hub goes on, since nothing was fenced.
    clock.ahead_s += 2
    assert await _payloads(inspector, ledgers[0]) == _wanted(ledgers[0], 90)


async def test_what_is_behind_batches_that_cannot_be_seen_is_left_out(
    open_log: OpenLog, records: _Records, looking: DirectoryInspector
) -> None:
    store = await open_log()
    ledger = await store.create()
    await fill(store, [ledger], range(5))
    records.is_away = True
    await fill(store, [ledger], range(5, 150))
    record = await records.read(0)
    assert record is not None
    first, second = record.listed
    assert (await looking.facts(second)).last_entry_id > 0, "the log has gone on there"
    looking.hidden = {first: 3}
    inspector = SharedLedgerInspector(looking, records, SystemClock())
    seen = await _payloads(inspector, ledger)
    assert 0 < len(seen) < 150
    assert seen == _wanted(ledger, len(seen))
    assert (await inspector.facts(ledger)).last_entry_id == len(seen) - 1
    looking.hidden = {}
    inspector = SharedLedgerInspector(looking, records, SystemClock())
    assert await _payloads(inspector, ledger) == _wanted(ledger, 150)
    records.is_away = False


async def test_segments_that_were_merged_since_the_look_are_found(
    open_log: OpenLog, records: _Records, looking: DirectoryInspector
) -> None:
    store = await open_log()
    ledgers = [await store.create() for _ in range(10)]
    await fill(store, ledgers, range(30))
    for each in ledgers:
        await store.close(each)
    await store.settle(ledgers)
    inspector = SharedLedgerInspector(looking, records, SystemClock())
    assert await _payloads(inspector, ledgers[0]) == _wanted(ledgers[0], 30)
    before = await records.read(0)
    assert before is not None
    for each in ledgers[1:]:
        await store.delete(each)
    read = {each.ledger for each in before.segments}
    await _until(records, lambda record: not read & record.ledgers)
    assert await _payloads(inspector, ledgers[0], at_once=30) == _wanted(ledgers[0], 30)


async def test_in_a_closed_log_a_ledger_without_entries_is_empty(
    open_log: OpenLog, records: _Records, looking: DirectoryInspector
) -> None:
    store = await open_log()
    used, empty = await store.create(), await store.create()
    await fill(store, [used], range(3))
    await (await open_log()).shut_out(0)
    inspector = SharedLedgerInspector(looking, records, SystemClock())
    assert await inspector.facts(used) == LedgerFacts(
        is_closed=True, last_entry_id=2, stored_bytes=300, share=LogShare(HUB, 1)
    )
    assert await inspector.facts(empty) == LedgerFacts(
        is_closed=True, last_entry_id=-1, stored_bytes=0, share=LogShare(HUB, 0)
    )
    assert await _payloads(inspector, empty) == []


async def test_a_removed_log_has_empty_ledgers_and_one_that_never_was_has_none(
    records: _Records, looking: DirectoryInspector
) -> None:
    await records.delete(await records.create(HUB))
    inspector = SharedLedgerInspector(looking, records, SystemClock())
    assert await inspector.facts(virtual_id(0, 5)) == LedgerFacts(
        is_closed=True, last_entry_id=-1, stored_bytes=0, share=LogShare(None, 0)
    )
    assert await _payloads(inspector, virtual_id(0, 5)) == []
    with pytest.raises(NoSuchLedgerError, match="never been a log 1"):
        await inspector.facts(virtual_id(1, 5))


async def test_a_lost_segment_is_an_error_of_the_ledgers_that_may_be_in_it(
    open_log: OpenLog, below: LocalLedgerStore, records: _Records, looking: DirectoryInspector
) -> None:
    store = await open_log()
    one = await store.create()
    await fill(store, [one], range(3))
    await store.close(one)
    await store.settle([one])
    other = await store.create()
    await fill(store, [other], range(3))
    await (await open_log()).shut_out(0)
    record = await records.read(0)
    assert record is not None
    lost, kept = record.segments
    await below.delete(lost.ledger)
    inspector = SharedLedgerInspector(looking, records, SystemClock())
    with pytest.raises(NoSuchLedgerError, match=f"segment of log 0 is missing.*slot 1.*{lost.ledger}"):
        await inspector.facts(one)
    with pytest.raises(NoSuchLedgerError):
        await inspector.read(one, 0, entries_max=9, bytes_max=99)
    assert kept.lowest_slot == 2
    assert await _payloads(inspector, other) == _wanted(other, 3)
