"""Prove that a crash at any moment loses no acknowledged entry, and shows none that was not written.

A crash is a copy of the directory while a write is between the file system and the disk. The copy cuts that write off
anywhere, or garbles it.
"""

import asyncio
import random
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hedwig.errors import CorruptEntryError
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.local.segments.records import FIRST_RECORD, RECORD_HEADER_BYTES
from tests.faults.support.waiting import until
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.support.contents import fill, payload, read_all
from tests.hub.ledgers.support.faulty_disk import FaultyDisk

RECORD = RECORD_HEADER_BYTES + 100


@asynccontextmanager
async def _held_write(disk: FaultyDisk, store: LocalLedgerStore, ledger: int, entries: range) -> AsyncIterator[Path]:
    """Append entries, and hold their sync back during the block; yields the segment's path."""
    release, held = threading.Event(), list[Path]()

    def hold(path: Path) -> None:
        held.append(path)
        assert release.wait(60)

    disk.on_sync = hold
    appends = [asyncio.ensure_future(store.append(ledger, entry, payload(ledger, entry))) for entry in entries]
    try:
        # The first write may have one entry only. The others are in the second write.
        await until(lambda: held, "the sync")
        yield held[0]
        assert not any(append.done() for append in appends), "nothing is acknowledged before it is synced"
    finally:
        disk.on_sync = lambda _: None
        release.set()
        await asyncio.gather(*appends)


async def _check_prefix(store: LocalLedgerStore, ledger: int, acknowledged: int, written: int) -> int:
    """Check that a ledger has all acknowledged entries, no unwritten ones, and is sealed; return how many it has."""
    last = await store.open_and_fence(ledger)
    assert acknowledged - 1 <= last <= written - 1
    assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(last + 1)]
    return last + 1


