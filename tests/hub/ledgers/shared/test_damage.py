"""Prove that damage in a shared log costs the messages that were damaged, and no others."""

from pathlib import Path

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import CorruptEntryError
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.metadata.logs.virtual_ids import log_of
from hedwig.model import HubInfo
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.shared.support.records import RecordsInMemory
from tests.hub.ledgers.support.contents import fill, payload, read_all

OPTIONS = SharedLogOptions(roll_pause_s=0.0, cache_bytes_max=0)


async def _none_lives(_: HubInfo) -> bool:
    return False


async def _hub(below: LedgerStore, records: RecordsInMemory, host: str) -> SharedLedgerStore:
    hub = HubInfo(host=host, port=4080)
    return await SharedLedgerStore.open(below, records, hub, SystemClock(), OPTIONS, is_alive=_none_lives)


async def _read(store: SharedLedgerStore, ledger: int, first: int, end: int) -> list[bytes]:
    payloads: list[bytes] = []
    while first + len(payloads) < end:
        payloads += await store.read(ledger, first + len(payloads), entries_max=9, bytes_max=9999)
    return payloads


def _damage(folder: Path, found: bytes) -> None:
    """Change what a disk holds of some bytes, which occur once."""
    (path,) = [path for path in folder.glob("*.segment") if found in path.read_bytes()]
    data = bytearray(path.read_bytes())
    data[data.index(found)] ^= 1
    path.write_bytes(data)


async def test_a_damaged_batch_keeps_no_topic_from_being_taken_over(open_store: OpenStore, tmp_path: Path) -> None:
    below, records = await open_store(), RecordsInMemory()
    one, other = [await _hub(below, records, host) for host in ("one", "other")]
    hit, sound = await one.create(), await one.create()
    for entry in range(6):
        # One after the other, so that each has a batch of its own.
        await fill(one, [hit], range(entry, entry + 1))
        await fill(one, [sound], range(entry, entry + 1))
    await one.abandon()
    _damage(tmp_path / "ledgers", payload(hit, 2))

    assert await other.shut_out(log_of(hit))
    assert await other.open_and_fence(hit) == await other.open_and_fence(sound) == 5
    assert await read_all(other, sound) == [payload(sound, entry) for entry in range(6)]
    assert await _read(other, hit, 0, 2) == [payload(hit, entry) for entry in (0, 1)]
    with pytest.raises(CorruptEntryError, match="entry 2 of slot 1 is lost"):
        await other.read(hit, 2, entries_max=9, bytes_max=9999)
    assert await _read(other, hit, 3, 6) == [payload(hit, entry) for entry in (3, 4, 5)]
    await other.abandon()


async def _lose_footer(below: LedgerStore, records: RecordsInMemory, folder: Path, part: str) -> None:
    """Damage the footer of the only segment of the first log, which has a ledger of its own, or delete it."""
    record = await records.read(0)
    assert record is not None
    (segment,) = record.segments
    assert segment.footer != segment.ledger
    if part == "all":
        await below.delete(segment.footer)
        return
    entry = 0 if part == "block" else await below.last_entry_id(segment.footer)
    (data,) = await below.read(segment.footer, entry, entries_max=1, bytes_max=0)
    _damage(folder, data)


@pytest.mark.parametrize("part", ["root", "block", "all"])
async def test_a_footer_that_is_lost_costs_no_message(open_store: OpenStore, tmp_path: Path, part: str) -> None:
    below, records = await open_store(), RecordsInMemory()
    one, other = [await _hub(below, records, host) for host in ("one", "other")]
    ledgers = [await one.create() for _ in range(3)]
    await fill(one, ledgers, range(6))
    await one.abandon()
    assert await other.shut_out(log_of(ledgers[0]))
    await _lose_footer(below, records, tmp_path / "ledgers", part)

    # It has none of it in memory.
    third = await _hub(below, records, "third")
    for ledger in ledgers:
        assert await third.open_and_fence(ledger) == 5
        assert await read_all(third, ledger) == [payload(ledger, entry) for entry in range(6)]
    assert [await third.last_entry_id(ledger) for ledger in ledgers] == [5, 5, 5]
    for each in (other, third):
        await each.abandon()


async def test_a_topic_whose_last_message_may_be_lost_gets_no_end(open_store: OpenStore, tmp_path: Path) -> None:
    """Else the next message would get the id of one that subscribers have consumed."""
    below, records = await open_store(), RecordsInMemory()
    one, other = [await _hub(below, records, host) for host in ("one", "other")]
    hit, sound = await one.create(), await one.create()
    for entry in range(6):
        await fill(one, [sound], range(entry, entry + 1))
        await fill(one, [hit], range(entry, entry + 1))
    await one.abandon()
    assert await other.shut_out(log_of(hit))
    await _lose_footer(below, records, tmp_path / "ledgers", "root")
    _damage(tmp_path / "ledgers", payload(hit, 5))

    third = await _hub(below, records, "third")
    for ledger in (hit, sound):
        with pytest.raises(CorruptEntryError, match="so are batches with 1 of its messages"):
            await third.open_and_fence(ledger)
    assert await _read(third, sound, 0, 6) == [payload(sound, entry) for entry in range(6)]
    assert await _read(third, hit, 0, 5) == [payload(hit, entry) for entry in range(5)]
    for each in (other, third):
        await each.abandon()
