"""Prove that a hub reads what others have written into their logs, and leaves nothing behind in one that it lost."""

import asyncio
from typing import Any

from hedwig.clock import SystemClock
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.metadata.logs.record import LogRecord
from hedwig.model import HubInfo
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.shared.support.records import RecordsInMemory
from tests.hub.ledgers.support.contents import fill, payload, read_all
from tests.hub.support.wire_client import eventually

OPTIONS = SharedLogOptions(segment_bytes=8 << 10, roll_pause_s=0.0)


async def _all_live(_: HubInfo) -> bool:
    return True


async def test_what_a_living_hub_seals_later_is_read_too(open_store: OpenStore) -> None:
    """The other hub has read the record of the log for an earlier topic that moved."""
    below, records = await open_store(), RecordsInMemory()
    one, other = [
        await SharedLedgerStore.open(
            below, records, HubInfo(host=host, port=4080), SystemClock(), OPTIONS, is_alive=_all_live
        )
        for host in ("one", "other")
    ]
    for _ in range(3):
        ledger = await one.create()
        await fill(one, [ledger], range(20))
        assert await one.close(ledger) == 19
        await one.settle([ledger])
        assert await other.last_entry_id(ledger) == 19
        assert await read_all(other, ledger) == [payload(ledger, entry) for entry in range(20)]
        second = await one.create()
        await fill(one, [second], range(20))
        await one.close(second)
        await one.settle([second])
        assert await read_all(other, second) == [payload(second, entry) for entry in range(20)]
    for each in (one, other):
        await each.abandon()


class _HeldBack:
    """Log records of a hub whose changes wait until `may_go_on`."""

    def __init__(self, records: RecordsInMemory) -> None:
        self._records = records
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.waiting = 0

    async def replace(self, present: LogRecord, wanted: LogRecord) -> bool:
        self.waiting += 1
        await self.may_go_on.wait()
        self.waiting -= 1
        return await self._records.replace(present, wanted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)


async def test_hub_that_ends_leaves_no_ledger_in_a_log_that_is_gone(open_store: OpenStore) -> None:
    """It has a next ledger in its hands, which its record does not name yet, while others need nothing of its log."""
    below, records = await open_store(), RecordsInMemory()
    held = _HeldBack(records)
    hub = HubInfo(host="one", port=4080)
    store = await SharedLedgerStore.open(below, held, hub, SystemClock(), OPTIONS, is_alive=_all_live)
    ledger = await store.create()
    await fill(store, [ledger], range(1))

    async def has_next() -> bool:
        record = await records.read(0)
        return record is not None and len(record.listed) == 2

    await eventually(has_next, "the log has its next ledger")
    held.may_go_on.clear()
    entries = 1
    while not held.waiting:
        await fill(store, [ledger], range(entries, entries + 10))
        entries += 10
    record = await records.read(0)
    assert record is not None
    assert await records.delete(record)
    for each in record.ledgers:
        await below.delete(each)
    assert [each async for each in below.ledgers()], "the next ledger"
    await store.aclose()
    assert not [each async for each in below.ledgers()]
