"""Prove the promises of a ledger store to its clients without faults, wherever it keeps the ledgers."""

import asyncio
import time

import pytest

from hedwig.errors import (
    EntryOrderError,
    LedgerClosedError,
    LedgerFencedError,
    LedgerStoreClosedError,
    NoSuchLedgerError,
)
from hedwig.hub.ledgers import LedgerStore, LocalLedgerStore
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from tests.hub.ledgers.conftest import OpenAnyStore
from tests.hub.ledgers.support.contents import fill, payload, read_all


async def test_entries_come_back_in_order_and_unchanged(any_store: LedgerStore) -> None:
    first, second = await any_store.create(), await any_store.create()
    odd = [b"", b"\0", bytes(range(256)) * 8, b"HLr\2" * 30]
    for entry, data in enumerate(odd):
        await any_store.append(first, entry, data)
        await any_store.append(second, entry, data[::-1])
    assert await read_all(any_store, first) == odd
    assert await read_all(any_store, second) == [data[::-1] for data in odd]
    assert await any_store.last_entry_id(first) == 3


async def test_read_stops_at_either_bound_but_gives_at_least_one(any_store: LedgerStore) -> None:
    ledger = await any_store.create()
    await fill(any_store, [ledger], range(10))
    assert len(await any_store.read(ledger, 2, entries_max=3, bytes_max=10_000)) == 3
    assert len(await any_store.read(ledger, 2, entries_max=9, bytes_max=250)) == 2
    assert await any_store.read(ledger, 2, entries_max=9, bytes_max=0) == [payload(ledger, 2)]
    assert await any_store.read(ledger, 10, entries_max=9, bytes_max=1) == []
    assert await any_store.read(ledger, 1 << 70, entries_max=9, bytes_max=1) == []


async def test_bytes_are_those_of_the_payloads_from_an_entry_on(open_any_store: OpenAnyStore) -> None:
    store = await open_any_store()
    ledger, other, empty = [await store.create() for _ in range(3)]
    sizes = [(37 * entry) % 900 for entry in range(120)]
    for entry, size in enumerate(sizes):
        # At once, so that a shared log has them in one batch.
        await asyncio.gather(*(store.append(each, entry, bytes(size)) for each in (ledger, other)))

    async def check(store: LedgerStore) -> None:
        assert await store.bytes_from(empty, 0, enough=1 << 40) == 0
        for entry in (0, 1, 2, 17, 60, 61, 118, 119, 120):
            assert await store.bytes_from(ledger, entry, enough=1 << 40) == sum(sizes[entry:])
        assert 1000 < await store.bytes_from(ledger, 0, enough=1000) <= sum(sizes)

    await check(store)
    for each in (ledger, empty):
        await store.close(each)
    await check(store)
    await store.aclose()
    store = await open_any_store()
    assert await store.open_and_fence(ledger) == 119
    empty = await store.create()
    await check(store)


async def test_many_entries_at_once_have_the_bytes_that_each_has(any_store: LedgerStore) -> None:
    ledger = await any_store.create()
    await asyncio.gather(*(any_store.append(ledger, entry, bytes(entry % 7)) for entry in range(9000)))
    for first in (0, 1, 4095, 4096, 8999):
        assert await any_store.bytes_from(ledger, first, enough=1 << 40) == sum(each % 7 for each in range(first, 9000))


async def test_pipelined_appends_are_acknowledged_in_order(any_store: LedgerStore) -> None:
    ledgers = [await any_store.create() for _ in range(3)]
    done: list[tuple[int, int]] = []

    async def append(ledger: int, entry: int) -> None:
        await any_store.append(ledger, entry, payload(ledger, entry))
        done.append((ledger, entry))

    async with asyncio.TaskGroup() as group:
        for entry in range(200):
            for ledger in ledgers:
                group.create_task(append(ledger, entry))
    for ledger in ledgers:
        assert [entry for which, entry in done if which == ledger] == list(range(200))
        assert await read_all(any_store, ledger) == [payload(ledger, entry) for entry in range(200)]


