"""Prove that the store frees the space of deleted ledgers, and no other."""

import errno
import os
from pathlib import Path

import pytest

from hedwig.errors import CorruptEntryError
from hedwig.hub.ledgers import LocalLedgerStore
from tests.faults.support.waiting import until
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.support.contents import fill, payload, read_all
from tests.hub.ledgers.support.faulty_disk import FaultyDisk, size_of

QUICKLY = {"segment_bytes": 16384, "upkeep_interval_s": 0.02, "rewrite_bytes_per_s": 1 << 30}


def _segments(folder: Path) -> int:
    return len(list(folder.glob("*.segment")))


def _stems(folder: Path, kind: str) -> set[str]:
    return {path.stem for path in (folder / "ledgers").glob(f"*.{kind}")}


def _stored(folder: Path) -> int:
    return sum(size_of(path) for path in folder.glob("*.segment"))


async def test_segments_without_live_ledgers_are_removed(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store(**QUICKLY)
    ledgers = [await store.create() for _ in range(20)]
    await fill(store, ledgers, range(50))
    assert _segments(tmp_path / "ledgers") > 8
    for ledger in ledgers:
        await store.delete(ledger)
    # The newest segments stay: they record which ids were given.
    await until(lambda: _segments(tmp_path / "ledgers") <= 2, "the segments to vanish")
    assert [ledger async for ledger in store.ledgers()] == []
    await until(lambda: _stems(tmp_path, "index") <= _stems(tmp_path, "segment"), "no index to stay behind")


async def test_the_newest_segment_is_given_back_and_no_id_is_given_twice(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store(**QUICKLY)
    kept, *ledgers = [await store.create() for _ in range(4)]
    await fill(store, [kept], range(10))
    await fill(store, ledgers, range(20))
    assert _segments(tmp_path / "ledgers") == 1
    for ledger in ledgers:
        await store.delete(ledger)
    await until(lambda: _stored(tmp_path / "ledgers") < 10 * 136 + 512, "the space")
    assert await read_all(store, kept) == [payload(kept, entry) for entry in range(10)]
    await store.aclose()
    store = await open_store(**QUICKLY)
    assert [ledger async for ledger in store.ledgers()] == [kept]
    assert await store.create() > ledgers[-1]
    assert await store.open_and_fence(kept) == 9


async def test_the_newest_segment_is_given_back_after_a_restart(open_store: OpenStore, tmp_path: Path) -> None:
    """There is no write after the restart. The upkeep itself makes a newer segment."""
    store = await open_store(**{**QUICKLY, "upkeep_interval_s": 600.0})
    ledgers = [await store.create() for _ in range(4)]
    await fill(store, ledgers, range(20))
    for ledger in ledgers:
        await store.delete(ledger)
    await store.aclose()
    assert _stored(tmp_path / "ledgers") > 80 * 136
    store = await open_store(**QUICKLY)
    await until(lambda: _stored(tmp_path / "ledgers") < 512, "the space")
    await store.aclose()
    store = await open_store(**QUICKLY)
    assert [ledger async for ledger in store.ledgers()] == []
    assert await store.create() > ledgers[-1]


async def test_the_newest_segment_stays_while_most_of_it_is_live(open_store: OpenStore, tmp_path: Path) -> None:
    """DELETE records of other segments' ledgers do not end it: they would only move from one segment to the next."""
    store = await open_store(**QUICKLY)
    ledgers = [await store.create() for _ in range(50)]
    await fill(store, ledgers, range(10))
    for ledger in ledgers[::5]:
        await store.delete(ledger)
    newest = max(_stems(tmp_path, "segment"))
    await store.create()
    await until(lambda: store._catalog.stale == set(), "the upkeep to have looked at it")
    assert max(_stems(tmp_path, "segment")) == newest


async def test_mostly_dead_segments_are_rewritten_and_their_live_entries_kept(
    open_store: OpenStore, tmp_path: Path
) -> None:
    store = await open_store(**QUICKLY)
    ledgers = [await store.create() for _ in range(20)]
    await fill(store, ledgers, range(50))
    kept = ledgers[::7]
    for ledger in ledgers:
        if ledger not in kept:
            await store.delete(ledger)
    live = len(kept) * 50 * 136
    await until(lambda: _stored(tmp_path / "ledgers") < 2 * live + 16384, "the space")
    for ledger in kept:
        assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(50)]
        await store.append(ledger, 50, payload(ledger, 50))
    await store.aclose()
    store = await open_store(**QUICKLY)
    assert [ledger async for ledger in store.ledgers()] == kept
    for ledger in kept:
        assert await store.open_and_fence(ledger) == 50
        assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(51)]


