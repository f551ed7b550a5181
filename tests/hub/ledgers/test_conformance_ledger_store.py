"""Prove what a ledger store promises to whoever uses it in peace."""

import asyncio
from pathlib import Path

import pytest

from hedwig.errors import (
    ConfigurationError,
    EntryOrderError,
    InvalidArgumentError,
    LedgerClosedError,
    LedgerFencedError,
    LedgerStoreClosedError,
    NoSuchLedgerError,
)
from hub.ledgers import LedgerStore, LocalLedgerOptions, LocalLedgerStore
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.contents import fill, payload, read_all


async def test_entries_come_back_in_order_and_unchanged(store: LedgerStore) -> None:
    first, second = await store.create(), await store.create()
    odd = [b"", b"\0", bytes(range(256)) * 8, b"HLr\2" * 30]
    for entry, data in enumerate(odd):
        await store.append(first, entry, data)
        await store.append(second, entry, data[::-1])
    assert await read_all(store, first) == odd
    assert await read_all(store, second) == [data[::-1] for data in odd]
    assert await store.last_entry_id(first) == 3


async def test_ledgers_over_many_segments_are_read_from_every_entry(store: LocalLedgerStore) -> None:
    ledgers = [await store.create() for _ in range(7)]
    await fill(store, ledgers, range(60))
    assert (await store.stats()).segments > 5
    for ledger in ledgers:
        for first in range(60):
            found = await store.read(ledger, first, entries_max=9, bytes_max=1 << 20)
            assert found == [payload(ledger, entry) for entry in range(first, min(first + 9, 60))]


async def test_read_stops_at_either_bound_but_gives_at_least_one(store: LedgerStore) -> None:
    ledger = await store.create()
    await fill(store, [ledger], range(10))
    assert len(await store.read(ledger, 2, entries_max=3, bytes_max=10_000)) == 3
    assert len(await store.read(ledger, 2, entries_max=9, bytes_max=250)) == 2
    assert await store.read(ledger, 2, entries_max=9, bytes_max=0) == [payload(ledger, 2)]
    assert await store.read(ledger, 10, entries_max=9, bytes_max=1) == []
    assert await store.read(ledger, 1 << 70, entries_max=9, bytes_max=1) == []


async def test_pipelined_appends_are_acknowledged_in_order(store: LedgerStore) -> None:
    ledgers = [await store.create() for _ in range(3)]
    done: list[tuple[int, int]] = []

    async def append(ledger: int, entry: int) -> None:
        await store.append(ledger, entry, payload(ledger, entry))
        done.append((ledger, entry))

    async with asyncio.TaskGroup() as group:
        for entry in range(200):
            for ledger in ledgers:
                group.create_task(append(ledger, entry))
    for ledger in ledgers:
        assert [entry for which, entry in done if which == ledger] == list(range(200))
        assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(200)]


async def test_append_out_of_turn_is_refused_and_changes_nothing(store: LedgerStore) -> None:
    ledger = await store.create()
    await store.append(ledger, 0, b"zero")
    for entry in (0, 2, -1):
        with pytest.raises(EntryOrderError, match="1 is next"):
            await store.append(ledger, entry, b"no")
    await store.append(ledger, 1, b"one")
    assert await read_all(store, ledger) == [b"zero", b"one"]


async def test_entry_over_the_limit_is_refused_and_changes_nothing(open_store: OpenStore) -> None:
    store = await open_store(entry_bytes_max=50)
    ledger = await store.create()
    with pytest.raises(InvalidArgumentError, match="51 bytes"):
        await store.append(ledger, 0, bytes(51))
    await store.append(ledger, 0, bytes(50))


async def test_entry_larger_than_a_segment_is_kept(store: LedgerStore) -> None:
    ledger = await store.create()
    for entry in range(3):
        await store.append(ledger, entry, bytes([entry]) * 100_000)
    assert await read_all(store, ledger) == [bytes([entry]) * 100_000 for entry in range(3)]


async def test_close_seals_after_the_appends_at_hand(store: LedgerStore) -> None:
    ledger = await store.create()
    appends = [asyncio.ensure_future(store.append(ledger, entry, b"x")) for entry in range(20)]
    await asyncio.sleep(0)
    assert await store.close(ledger) == 19
    assert all(append.done() for append in appends)
    with pytest.raises(LedgerClosedError):
        await store.append(ledger, 20, b"late")
    assert await store.close(ledger) == 19
    assert await store.open_and_fence(ledger) == 19
    assert len(await read_all(store, ledger)) == 20