async def test_append_out_of_turn_is_refused_and_changes_nothing(any_store: LedgerStore) -> None:
    ledger = await any_store.create()
    await any_store.append(ledger, 0, b"zero")
    for entry in (0, 2, -1):
        with pytest.raises(EntryOrderError, match="1 is next"):
            await any_store.append(ledger, entry, b"no")
    await any_store.append(ledger, 1, b"one")
    assert await read_all(any_store, ledger) == [b"zero", b"one"]


async def test_large_entries_are_kept(any_store: LedgerStore) -> None:
    ledger = await any_store.create()
    for entry in range(3):
        await any_store.append(ledger, entry, bytes([entry]) * 100_000)
    assert await read_all(any_store, ledger) == [bytes([entry]) * 100_000 for entry in range(3)]


async def test_close_seals_after_the_appends_at_hand(any_store: LedgerStore) -> None:
    ledger = await any_store.create()
    appends = [asyncio.ensure_future(any_store.append(ledger, entry, b"x")) for entry in range(20)]
    await asyncio.sleep(0)
    assert await any_store.close(ledger) == 19
    assert all(append.done() for append in appends)
    with pytest.raises(LedgerClosedError):
        await any_store.append(ledger, 20, b"late")
    assert await any_store.close(ledger) == 19
    assert await any_store.open_and_fence(ledger) == 19
    assert len(await read_all(any_store, ledger)) == 20


async def test_fencing_shuts_the_old_writer_out(any_store: LedgerStore) -> None:
    ledger = await any_store.create()
    appends = [asyncio.ensure_future(any_store.append(ledger, entry, b"x")) for entry in range(20)]
    await asyncio.sleep(0)
    fence = asyncio.ensure_future(any_store.open_and_fence(ledger))
    await asyncio.sleep(0)
    with pytest.raises(LedgerFencedError):
        await any_store.append(ledger, 20, b"late")
    assert await fence == 19
    assert [append.result() for append in appends] == [None] * 20
    with pytest.raises(LedgerFencedError):
        await any_store.append(ledger, 20, b"late")
    assert await any_store.open_and_fence(ledger) == 19


async def test_ledger_of_an_earlier_incarnation_cannot_be_appended_to(open_any_store: OpenAnyStore) -> None:
    store = await open_any_store()
    left, closed, empty = await store.create(), await store.create(), await store.create()
    await fill(store, [left, closed], range(3))
    await store.close(closed)
    await store.aclose()
    store = await open_any_store()
    for ledger in (left, closed, empty):
        with pytest.raises((LedgerFencedError, LedgerClosedError)):
            await store.append(ledger, 3, b"no")
    assert [await store.open_and_fence(ledger) for ledger in (left, closed, empty)] == [2, 2, -1]
    assert await read_all(store, left) == [payload(left, entry) for entry in range(3)]


async def test_ledger_that_was_let_go_takes_no_more_and_is_recovered(any_store: LedgerStore) -> None:
    ledger = await any_store.create()
    await fill(any_store, [ledger], range(3))
    assert (await any_store.stats()).open_ledgers == 1
    any_store.let_go(ledger)
    any_store.let_go(ledger)
    assert (await any_store.stats()).open_ledgers == 0
    with pytest.raises(LedgerFencedError):
        await any_store.append(ledger, 3, b"late")
    assert await any_store.open_and_fence(ledger) == 2
    assert await read_all(any_store, ledger) == [payload(ledger, entry) for entry in range(3)]


async def test_deleted_ledger_is_gone_for_every_operation(any_store: LedgerStore) -> None:
    ledger, other = await any_store.create(), await any_store.create()
    await fill(any_store, [ledger, other], range(3))
    await any_store.delete(ledger)
    await any_store.delete(ledger)
    await any_store.delete(10**12)
    with pytest.raises(NoSuchLedgerError):
        await any_store.append(ledger, 3, b"x")
    for operation in (any_store.close, any_store.open_and_fence, any_store.last_entry_id):
        with pytest.raises(NoSuchLedgerError):
            await operation(ledger)
    with pytest.raises(NoSuchLedgerError):
        await any_store.read(ledger, 0, entries_max=1, bytes_max=1)
    with pytest.raises(NoSuchLedgerError):
        await any_store.bytes_from(ledger, 0, enough=1)
    ledger_ids = [each async for each in any_store.ledgers()]
    assert (ledger in ledger_ids, other in ledger_ids) == (False, True)
    assert len(await read_all(any_store, other)) == 3


