"""Prove what happens on a failing disk: no acknowledged entry can be lost, and the store recovers."""

import asyncio
import errno
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hedwig.errors import (
    EntryOrderError,
    HedwigError,
    LedgerStoreFullError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
)
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.local.segments.reserve import Reserve
from tests.faults.support.waiting import until
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.support.contents import fill, payload, read_all
from tests.hub.ledgers.support.faulty_disk import FaultyDisk

RESERVE = 1 << 16


def _fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


def _nothing(_: Path) -> None:
    pass


def _fail_segments(path: Path) -> None:
    if path.suffix == ".segment":
        _fail(errno.EIO)


async def _attempt(store: LocalLedgerStore, ledger: int, entries: range, data: bytes) -> list[BaseException | None]:
    appends = (store.append(ledger, entry, data) for entry in entries)
    return await asyncio.gather(*appends, return_exceptions=True)


@pytest.mark.parametrize("tail_can_be_cut", [True, False])
async def test_failed_sync_is_never_acknowledged_and_its_bytes_never_come_back(
    open_store: OpenStore, tmp_path: Path, tail_can_be_cut: bool
) -> None:
    """If the tail cannot be cut off either, the next segment's header excludes it, even its whole records."""
    disk = FaultyDisk()
    store = await open_store(disk=disk)
    ledger, other = await store.create(), await store.create()
    await fill(store, [ledger, other], range(3))

    def fail_once(path: Path) -> None:
        disk.on_sync = _nothing if tail_can_be_cut else _fail_segments
        _fail_segments(path)

    disk.on_sync = fail_once
    disk.on_truncate = _nothing if tail_can_be_cut else _fail_segments
    results = await _attempt(store, ledger, range(3, 10), b"disowned")
    expected = LedgerWriteError if not tail_can_be_cut else LedgerStoreUnavailableError
    assert type(results[0]) is expected
    assert [isinstance(result, LedgerStoreUnavailableError) for result in results] == [True] * 7
    first = results[0]
    assert isinstance(first, HedwigError)
    assert (first.happened == "no") is tail_can_be_cut
    assert len(await read_all(store, ledger)) == 3, "reads go on"

    disk.on_sync = disk.on_truncate = _nothing
    await fill(store, [ledger, other], range(3, 10))
    expected_entries = [payload(ledger, entry) for entry in range(10)]
    assert await read_all(store, ledger) == expected_entries
    disk.image(tmp_path / "ledgers", tmp_path / "image")
    for index in (tmp_path / "image").glob("*.index"):
        index.unlink()
    copy = await open_store(path=tmp_path / "image")
    assert await read_all(copy, ledger) == expected_entries
    assert await copy.last_entry_id(other) == 9
    assert (await copy.stats()).damage_count == 0


async def test_appends_behind_a_failed_one_fail_too_and_ledgers_get_no_gap(open_store: OpenStore) -> None:
    """One write in thirty fails, while many appends to many ledgers are in flight, some waiting for room."""
    disk = FaultyDisk()
    store = await open_store(disk=disk, queue_bytes_max=20_000, group_records_max=16)
    ledgers = [await store.create() for _ in range(5)]
    writes = 0

    def fail_sometimes(path: Path) -> None:
        nonlocal writes
        if path.suffix == ".segment":
            writes += 1
            if writes % 30 == 0:
                _fail(errno.EIO)

    disk.on_write = fail_sometimes
    contents: dict[int, list[bytes]] = {ledger: [] for ledger in ledgers}
    attempts = failures = 0

    async def publish(ledger: int) -> None:
        nonlocal attempts, failures
        while len(contents[ledger]) < 400:
            done = len(contents[ledger])
            datas = [b"%d %d %d" % (ledger, done + index, attempts + index) for index in range(40)]
            attempts += 40
            appends = (store.append(ledger, done + index, data) for index, data in enumerate(datas))
            results = await asyncio.gather(*appends, return_exceptions=True)
            good = next((index for index, result in enumerate(results) if result is not None), 40)
            # The failure may be told between two of them. Then those behind are out of turn.
            wrong = [
                each for each in results[good:] if not isinstance(each, LedgerStoreUnavailableError | EntryOrderError)
            ]
            assert not wrong, wrong
            failures += 40 - good
            contents[ledger] += datas[:good]

    await asyncio.gather(*(publish(ledger) for ledger in ledgers))
    disk.on_write = lambda _: None
    assert failures > 40
    for ledger in ledgers:
        assert await read_all(store, ledger) == contents[ledger]
    await store.aclose()
    store = await open_store()
    for ledger in ledgers:
        assert await read_all(store, ledger) == contents[ledger]


async def test_full_disk_refuses_appends_serves_reads_and_accepts_appends_when_there_is_space(
    open_store: OpenStore, tmp_path: Path
) -> None:
    disk = FaultyDisk()
    disk.capacity = RESERVE + 60_000
    store = await open_store(disk=disk, segment_bytes=8192, reserve_bytes=RESERVE)
    ledgers = [await store.create() for _ in range(4)]
    entries = 0

    async def append_on() -> None:
        nonlocal entries
        while True:
            await fill(store, ledgers, range(entries, entries + 1))
            entries += 1

    with pytest.raises(LedgerStoreFullError, match=str(tmp_path)):
        await append_on()
    # Some ledgers stored the entry that others refused. Each continues at its own next entry.
    due = {ledger: await store.last_entry_id(ledger) + 1 for ledger in ledgers}
    assert set(due.values()) <= {entries, entries + 1}
    with pytest.raises(LedgerStoreFullError):
        await store.append(ledgers[0], due[ledgers[0]], b"no space")
    with pytest.raises(EntryOrderError):
        await store.append(ledgers[0], due[ledgers[0]] + 1, b"not a turn was lost")
    with pytest.raises(LedgerStoreFullError):
        await store.create()
    for ledger in ledgers:
        assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(due[ledger])]
    assert await store.open_and_fence(ledgers[3]) == due[ledgers[3]] - 1, "ledgers can be taken over on a full disk"

    disk.capacity = 1 << 20
    await _until_accepted(store)
    await store.append(ledgers[0], due[ledgers[0]], b"space")
    assert (await read_all(store, ledgers[0]))[-1] == b"space"


