"""Prove that the inspector shows the content of a local store's directory, without any effect on the store."""

import asyncio
from pathlib import Path

import pytest

from hedwig.errors import ConfigurationError, CorruptEntryError, LedgerStoreUnavailableError, NoSuchLedgerError
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.ledgers.inspection import LedgerFacts
from hedwig.hub.ledgers.local.inspector import LocalLedgerInspector

OPTIONS = LocalLedgerOptions(segment_bytes=4096, reserve_bytes=1 << 16, upkeep_interval_s=0.01)


async def _read(inspector: LocalLedgerInspector, ledger_id: int, first: int = 0) -> list[bytes]:
    return await inspector.read(ledger_id, first, entries_max=1000, bytes_max=1 << 20)


def _contents(directory: Path) -> dict[str, tuple[int, int]]:
    return {each.name: (each.stat().st_size, each.stat().st_mtime_ns) for each in directory.iterdir()}


def _first(directory: Path, pattern: str) -> Path:
    return min(directory.glob(pattern))


async def test_a_look_sees_open_and_closed_ledgers_and_changes_nothing(tmp_path: Path) -> None:
    store = await LocalLedgerStore.open(tmp_path, OPTIONS)
    open_one, closed, gone = [await store.create() for _ in range(3)]
    for entry_id in range(3):
        await store.append(open_one, entry_id, b"open %d" % entry_id)
        await store.append(closed, entry_id, b"closed %d" % entry_id)
    await store.close(closed)
    await store.delete(gone)
    before = _contents(tmp_path)
    inspector = await LocalLedgerInspector.open(tmp_path)
    assert await inspector.facts(open_one) == LedgerFacts(is_closed=False, last_entry_id=2, stored_bytes=18)
    assert await inspector.facts(closed) == LedgerFacts(is_closed=True, last_entry_id=2, stored_bytes=24)
    assert await _read(inspector, open_one) == [b"open 0", b"open 1", b"open 2"]
    assert await _read(inspector, closed, 2) == [b"closed 2"]
    assert await _read(inspector, closed, 3) == []
    for missing in (gone, 99):
        with pytest.raises(NoSuchLedgerError):
            await inspector.facts(missing)
    assert _contents(tmp_path) == before
    # The ledger is still open: the inspector fenced nothing.
    await store.append(open_one, 3, b"open 3")
    assert await _read(await LocalLedgerInspector.open(tmp_path), open_one, 3) == [b"open 3"]
    await store.aclose()


async def test_looks_beside_a_store_at_work_see_every_acknowledged_entry(tmp_path: Path) -> None:
    """The store fills, rewrites and removes segments all the time."""
    options = LocalLedgerOptions(segment_bytes=1 << 15, reserve_bytes=1 << 16, upkeep_interval_s=0.1)
    store = await LocalLedgerStore.open(tmp_path, options)
    kept = await store.create()
    acknowledged = 0

    async def work() -> None:
        nonlocal acknowledged
        for number in range(300):
            await store.append(kept, number, b"kept %d" % number)
            acknowledged = number + 1
            other = await store.create()
            for entry_id in range(3):
                await store.append(other, entry_id, bytes(300))
            await store.delete(other)

    task = asyncio.create_task(work())
    looks = 0
    inspector = await LocalLedgerInspector.open(tmp_path)
    while not task.done() or looks < 3:
        seen = acknowledged
        if looks % 2 == 0:  # Otherwise the inspector is an old one, whose files have been removed meanwhile.
            inspector = await LocalLedgerInspector.open(tmp_path)
            entries = await _read(inspector, kept)
            assert len(entries) >= seen
        else:
            entries = await _read(inspector, kept)
        assert entries == [b"kept %d" % number for number in range(len(entries))]
        looks += 1
    await task
    assert await _read(await LocalLedgerInspector.open(tmp_path), kept) == [b"kept %d" % n for n in range(300)]
    await store.aclose()


async def test_what_a_killed_process_left_half_written_is_not_seen_and_not_cut_off(tmp_path: Path) -> None:
    store = await LocalLedgerStore.open(tmp_path, LocalLedgerOptions(reserve_bytes=1 << 16))
    ledger_id = await store.create()
    for entry_id in range(2):
        await store.append(ledger_id, entry_id, b"whole")
    copy = tmp_path.parent / f"{tmp_path.name}-copy"
    copy.mkdir()
    segment = _first(tmp_path, "*.segment")
    size = len(segment.read_bytes().rstrip(b"\0"))
    torn = copy / segment.name
    torn.write_bytes(segment.read_bytes()[: size - 2])
    await store.aclose()
    inspector = await LocalLedgerInspector.open(copy)
    assert await _read(inspector, ledger_id) == [b"whole"]
    assert torn.stat().st_size == size - 2
    assert _contents(copy).keys() == {segment.name}


async def test_damage_is_named(tmp_path: Path) -> None:
    store = await LocalLedgerStore.open(tmp_path, OPTIONS)
    ledger_id = await store.create()
    for entry_id in range(2):
        await store.append(ledger_id, entry_id, b"x" * 100)
    await store.aclose()
    segment = _first(tmp_path, "*.segment")
    data = bytearray(segment.read_bytes())
    data[data.index(b"x" * 100) + 5] ^= 1
    segment.write_bytes(data)
    inspector = await LocalLedgerInspector.open(tmp_path)
    with pytest.raises(CorruptEntryError, match="entry 0 of ledger"):
        await _read(inspector, ledger_id)
    assert await _read(inspector, ledger_id, 1) == [b"x" * 100]


async def test_a_directory_without_ledgers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no directory"):
        await LocalLedgerInspector.open(tmp_path / "none")


async def test_a_damaged_index_is_read_around_or_named(tmp_path: Path) -> None:
    store = await LocalLedgerStore.open(tmp_path, OPTIONS)
    ledger_id = await store.create()
    for entry_id in range(40):
        await store.append(ledger_id, entry_id, b"%03d" % entry_id * 100)
    await store.aclose()
    index = _first(tmp_path, "*.index")
    inspector = await LocalLedgerInspector.open(tmp_path)
    data = bytearray(index.read_bytes())
    data[-100] ^= 1
    index.write_bytes(data)
    with pytest.raises(LedgerStoreUnavailableError, match="damaged"):
        await inspector.facts(ledger_id)
    index.write_bytes(b"nonsense")
    again = await LocalLedgerInspector.open(tmp_path)
    assert (await again.facts(ledger_id)).last_entry_id == 39
    assert len(await _read(again, ledger_id)) == 40