async def test_ids_are_never_given_twice_even_when_the_last_ledgers_were_deleted(open_any_store: OpenAnyStore) -> None:
    given: list[int] = []
    for _ in range(6):
        store = await open_any_store()
        ledgers = [await store.create() for _ in range(40)]
        await fill(store, ledgers, range(2))
        for ledger in ledgers:
            await store.delete(ledger)
        given += ledgers
        await store.aclose()
    assert given == sorted(set(given))


async def test_all_ledgers_are_listed_in_order(open_any_store: OpenAnyStore) -> None:
    store = await open_any_store()
    # Other clients may keep ledgers in the same store.
    before = [ledger async for ledger in store.ledgers()]
    ledgers = [await store.create() for _ in range(300)]
    await asyncio.gather(*(store.append(ledger, 0, b"x") for ledger in ledgers))
    for ledger in ledgers[::3]:
        await store.delete(ledger)
    kept = [ledger for ledger in ledgers if ledger not in ledgers[::3]]
    assert [ledger async for ledger in store.ledgers()] == before + kept
    await store.aclose()
    store = await open_any_store()
    # A shared log frees the space of deleted ledgers later, and only its own hub knows of them before.
    listed = before + (ledgers if isinstance(store, SharedLedgerStore) else kept)
    assert [ledger async for ledger in store.ledgers()] == listed
    # Only a store that keeps the ledgers itself knows their number.
    counted = len(before + kept) if isinstance(store, LocalLedgerStore) else None
    assert (await store.stats()).ledgers == counted


async def test_cancelled_operations_leave_the_store_usable(any_store: LedgerStore) -> None:
    ledger = await any_store.create()
    for turn in range(20):
        tasks = [
            asyncio.ensure_future(any_store.create()),
            asyncio.ensure_future(any_store.read(ledger, 0, entries_max=1, bytes_max=1)),
            asyncio.ensure_future(any_store.append(ledger, turn, b"%d" % turn)),
        ]
        for _ in range(turn % 3 + 1):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        # The append may be behind one that was cancelled before it had begun.
        assert {type(each) for each in failures} <= {asyncio.CancelledError}, failures
        # A cancelled append that had begun is still written. One that had not begun leaves its id to the next append.
        if await any_store.open_and_fence(ledger) < turn:
            ledger = await any_store.create()
            await fill(any_store, [ledger], range(turn + 1))
        else:
            ledger = await any_store.create()
            await fill(any_store, [ledger], range(turn + 1))
    assert len(await read_all(any_store, ledger)) == 20


async def test_creations_that_are_cancelled_leave_no_ledger_once_they_are_undone(any_store: LedgerStore) -> None:
    made: list[int] = []
    doubts: list[tuple[int, int]] = []
    before = await any_store.create()
    took_s = 1.0
    turn = 0
    waits = False
    # The first creation is slow. Later ones are cancelled at all times up to twice what one took that was not.
    # On a busy machine that changes.
    while turn < 40 or (turn < 2000 and waits and not doubts):
        began = time.monotonic()
        creating = asyncio.ensure_future(any_store.create(None, lambda *doubt: doubts.append(doubt)))
        await asyncio.sleep(0)
        waits = waits or not creating.done()
        await asyncio.wait([creating], timeout=took_s * (20 - turn % 20) / 10)
        if creating.done():
            took_s = time.monotonic() - began
        else:
            took_s *= 1.1
        creating.cancel()
        await asyncio.wait([creating])
        made += [] if creating.cancelled() else [creating.result()]
        turn += 1
    # A shared log gives a ledger at once, so nothing can be in doubt.
    assert bool(doubts) is waits is not isinstance(any_store, SharedLedgerStore), "was one cancelled under way?"
    for ledger_id, token in 2 * doubts:
        await any_store.undo(ledger_id, token)
    assert [each async for each in any_store.ledgers() if each >= before] == [before, *made]


async def test_closed_store_refuses_everything_and_finishes_what_was_begun(open_any_store: OpenAnyStore) -> None:
    store = await open_any_store()
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
    store = await open_any_store()
    assert await store.open_and_fence(ledger) == 49
