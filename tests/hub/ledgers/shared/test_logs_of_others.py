"""Prove that a hub reads what other hubs have written into their logs, however long ago it read their records."""

from hedwig.clock import SystemClock
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.model import HubInfo
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.shared.support.records import RecordsInMemory
from tests.hub.ledgers.support.contents import fill, payload, read_all

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
