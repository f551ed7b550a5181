"""Reads of entries from any bookie that has them, in virtual time."""

import asyncio

import pytest

from hedwig.errors import CorruptEntryError, LedgerStoreUnavailableError
from hedwig.hub.ledgers.bookkeeper.cluster import BookieClusterOptions
from tests.hub.ledgers.bookkeeper.support.room import TWO_OF_THREE, Room, run


def test_reading_goes_on_to_the_next_copy() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(6)
        await room.store.close(ledger_id)
        await asyncio.sleep(1)
        left, middle, right = room.members(ledger_id)
        entries = room.model[left].entries[ledger_id]
        entries[1] = entries[1][:-1] + b"?"
        entries[2] = entries[3]
        del entries[4]
        room.model.crash(middle)
        contents = await room.client().read(ledger_id, 0, entries_max=10, bytes_max=1000)
        assert contents == [b"entry %d" % entry for entry in range(6)]
        del room.model[right].entries[ledger_id][1]
        with pytest.raises(LedgerStoreUnavailableError):
            await room.client().read(ledger_id, 1, entries_max=10, bytes_max=1000)
        room.model.start(middle)
        del room.model[middle].entries[ledger_id][1]
        with pytest.raises(CorruptEntryError, match="entry 1 of ledger"):
            await room.client().read(ledger_id, 1, entries_max=10, bytes_max=1000)
        # The read returns the entries before the damaged one. A read from that one on fails.
        assert await room.client().read(ledger_id, 0, entries_max=10, bytes_max=1000) == [b"entry 0"]

    run(work)


def test_a_slow_bookie_is_not_waited_for() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=BookieClusterOptions(speculative_read_s=0.5, read_timeout_s=30.0))
        ledger_id = await room.filled(1)
        await room.store.close(ledger_id)
        loop = asyncio.get_running_loop()
        room.model.slow = 0.7
        begun = loop.time()
        assert await room.client().read(ledger_id, 0, entries_max=1, bytes_max=1) == [b"entry 0"]
        assert loop.time() - begun < 25

    run(work)


def test_reading_is_bounded_by_entries_and_bytes_but_gives_one_at_least() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(10)
        read = room.store.read
        assert len(await read(ledger_id, 2, entries_max=3, bytes_max=1000)) == 3
        assert len(await read(ledger_id, 2, entries_max=100, bytes_max=1000)) == 8
        assert len(await read(ledger_id, 2, entries_max=100, bytes_max=15)) == 2
        assert len(await read(ledger_id, 2, entries_max=100, bytes_max=0)) == 1
        assert await read(ledger_id, 10, entries_max=1, bytes_max=1) == []
        # Another client knows an entry only if a later entry confirms it, or if it has read the last entry itself.
        assert await room.client().last_entry_id(ledger_id) == 8

    run(work)


def test_a_writer_tells_its_last_entry_once_nothing_more_comes() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=BookieClusterOptions(tell_lac_after_s=1.0))
        ledger_id = await room.filled(10)
        assert await room.client().last_entry_id(ledger_id) == 8
        await asyncio.sleep(3)
        reader = room.client()
        assert await reader.last_entry_id(ledger_id) == 9
        contents = await reader.read(ledger_id, 0, entries_max=100, bytes_max=1000)
        assert contents == [b"entry %d" % entry for entry in range(10)]
        # The writer sends no confirmation that bookies already have, and none for a closed ledger.
        sent = {name: bookie.lacs.pop(ledger_id) for name, bookie in room.model.bookies.items()}
        assert set(sent) == set(room.members(ledger_id))
        await asyncio.sleep(3)
        await room.store.append(ledger_id, 10, b"more")
        await room.store.close(ledger_id)
        await asyncio.sleep(3)
        assert not any(bookie.lacs for bookie in room.model.bookies.values())

    run(work)


def test_damaged_news_of_the_last_entry_is_not_believed() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=BookieClusterOptions(tell_lac_after_s=1.0))
        ledger_id = await room.filled(10)
        await asyncio.sleep(3)
        for name in room.members(ledger_id):
            lacs = room.model[name].lacs
            lacs[ledger_id] = lacs[ledger_id][:15] + b"\x63" + lacs[ledger_id][16:]
        with pytest.raises(LedgerStoreUnavailableError, match="digest of a last add confirmed"):
            await room.client().last_entry_id(ledger_id)

    run(work)
