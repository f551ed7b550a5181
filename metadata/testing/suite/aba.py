"""Prove that a record created again is never mistaken for the deleted one before it, and that no creation vanishes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hedwig.errors import BadVersionError, NoRecordError
from hedwig.metadata import MetadataStore, RecordKey, StoreOptions, Write
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, Call, Door
from hedwig.metadata.testing.subject import Effort, Subject
from hedwig.versions import ANY, NEW, Version, Versioned

IN_FLIGHT = 64


@pytest.mark.parametrize("writes", [0, 1, 3], ids="{} writes after creation".format)
async def test_record_created_again_refuses_what_was_read_before(
    door: Door, writes: int, store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    """A slow client keeps what it read; meanwhile others delete and create the same value, with as many writes."""
    key, value = door.key(names(b"topic")), door.value(1)

    async def life(client: MetadataStore) -> Version:
        version = await door.write(client, key, value, NEW)
        for _ in range(writes):
            version = await door.write(client, key, value, version)
        return version

    slept_with: list[Version] = []
    for turn in range(4):
        slept_with.append(await life(other))
        read = await door.read(store, key)
        assert read == Versioned(value, slept_with[-1])
        await door.delete(other, key, slept_with[-1] if turn % 2 else ANY)
        for version in slept_with:
            with pytest.raises(NoRecordError):
                await door.write(store, key, value, version)
            with pytest.raises(NoRecordError):
                await door.delete(store, key, version)
    current = Versioned(value, await life(other))
    for version in slept_with:
        for refused in (door.write(store, key, value, version), door.delete(store, key, version)):
            with pytest.raises(BadVersionError) as refusal:
                await refused
            assert type(refusal.value) is BadVersionError
            assert refusal.value.current == current
    assert await door.read(store, key) == current


async def test_created_again_by_somebody_else_is_told_from_ones_own(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    """A hub that released a topic and claims it again must not be mistaken for the owner in between."""
    manager = CALLS[0]
    key = manager.key(names(b"topic"))
    mine = await manager.write(store, key, manager.value(1), NEW)
    await manager.delete(store, key, mine)
    theirs = await manager.write(other, key, manager.value(1), NEW)
    await manager.delete(other, key, theirs)
    again = await manager.write(store, key, manager.value(1), NEW)
    assert len({mine, theirs, again}) == 3
    for stale in (mine, theirs):
        with pytest.raises(BadVersionError):
            await manager.delete(other, key, stale)
    await manager.delete(other, key, again)


async def _for_each(keys: list[RecordKey], work: Callable[[RecordKey], Awaitable[None]]) -> None:
    """Do `work` for every key, IN_FLIGHT at a time."""
    waiting = iter(keys)

    async def worker() -> None:
        for key in waiting:
            await work(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


async def test_creation_right_after_a_deletion_never_vanishes(
    effort: Effort, empty_subject: Subject, clients: Clients
) -> None:
    """A store that orders writes by the clock's milliseconds loses some quick pairs of a delete and a create."""
    manager = CALLS[0]
    store = await clients.open(empty_subject, StoreOptions(in_flight_max=IN_FLIGHT))
    probe = await clients.probe(empty_subject, store)
    keys = [manager.key(b"key-%d" % number) for number in range(effort.quick_pairs)]
    outcomes = await manager.apply(store, [Write(key, manager.value(1), NEW) for key in keys])
    held = {key: outcome.written() for key, outcome in zip(keys, outcomes, strict=True)}

    async def pair(key: RecordKey) -> None:
        await manager.delete(store, key, held[key])
        held[key] = await manager.write(store, key, manager.value(2), NEW)

    await _for_each(keys, pair)
    assert await probe.live(manager.kind) == {(key.topic, None) for key in keys}
    listed = [topic async for topic in store.ownership.topics()]
    assert sorted(listed) == sorted(key.topic for key in keys)

    async def read(key: RecordKey) -> None:
        assert await manager.read(store, key) == Versioned(manager.value(2), held[key])

    await _for_each(keys, read)


async def test_many_deletions_and_creations_of_one_record_never_vanish(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    """Few keys, many pairs: each deletion proves that the creation before it took effect."""

    async def churn(manager: Call, key: RecordKey) -> list[Version]:
        versions: list[Version] = []
        for turn in range(25):
            client = (store, other)[turn % 2]
            versions.append(await manager.write(client, key, manager.value(1), NEW))
            await manager.delete((other, store)[turn % 2], key, versions[-1])
        versions.append(await manager.write(store, key, manager.value(9), NEW))
        return versions

    work: list[tuple[Call, RecordKey]] = [
        (manager, manager.key(names(b"%d" % number))) for manager in CALLS for number in range(8)
    ]
    histories = await asyncio.gather(*(churn(manager, key) for manager, key in work))
    for (manager, key), versions in zip(work, histories, strict=True):
        assert len(set(versions)) == len(versions)
        expected: Versioned[Any] = Versioned(manager.value(9), versions[-1])
        assert await manager.read(other, key) == expected