async def test_fencing_shuts_the_old_writer_out(store: LedgerStore) -> None:
    ledger = await store.create()
    appends = [asyncio.ensure_future(store.append(ledger, entry, b"x")) for entry in range(20)]
    await asyncio.sleep(0)
    fence = asyncio.ensure_future(store.open_and_fence(ledger))
    await asyncio.sleep(0)
    with pytest.raises(LedgerFencedError):
        await store.append(ledger, 20, b"late")
    assert await fence == 19
    assert [append.result() for append in appends] == [None] * 20
    with pytest.raises(LedgerFencedError):
        await store.append(ledger, 20, b"late")
    assert await store.open_and_fence(ledger) == 19


async def test_ledger_of_an_earlier_incarnation_cannot_be_appended_to(open_store: OpenStore) -> None:
    store = await open_store()
    left, closed, empty = await store.create(), await store.create(), await store.create()
    await fill(store, [left, closed], range(3))
    await store.close(closed)
    await store.aclose()
    store = await open_store()
    for ledger, error in ((left, LedgerFencedError), (closed, LedgerClosedError), (empty, LedgerFencedError)):
        with pytest.raises(error):
            await store.append(ledger, 3, b"no")
    assert [await store.open_and_fence(ledger) for ledger in (left, closed, empty)] == [2, 2, -1]
    assert await read_all(store, left) == [payload(left, entry) for entry in range(3)]


async def test_deleted_ledger_is_gone_for_every_operation(store: LedgerStore) -> None:
    ledger, other = await store.create(), await store.create()
    await fill(store, [ledger, other], range(3))
    await store.delete(ledger)
    await store.delete(ledger)
    await store.delete(10**12)
    with pytest.raises(NoSuchLedgerError):
        await store.append(ledger, 3, b"x")
    for operation in (store.close, store.open_and_fence, store.last_entry_id):
        with pytest.raises(NoSuchLedgerError):
            await operation(ledger)
    with pytest.raises(NoSuchLedgerError):
        await store.read(ledger, 0, entries_max=1, bytes_max=1)
    assert [found async for found in store.ledgers()] == [other]
    assert len(await read_all(store, other)) == 3


async def test_ids_are_never_given_twice_even_when_the_last_ledgers_were_deleted(open_store: OpenStore) -> None:
    given: list[int] = []
    for _ in range(6):
        store = await open_store(segment_bytes=4096)
        ledgers = [await store.create() for _ in range(40)]
        await fill(store, ledgers, range(2))
        for ledger in ledgers:
            await store.delete(ledger)
        given += ledgers
        await store.aclose()
    assert given == sorted(set(given))


async def test_all_ledgers_are_listed_in_order(open_store: OpenStore) -> None:
    store = await open_store(segment_bytes=4096)
    ledgers = [await store.create() for _ in range(700)]
    for ledger in ledgers[::3]:
        await store.delete(ledger)
    kept = [ledger for ledger in ledgers if ledger not in ledgers[::3]]
    assert [ledger async for ledger in store.ledgers()] == kept
    await store.aclose()
    store = await open_store(segment_bytes=4096)
    assert [ledger async for ledger in store.ledgers()] == kept
    assert (await store.stats()).ledgers == len(kept)


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


async def test_cancelled_operations_leave_the_store_usable(store: LedgerStore) -> None:
    ledger = await store.create()
    for turn in range(20):
        tasks = [
            asyncio.ensure_future(store.create()),
            asyncio.ensure_future(store.read(ledger, 0, entries_max=1, bytes_max=1)),
            asyncio.ensure_future(store.append(ledger, turn, b"%d" % turn)),
        ]
        for _ in range(turn % 3 + 1):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # An append that had begun is written in spite of its caller; one that had not is the next to come.
        if await store.open_and_fence(ledger) < turn:
            ledger = await store.create()
            await fill(store, [ledger], range(turn + 1))
        else:
            ledger = await store.create()
            await fill(store, [ledger], range(turn + 1))
    assert len(await read_all(store, ledger)) == 20


async def test_closed_store_refuses_everything_and_finishes_what_was_begun(open_store: OpenStore) -> None:
    store = await open_store()
    ledger = await store.create()
    appends = [asyncio.ensure_future(store.append(ledger, entry, b"x")) for entry in range(50)]
    await asyncio.sleep(0)
    await asyncio.gather(store.aclose(), store.aclose())
    assert [append.result() for append in appends] == [None] * 50
    for operation in (
        store.create(),
        store.append(ledger, 50, b"x"),
        store.read(ledger, 0, entries_max=1, bytes_max=1),
    ):
        with pytest.raises(LedgerStoreClosedError):
            await operation
    store = await open_store()
    assert await store.last_entry_id(ledger) == 49


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
            found = await read_all(store, kept)
            assert len(found) >= until
            assert found == [payload(kept, entry) for entry in range(len(found))]
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
