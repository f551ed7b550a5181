"""Prove that a census tells which ledgers in shared logs there are, what closed logs have of them, and what is lost."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hedwig.clock import SystemClock
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.census import LedgerEntry
from hedwig.hub.ledgers.local.census import LocalLedgerCensus
from hedwig.hub.ledgers.shared.census import SharedLedgerCensus
from hedwig.hub.ledgers.shared.inspector import InspectedLedgers
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.metadata.logs.record import LogRecord, LogState, Segment
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.model import HubInfo
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.shared.support.looking import DirectoryInspector
from tests.hub.ledgers.shared.support.records import RecordsInMemory
from tests.hub.ledgers.support.contents import fill

HUB = HubInfo(host="here", port=4080, epoch=1)
OPTIONS = SharedLogOptions(segment_bytes=8 << 10, roll_pause_s=0.0, upkeep_interval_s=3600.0, grace_s=0.0)

OpenLog = Callable[[], Awaitable[SharedLedgerStore]]
OpenCensus = Callable[[RecordsInMemory], Awaitable[SharedLedgerCensus]]


async def _nobody(_: HubInfo) -> bool:
    return False


@pytest.fixture
def records() -> RecordsInMemory:
    return RecordsInMemory()


@pytest.fixture
async def below(open_store: OpenStore) -> LocalLedgerStore:
    return await open_store(segment_bytes=1 << 20)


@pytest.fixture
async def open_log(below: LocalLedgerStore, records: RecordsInMemory) -> AsyncIterator[OpenLog]:
    stores: list[SharedLedgerStore] = []

    async def open_it() -> SharedLedgerStore:
        stores.append(await SharedLedgerStore.open(below, records, HUB, SystemClock(), OPTIONS, is_alive=_nobody))
        return stores[-1]

    yield open_it
    for each in stores:
        await each.abandon()


@pytest.fixture
def open_census(below: LocalLedgerStore, tmp_path: Path) -> OpenCensus:
    assert below is not None

    async def open_it(records: RecordsInMemory) -> SharedLedgerCensus:
        path = tmp_path / "ledgers"
        local = await LocalLedgerCensus.open(path)
        return SharedLedgerCensus(local, records, InspectedLedgers(DirectoryInspector(path)))

    return open_it


async def _record(records: RecordsInMemory, number: int) -> LogRecord:
    record = await records.read(number)
    assert record is not None
    return record


async def test_last_entries_are_those_of_closed_logs(
    open_log: OpenLog, below: LocalLedgerStore, records: RecordsInMemory, open_census: OpenCensus
) -> None:
    store, other = await open_log(), await open_log()
    lasts = {await store.create(): entry for entry in (-1, 0, 40, 80)}
    for ledger, last in lasts.items():
        await fill(store, [ledger], range(last + 1))
    own = await below.create()
    census = await open_census(records)
    wanted = [*lasts, own, virtual_id(9, 1)]
    assert await census.find(wanted) == [*map(_entry, lasts), LedgerEntry(ledger_id=own), None]
    await other.shut_out(0)
    assert len((await _record(records, 0)).segments) > 1
    assert await census.find(wanted) == [
        *(LedgerEntry(ledger_id=each, last_entry_id=last) for each, last in lasts.items()),
        LedgerEntry(ledger_id=own),
        None,
    ]


def _entry(ledger_id: int) -> LedgerEntry:
    return LedgerEntry(ledger_id=ledger_id)


async def test_a_log_that_was_removed_had_nothing(records: RecordsInMemory, open_census: OpenCensus) -> None:
    await records.delete(await records.create(HUB))
    census = await open_census(records)
    removed = virtual_id(0, 7)
    assert await census.find([removed]) == [LedgerEntry(ledger_id=removed, last_entry_id=-1)]


async def test_what_may_be_in_a_lost_segment_is_lost_and_a_gap_ends_what_a_log_has(
    open_log: OpenLog, below: LocalLedgerStore, records: RecordsInMemory, open_census: OpenCensus
) -> None:
    store, other = await open_log(), await open_log()
    for _ in range(3):
        ledger = await store.create()
        await fill(store, [ledger], range(1))
        await store.close(ledger)
        await store.settle([ledger])
    long = await store.create()
    await fill(store, [long], range(200))
    await other.shut_out(0)
    first, *_, middle, last = (await _record(records, 0)).segments
    assert (first.highest_slot, middle.lowest_slot, middle.highest_slot) == (1, 4, 4)
    await below.delete(first.ledger)
    census = await open_census(records)
    found = await census.find([virtual_id(0, slot) for slot in range(1, 5)])
    lost = f"ledger {first.ledger} of a segment does not exist"
    assert [entry and entry.lost for entry in found] == [lost, None, None, None]
    record = await _record(records, 0)
    gap = record.changed(segments=tuple(each for each in record.segments if each not in (first, middle)))
    assert await records.replace(record, gap)
    (entry,) = await census.find([long])
    assert entry is not None
    assert entry.lost is None
    assert entry.last_entry_id is not None
    assert 0 < entry.last_entry_id < 199 - last.records


class _Behind(RecordsInMemory):
    """Records that are read once more as they were a moment ago."""

    before: LogRecord | None = None

    async def read(self, number: int) -> LogRecord | None:
        before, self.before = self.before, None
        return before or await super().read(number)


async def test_segments_that_are_merged_meanwhile_are_not_lost(
    open_store: OpenStore, open_census: OpenCensus, below: LocalLedgerStore
) -> None:
    assert open_store is not None
    records = _Behind()
    store = await SharedLedgerStore.open(below, records, HUB, SystemClock(), OPTIONS, is_alive=_nobody)
    ledgers = [await store.create() for _ in range(10)]
    await fill(store, ledgers, range(30))
    other = await SharedLedgerStore.open(below, records, HUB, SystemClock(), OPTIONS, is_alive=_nobody)
    await other.shut_out(0)
    before = await _record(records, 0)
    after = await other.sweep(before, lambda slot: slot == 1)
    assert not {each.ledger for each in before.segments} & after.ledgers
    census = await open_census(records)
    records.before = before
    assert await census.find(ledgers[:1]) == [LedgerEntry(ledger_id=ledgers[0], last_entry_id=29)]
    for each in (store, other):
        await each.abandon()


async def test_what_a_damaged_footer_may_tell_of_is_lost(
    below: LocalLedgerStore, records: RecordsInMemory, open_census: OpenCensus
) -> None:
    ledger = await below.create()
    await below.append(ledger, 0, b"no footer")
    await below.close(ledger)
    segment = Segment(ledger=ledger, footer=ledger, lowest_slot=2, highest_slot=3, records=9, size=99)
    log = await records.create(HUB)
    assert await records.replace(log, log.changed(state=LogState.CLOSED, segments=(segment,)))
    found = await (await open_census(records)).find([virtual_id(0, slot) for slot in (1, 2, 3)])
    assert [entry and (entry.lost is None) for entry in found] == [True, False, False]