async def test_deleted_ledgers_stay_deleted_when_their_traces_are_rewritten(
    open_store: OpenStore, tmp_path: Path
) -> None:
    """The DELETE record is in another segment than the ledger's entries. It goes last, in any order of rewrites."""
    given: set[int] = set()
    deleted: set[int] = set()
    kept: list[int] = []
    for _ in range(6):
        store = await open_store(**QUICKLY)
        assert [ledger async for ledger in store.ledgers()] == kept
        ledgers = [await store.create() for _ in range(30)]
        assert not given & set(ledgers)
        given |= set(ledgers)
        await fill(store, ledgers, range(20))
        for ledger in [*kept, *ledgers]:
            if ledger % 9:
                await store.delete(ledger)
                deleted.add(ledger)
        kept = sorted(given - deleted)
        await store.aclose()
    store = await open_store(**QUICKLY)
    live = len(kept) * 20 * 136
    await until(lambda: _stored(tmp_path / "ledgers") < 3 * live + 2 * 16384, "the space, DELETE records included")
    assert [ledger async for ledger in store.ledgers()] == kept


async def test_deleted_ledgers_stay_deleted_when_files_cannot_be_removed(open_store: OpenStore, tmp_path: Path) -> None:
    """A file that could not be removed is there again at the next start. The DELETE records must still be there."""
    disk = FaultyDisk()
    store = await open_store(disk=disk, **QUICKLY)
    refused: list[Path] = []

    def refuse(word: str, path: Path) -> None:
        if word == "unlink" and path.suffix == ".segment" and len(refused) < 4:
            refused.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk.before = refuse
    ledgers = [await store.create() for _ in range(20)]
    await fill(store, ledgers, range(50))
    for ledger in ledgers:
        await store.delete(ledger)
    await until(lambda: len(refused) == 4 and _segments(tmp_path / "ledgers") <= 7, "the removals")
    others = [await store.create() for _ in range(20)]
    await fill(store, others, range(50))
    for ledger in others:
        await store.delete(ledger)
    await until(lambda: _segments(tmp_path / "ledgers") <= 8, "the removals")
    assert any(path.exists() for path in refused)
    await store.aclose()
    store = await open_store(**QUICKLY)
    assert [ledger async for ledger in store.ledgers()] == []


async def test_damaged_segment_with_live_entries_is_kept_for_whoever_can_mend_it(
    open_store: OpenStore, tmp_path: Path
) -> None:
    store = await open_store(**QUICKLY, rewrite_below=0)
    ledgers = [await store.create() for _ in range(10)]
    await fill(store, ledgers, range(30))
    await store.aclose()
    first = sorted((tmp_path / "ledgers").glob("*.segment"))[0]
    start = first.read_bytes().index(payload(ledgers[3], 2))
    _flip(first, start + 5)
    store = await open_store(**QUICKLY)
    for ledger in ledgers:
        if ledger != ledgers[3]:
            await store.delete(ledger)
    await until(lambda: _segments(tmp_path / "ledgers") <= 6, "the other segments to be rewritten")
    assert first.exists()
    with pytest.raises(CorruptEntryError, match=str(first)):
        await store.read(ledgers[3], 2, entries_max=1, bytes_max=1)
    assert await store.read(ledgers[3], 3, entries_max=9, bytes_max=150) == [payload(ledgers[3], 3)]


async def test_removed_segment_file_is_named_when_it_is_missed(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store(**QUICKLY)
    first, second = await store.create(), await store.create()
    await fill(store, [first], range(300))
    await fill(store, [second], range(10))
    await store.aclose()
    lost = sorted((tmp_path / "ledgers").glob("*.segment"))[0]
    lost.unlink()
    store = await open_store(**QUICKLY)
    assert len(await read_all(store, second)) == 10
    with pytest.raises(CorruptEntryError, match=str(lost)):
        await store.read(first, 0, entries_max=1, bytes_max=1)
    assert await store.read(first, 299, entries_max=1, bytes_max=1) == [payload(first, 299)]
    assert (await store.stats()).damage_count == 1


async def test_index_that_is_missing_or_damaged_is_made_anew(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store(**QUICKLY)
    ledgers = [await store.create() for _ in range(10)]
    await fill(store, ledgers, range(60))
    await store.aclose()
    for offset in range(0, 16384, 1361):
        indexes = sorted((tmp_path / "ledgers").glob("*.index"))
        indexes[0].unlink()
        for index in indexes[1:-1]:
            _flip(index, offset % index.stat().st_size)
        os.truncate(indexes[-1], indexes[-1].stat().st_size // 2)
        store = await open_store(**QUICKLY)
        await _check(store, ledgers, 60)
        assert (await store.stats()).damage_count == 0
        await store.aclose()


async def test_index_damaged_while_the_store_is_open_is_made_anew(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store(**QUICKLY)
    ledgers = [await store.create() for _ in range(10)]
    await fill(store, ledgers, range(60))
    await until(lambda: len(list((tmp_path / "ledgers").glob("*.index"))) > 3, "some indexes")
    for index in (tmp_path / "ledgers").glob("*.index"):
        for offset in range(4096, index.stat().st_size, 4096):
            _flip(index, offset)
    await _check(store, ledgers, 60)


async def _check(store: LocalLedgerStore, ledgers: list[int], entries: int) -> None:
    for ledger in ledgers:
        assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(entries)]


def _flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))
