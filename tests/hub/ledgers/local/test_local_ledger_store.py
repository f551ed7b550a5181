"""Prove the promises of the local ledger store beyond those of every store: segments, queue, limits, directory."""

import asyncio
from pathlib import Path

import pytest

from hedwig.errors import ConfigurationError, EntryOrderError, InvalidArgumentError, LedgerClosedError
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.support.contents import fill, payload, read_all


async def test_ledgers_over_many_segments_are_read_from_every_entry(store: LocalLedgerStore) -> None:
    ledgers = [await store.create() for _ in range(7)]
    await fill(store, ledgers, range(60))
    segments = (await store.stats()).segments
    assert segments is not None
    assert segments > 5
    for ledger in ledgers:
        for first in range(60):
            contents = await store.read(ledger, first, entries_max=9, bytes_max=1 << 20)
            assert contents == [payload(ledger, entry) for entry in range(first, min(first + 9, 60))]


async def test_entry_over_the_limit_is_refused_and_changes_nothing(open_store: OpenStore) -> None:
    store = await open_store(entry_bytes_max=50)
    ledger = await store.create()
    with pytest.raises(InvalidArgumentError, match="51 bytes"):
        await store.append(ledger, 0, bytes(51))
    await store.append(ledger, 0, bytes(50))


async def test_appends_wait_when_too_many_bytes_are_queued(open_store: OpenStore) -> None:
    store = await open_store(queue_bytes_max=4096)
    ledgers = [await store.create() for _ in range(3)]
    most = 0

    async def watch(append: "asyncio.Future[None]") -> None:
        nonlocal most
        await append
        most = max(most, (await store.stats()).queued_bytes)

    async with asyncio.TaskGroup() as group:
        for entry in range(100):
            for ledger in ledgers:
                group.create_task(watch(asyncio.ensure_future(store.append(ledger, entry, payload(ledger, entry)))))
    assert 0 < most <= 4096
    for ledger in ledgers:
        assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(100)]
    assert (await store.stats()).queued_bytes == 0


async def test_cancelled_append_that_still_waits_leaves_no_gap(open_store: OpenStore) -> None:
    store = await open_store(queue_bytes_max=1)
    first, second = await store.create(), await store.create()
    blocker = asyncio.ensure_future(store.append(second, 0, b"x" * 1000))
    appends = [asyncio.ensure_future(store.append(first, entry, b"%d" % entry)) for entry in range(6)]
    await asyncio.sleep(0)
    appends[2].cancel()
    results = await asyncio.gather(*appends, return_exceptions=True)
    assert results[:2] == [None, None]
    assert isinstance(results[2], asyncio.CancelledError)
    assert all(isinstance(result, EntryOrderError) for result in results[3:])
    await blocker
    await store.append(first, 2, b"again")
    await store.append(first, 3, b"more")
    assert await read_all(store, first) == [b"0", b"1", b"again", b"more"]


@pytest.mark.parametrize("field", ["segment_bytes", "queue_bytes_max", "read_threads", "reserve_bytes"])
def test_option_that_cannot_work_is_refused_by_name(field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        LocalLedgerOptions(**{field: 0})


async def test_reads_while_segments_roll_and_vanish_see_every_entry(open_store: OpenStore) -> None:
    """Readers meet segments in every state: in memory, sealed, being rewritten, removed."""
    store = await open_store(segment_bytes=4096, upkeep_interval_s=0.01, rewrite_bytes_per_s=1 << 30)
    kept = await store.create()
    appended = 0
    stop = False

    async def read_on() -> int:
        turns = 0
        while not stop:
            until = appended
            contents = await read_all(store, kept)
            assert len(contents) >= until
            assert contents == [payload(kept, entry) for entry in range(len(contents))]
            turns += 1
        return turns

    readers = [asyncio.ensure_future(read_on()) for _ in range(3)]
    for turn in range(30):
        doomed = [await store.create() for _ in range(5)]
        await fill(store, doomed, range(4))
        await store.append(kept, turn, payload(kept, turn))
        appended += 1
        for ledger in doomed:
            await store.delete(ledger)
    stop = True
    assert min(await asyncio.gather(*readers)) > 0


async def test_unusable_directory_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    with pytest.raises(ConfigurationError, match=str(file)):
        await LocalLedgerStore.open(file / "ledgers")


async def test_what_was_acknowledged_is_known_without_taking_over(open_store: OpenStore) -> None:
    store = await open_store()
    ledger = await store.create()
    appends = [asyncio.ensure_future(store.append(ledger, entry, b"x")) for entry in range(50)]
    await asyncio.gather(*appends)
    await store.aclose()
    assert await (await open_store()).last_entry_id(ledger) == 49


async def test_ledger_that_an_earlier_incarnation_closed_is_known_as_closed(open_store: OpenStore) -> None:
    store = await open_store()
    ledger = await store.create()
    await store.close(ledger)
    await store.aclose()
    store = await open_store()
    with pytest.raises(LedgerClosedError):
        await store.append(ledger, 0, b"no")