async def test_torn_tail_is_cut_at_every_byte_of_it(open_store: OpenStore, tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = await open_store(disk=disk, segment_bytes=1 << 20)
    ledger, other = await store.create(), await store.create()
    await fill(store, [ledger, other], range(5))
    async with _held_write(disk, store, ledger, range(5, 6)) as segment:
        synced, size = disk.synced[segment], segment.stat().st_size
        assert size == synced + RECORD
        counts: list[int] = []
        # Cut at every byte of the header, and at some of the payload.
        lengths = [*range(synced, synced + RECORD_HEADER_BYTES + 2), *range(synced + 40, size, 9), size]
        for length in lengths:
            image = tmp_path / f"image-{length}"
            disk.image(tmp_path / "ledgers", image, lambda *_, length=length: length)
            copy = await open_store(path=image)
            counts.append(await _check_prefix(copy, ledger, 5, 6))
            assert await _check_prefix(copy, other, 5, 5) == 5
            await copy.aclose()
            shutil.rmtree(image)
    assert counts == [5] * (len(lengths) - 1) + [6]


@pytest.mark.parametrize("seed", range(4))
async def test_garbled_tail_is_cut_and_nothing_else(open_store: OpenStore, tmp_path: Path, seed: int) -> None:
    """Blocks of one write reach the disk in any order. Later records may be whole where earlier ones are not."""
    source = random.Random(seed)
    disk = FaultyDisk()
    store = await open_store(disk=disk, segment_bytes=1 << 20)
    ledger = await store.create()
    entries = 0
    for turn in range(4):
        await fill(store, [ledger], range(entries, entries + 3))
        entries += 3
        async with _held_write(disk, store, ledger, range(entries, entries + 20)) as segment:
            synced, size = disk.synced[segment], segment.stat().st_size
            image = tmp_path / f"image-{turn}"
            disk.image(tmp_path / "ledgers", image)
            with (image / segment.name).open("r+b") as file:
                for _ in range(source.randrange(1, 4)):
                    start = source.randrange(synced, size)
                    file.seek(start)
                    file.write(bytes(min(source.randrange(1, 600), size - start)))
            copy = await open_store(path=image)
            whole = await _check_prefix(copy, ledger, entries, entries + 20)
            assert (await copy.stats()).damage_count == 0
            await copy.aclose()
            # Every later recovery finds the same entries.
            copy = await open_store(path=image)
            assert await copy.open_and_fence(ledger) == whole - 1
            await copy.aclose()
        entries += 20


async def test_recovered_tail_is_synced_before_it_is_served(open_store: OpenStore, tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = await open_store(disk=disk)
    ledger = await store.create()
    async with _held_write(disk, store, ledger, range(1)):
        disk.image(tmp_path / "ledgers", tmp_path / "image")
        second = FaultyDisk()
        copy = await open_store(path=tmp_path / "image", disk=second)
        assert await copy.last_entry_id(ledger) == 0
        assert second.syncs >= 2, "the segment and its new index"


async def test_segment_that_was_never_begun_is_removed(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    ledger = await store.create()
    await store.append(ledger, 0, b"kept")
    await store.aclose()
    torn = [tmp_path / "ledgers" / f"{number:016x}.segment" for number in (90, 91, 92)]
    torn[0].touch()
    torn[1].write_bytes(b"HEDWIGLS\0")
    torn[2].write_bytes(bytes(FIRST_RECORD))
    (tmp_path / "ledgers" / f"{92:016x}.index.new").write_bytes(b"half")
    store = await open_store()
    assert not any(path.exists() for path in torn)
    assert await read_all(store, ledger) == [b"kept"]
    assert await store.create() > ledger


@pytest.mark.parametrize("segment_bytes", [4096, 1 << 20])
async def test_images_taken_at_any_moment_hold_what_was_acknowledged_then(
    open_store: OpenStore, tmp_path: Path, segment_bytes: int
) -> None:
    """Copy the directory before every change of names: rolls, indexes, rewrites, removals."""
    disk = FaultyDisk()
    source = random.Random(segment_bytes)
    acknowledged: dict[int, int] = {}
    deleting: set[int] = set()
    images: list[tuple[Path, dict[int, int], set[int]]] = []
    lock = threading.Lock()

    def copy_first(_: str, path: Path) -> None:
        with lock:
            if len(images) < 40 and source.random() < 0.4:
                image = tmp_path / f"image-{len(images)}"
                before = dict(acknowledged)
                disk.image(path.parent, image)
                images.append((image, before, set(deleting)))

    store = await open_store(disk=disk, segment_bytes=segment_bytes, upkeep_interval_s=0.01)
    disk.before = copy_first
    for _ in range(8):
        ledgers = [await store.create() for _ in range(6)]
        for entry in range(8):
            await fill(store, ledgers, range(entry, entry + 1))
            acknowledged.update(dict.fromkeys(ledgers, entry + 1))
        for ledger in source.sample(sorted(acknowledged), 5):
            deleting.add(ledger)
            await store.delete(ledger)
            del acknowledged[ledger]
    await store.aclose()
    disk.before = lambda _, __: None
    assert images
    for image, before, doomed in images:
        copy = await open_store(path=image)
        for ledger, entries in before.items():
            if ledger not in deleting and ledger not in doomed:
                await _check_prefix(copy, ledger, entries, 8)
        await copy.aclose()


async def test_damage_before_the_last_write_is_never_cut(open_store: OpenStore, tmp_path: Path) -> None:
    """A bit flips in acknowledged records of a segment that has no index. Only the damaged record is lost."""
    store = await open_store(segment_bytes=1 << 20)
    ledgers = [await store.create() for _ in range(3)]
    await fill(store, ledgers, range(10))
    shutil.copytree(tmp_path / "ledgers", tmp_path / "image")
    (segment,) = (tmp_path / "image").glob("*.segment")
    data = segment.read_bytes()
    target = payload(ledgers[1], 4)
    start = data.index(target)
    for position, is_in_header in ((start + 50, False), (start - 10, True)):
        garbled = bytearray(data)
        garbled[position] ^= 0x10
        segment.write_bytes(garbled)
        for index in (tmp_path / "image").glob("*.index"):
            index.unlink()
        copy = await open_store(path=tmp_path / "image")
        for ledger in (ledgers[0], ledgers[2]):
            assert len(await read_all(copy, ledger)) == 10
        assert await copy.open_and_fence(ledgers[1]) == 9
        assert len(await copy.read(ledgers[1], 0, entries_max=100, bytes_max=1 << 20)) == 4
        with pytest.raises(CorruptEntryError) as caught:
            await copy.read(ledgers[1], 4, entries_max=100, bytes_max=1 << 20)
        assert caught.value.path == str(segment)
        assert caught.value.offset == start - RECORD_HEADER_BYTES
        assert str(segment) in str(caught.value)
        assert len(await copy.read(ledgers[1], 5, entries_max=100, bytes_max=1 << 20)) == 5
        assert (await copy.stats()).damage_count == 1, is_in_header
        await copy.aclose()