async def test_full_disk_is_emptied_by_deleting_ledgers(open_store: OpenStore) -> None:
    disk = FaultyDisk()
    disk.capacity = RESERVE + 100_000
    store = await open_store(disk=disk, segment_bytes=8192, reserve_bytes=RESERVE, rewrite_bytes_per_s=1 << 30)
    kept = await store.create()
    await fill(store, [kept], range(3))
    for turn in range(4):
        doomed: list[int] = []
        with suppress(LedgerStoreFullError):
            while True:
                doomed.append(await store.create())
                await fill(store, doomed[-1:], range(10))
        for ledger in doomed:
            await store.delete(ledger)
        await _until_accepted(store)
        await store.append(kept, 3 + turn, payload(kept, 3 + turn))
    assert await read_all(store, kept) == [payload(kept, entry) for entry in range(7)]
    await store.aclose()
    store = await open_store(disk=disk, segment_bytes=8192, reserve_bytes=RESERVE)
    assert await read_all(store, kept) == [payload(kept, entry) for entry in range(7)]


def test_reserve_that_was_given_up_is_not_taken_back_before_its_space_was_used(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", RESERVE, FaultyDisk())
    assert not reserve.is_missing
    with reserve.given_up():
        reserve.refill()
        assert reserve.is_missing
        assert not (tmp_path / "reserve").exists()
    reserve.refill()
    assert not reserve.is_missing
    assert (tmp_path / "reserve").stat().st_size == RESERVE


async def test_disk_that_is_full_at_the_start_serves_reads(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store(reserve_bytes=RESERVE)
    ledger = await store.create()
    await fill(store, [ledger], range(5))
    await store.aclose()
    (tmp_path / "ledgers" / "reserve").unlink()
    disk = FaultyDisk()
    disk.capacity = 100
    store = await open_store(disk=disk, reserve_bytes=RESERVE)
    assert len(await read_all(store, ledger)) == 5
    with pytest.raises(LedgerStoreFullError):
        await store.create()
    disk.capacity = None
    await _until_accepted(store)
    assert await store.create() > ledger


async def test_index_that_cannot_be_written_stays_in_memory_until_it_can(open_store: OpenStore, tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = await open_store(disk=disk, segment_bytes=4096)

    def refuse_indexes(path: Path) -> None:
        if ".index" in path.name:
            _fail(errno.EIO)

    disk.on_write = refuse_indexes
    ledger = await store.create()
    entries = 0

    async def append_on() -> None:
        nonlocal entries
        while True:
            await store.append(ledger, entries, payload(ledger, entries))
            entries += 1

    with pytest.raises(LedgerStoreUnavailableError, match="indexes"):
        await append_on()
    assert entries > 8 * 25, "a few segments' indexes find room in memory"
    assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(entries)]
    disk.on_write = lambda _: None
    await until(lambda: len(list((tmp_path / "ledgers").glob("*.index"))) >= 8, "the indexes")
    await store.append(ledger, entries, payload(ledger, entries))
    assert len(await read_all(store, ledger)) == entries + 1


async def _until_accepted(store: LocalLedgerStore) -> None:
    async with asyncio.timeout(30):
        while (await store.stats()).is_full:  # noqa: ASYNC110 - the store says it to those who ask only
            await asyncio.sleep(0.01)


async def test_defect_in_the_writer_is_reported_and_nobody_waits_for_ever(open_store: OpenStore) -> None:
    disk = FaultyDisk()
    store = await open_store(disk=disk, queue_bytes_max=3000)
    ledger = await store.create()

    def break_down(_: Path) -> None:
        raise RuntimeError("a defect")

    disk.on_write = break_down
    results = await _attempt(store, ledger, range(60), bytes(100))
    assert all(isinstance(result, LedgerStoreUnavailableError) for result in results), results
    assert "a defect" in str(results[0])
    with pytest.raises(LedgerStoreUnavailableError):
        await store.append(ledger, 0, b"x")
    assert await store.last_entry_id(ledger) == -1


async def test_append_on_its_way_while_the_one_before_fails_is_refused(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has failed. The event loop does not know it yet, and sends it the next entry of the ledger."""
    disk = FaultyDisk()
    store = await open_store(disk=disk)
    ledger = await store.create()
    loop = asyncio.get_running_loop()
    call, notified = loop.call_soon_threadsafe, threading.Event()

    def call_and_tell(*arguments: Any, **options: Any) -> asyncio.Handle:
        handle = call(*arguments, **options)
        notified.set()
        return handle

    def fail_once(path: Path) -> None:
        disk.on_write = _nothing
        _fail_segments(path)

    disk.on_write = fail_once
    monkeypatch.setattr(loop, "call_soon_threadsafe", call_and_tell)
    first = loop.create_task(store.append(ledger, 0, b"fails"))
    loop.call_soon(notified.wait, 60)
    second = loop.create_task(store.append(ledger, 1, b"would be a gap"))
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert [isinstance(result, LedgerStoreUnavailableError) for result in results] == [True, True]
    await store.append(ledger, 0, b"zero")
    await store.append(ledger, 1, b"one")
    assert await read_all(store, ledger) == [b"zero", b"one"]
