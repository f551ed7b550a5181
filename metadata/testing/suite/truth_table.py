"""Prove every row of the tables of versions and outcomes, for every manager and every form of its calls."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from hedwig.errors import (
    BadVersionError,
    InvalidArgumentError,
    NoSubscriptionStateError,
    NoTopicOwnerInfoError,
    NoTopicPersistenceInfoError,
    SubscriptionStateExistsError,
    TopicOwnerInfoExistsError,
    TopicPersistenceInfoExistsError,
)
from hedwig.metadata import Delete, MetadataStore, Operation, Read, RecordKey, Write
from hedwig.metadata.testing.clients import Names
from hedwig.metadata.testing.doors import CALLS, Call, Door
from hedwig.metadata.testing.probe import Probe
from hedwig.versions import ANY, NEW, Version, Versioned

EXISTS_ERRORS = {
    "ownership": TopicOwnerInfoExistsError,
    "persistence": TopicPersistenceInfoExistsError,
    "subscriptions": SubscriptionStateExistsError,
}
MISSING_ERRORS = {
    "ownership": NoTopicOwnerInfoError,
    "persistence": NoTopicPersistenceInfoError,
    "subscriptions": NoSubscriptionStateError,
}
FOREIGN = [Version(b"?"), Version(b"z" * 26), Version(b"s" + bytes(25)), Version(b"h" + b"\xff" * 25), Version(b"")]
"""Versions that no write of the record made: of existing and invented backends, well formed or not."""


async def _create(door: Door, store: MetadataStore, key: RecordKey, number: int = 1) -> Versioned[Any]:
    """Create a record, and return what reads must return from now on."""
    value = door.value(number)
    return Versioned(value, await door.write(store, key, value, NEW))


async def _deleted(door: Door, store: MetadataStore, key: RecordKey) -> list[Version]:
    """Create, write and delete a record; return the versions that it had."""
    created = await _create(door, store, key)
    updated = await door.write(store, key, door.value(2), created.version)
    await door.delete(store, key, updated)
    return [created.version, updated]


# --------------------------------------------------------------------------------------------------------------- writes


async def test_new_creates_an_absent_record(
    door: Door, store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    key = door.key(names(b"topic"))
    assert await door.read(store, key) is None
    created = await _create(door, store, key)
    assert await door.read(store, key) == created
    assert await door.read(other, key) == created


async def test_new_creates_a_deleted_record(door: Door, store: MetadataStore, names: Names) -> None:
    key = door.key(names(b"topic"))
    await _deleted(door, store, key)
    created = await _create(door, store, key, 3)
    assert await door.read(store, key) == created


async def test_new_refuses_a_present_record(
    door: Door, store: MetadataStore, other: MetadataStore, probe: Probe, names: Names
) -> None:
    key = door.key(names(b"topic"))
    created = await _create(door, other, key)
    before = await probe.cells(door.kind, key)
    with pytest.raises(BadVersionError) as refusal:
        await door.write(store, key, door.value(2), NEW)
    assert type(refusal.value) is EXISTS_ERRORS[door.kind.name]
    assert refusal.value.current == created
    assert refusal.value.current_version == created.version
    assert str(key) in str(refusal.value)
    assert await probe.cells(door.kind, key) == before
    assert await door.read(store, key) == created


async def test_same_version_is_done(door: Door, store: MetadataStore, other: MetadataStore, names: Names) -> None:
    key = door.key(names(b"topic"))
    created = await _create(door, store, key)
    updated = await door.write(other, key, door.value(2), created.version)
    assert updated != created.version
    assert await door.read(store, key) == Versioned(door.value(2), updated)
    again = await door.write(store, key, door.value(2), updated)
    assert again not in (updated, created.version)
    assert await door.read(other, key) == Versioned(door.value(2), again)


async def test_stale_version_refuses_a_present_record(
    door: Door, store: MetadataStore, other: MetadataStore, probe: Probe, names: Names
) -> None:
    key = door.key(names(b"topic"))
    created = await _create(door, store, key)
    current = Versioned(door.value(2), await door.write(other, key, door.value(2), created.version))
    before = await probe.cells(door.kind, key)
    with pytest.raises(BadVersionError) as refusal:
        await door.write(store, key, door.value(3), created.version)
    assert type(refusal.value) is BadVersionError
    assert refusal.value.current == current
    assert str(key) in str(refusal.value)
    assert await probe.cells(door.kind, key) == before
    assert await door.read(store, key) == current


async def test_foreign_version_refuses_a_present_record(
    door: Door, store: MetadataStore, probe: Probe, names: Names
) -> None:
    key, neighbour = door.key(names(b"topic")), door.key(names(b"neighbour"))
    current = await _create(door, store, key)
    of_another_record = (await _create(door, store, neighbour)).version
    before = await probe.cells(door.kind, key)
    for version in (*FOREIGN, of_another_record):
        with pytest.raises(BadVersionError) as refusal:
            await door.write(store, key, door.value(2), version)
        assert type(refusal.value) is BadVersionError
        assert refusal.value.current == current
    assert await probe.cells(door.kind, key) == before


async def test_version_refuses_an_absent_record(door: Door, store: MetadataStore, probe: Probe, names: Names) -> None:
    key, neighbour = door.key(names(b"topic")), door.key(names(b"neighbour"))
    of_another_record = (await _create(door, store, neighbour)).version
    for version in (*FOREIGN, of_another_record):
        with pytest.raises(MISSING_ERRORS[door.kind.name]) as refusal:
            await door.write(store, key, door.value(1), version)
        assert str(key) in str(refusal.value)
    assert await probe.cells(door.kind, key) == {}
    assert await door.read(store, key) is None


async def test_version_refuses_a_deleted_record(
    door: Door, store: MetadataStore, other: MetadataStore, probe: Probe, names: Names
) -> None:
    key = door.key(names(b"topic"))
    versions = await _deleted(door, other, key)
    before = await probe.cells(door.kind, key)
    for version in versions:
        with pytest.raises(MISSING_ERRORS[door.kind.name]):
            await door.write(store, key, door.value(2), version)
    assert await probe.cells(door.kind, key) == before
    assert (key.topic, key.subscriber) not in await probe.live(door.kind)
    assert await door.read(store, key) is None


async def test_any_creates_and_overwrites(door: Door, store: MetadataStore, other: MetadataStore, names: Names) -> None:
    key, deleted = door.key(names(b"topic")), door.key(names(b"deleted"))
    created = await door.write(store, key, door.value(1), ANY)
    assert await door.read(other, key) == Versioned(door.value(1), created)
    overwritten = await door.write(other, key, door.value(2), ANY)
    assert await door.read(store, key) == Versioned(door.value(2), overwritten)
    await _deleted(door, store, deleted)
    created = await door.write(other, deleted, door.value(3), ANY)
    assert await door.read(store, deleted) == Versioned(door.value(3), created)


# -------------------------------------------------------------------------------------------------------------- deletes


async def test_delete_with_the_same_version_is_done(
    door: Door, store: MetadataStore, other: MetadataStore, probe: Probe, names: Names
) -> None:
    key = door.key(names(b"topic"))
    created = await _create(door, store, key)
    await door.delete(other, key, created.version)
    assert await door.read(store, key) is None
    assert (key.topic, key.subscriber) not in await probe.live(door.kind)


async def test_delete_with_a_stale_or_foreign_version_is_refused(
    door: Door, store: MetadataStore, other: MetadataStore, probe: Probe, names: Names
) -> None:
    key, neighbour = door.key(names(b"topic")), door.key(names(b"neighbour"))
    of_another_record = (await _create(door, store, neighbour)).version
    created = await _create(door, store, key)
    current = Versioned(door.value(2), await door.write(other, key, door.value(2), created.version))
    before = await probe.cells(door.kind, key)
    for version in (created.version, *FOREIGN, of_another_record):
        with pytest.raises(BadVersionError) as refusal:
            await door.delete(store, key, version)
        assert type(refusal.value) is BadVersionError
        assert refusal.value.current == current
    assert await probe.cells(door.kind, key) == before
    assert await door.read(store, key) == current


async def test_delete_of_an_absent_record_is_refused(door: Door, store: MetadataStore, names: Names) -> None:
    key, deleted = door.key(names(b"topic")), door.key(names(b"deleted"))
    for version in (*FOREIGN, ANY):
        with pytest.raises(MISSING_ERRORS[door.kind.name]) as refusal:
            await door.delete(store, key, version)
        assert str(key) in str(refusal.value)
    for version in (*await _deleted(door, store, deleted), ANY):
        with pytest.raises(MISSING_ERRORS[door.kind.name]):
            await door.delete(store, deleted, version)


async def test_delete_with_any_is_done(door: Door, store: MetadataStore, other: MetadataStore, names: Names) -> None:
    key = door.key(names(b"topic"))
    await _create(door, store, key)
    await door.delete(other, key, ANY)
    assert await door.read(store, key) is None


async def test_delete_with_new_is_no_argument(door: Door, store: MetadataStore, probe: Probe, names: Names) -> None:
    key, absent = door.key(names(b"topic")), door.key(names(b"absent"))
    created = await _create(door, store, key)
    before = await probe.cells(door.kind, key)
    for refused in (key, absent):
        with pytest.raises(InvalidArgumentError, match="NEW"):
            await door.delete(store, refused, NEW)
    assert await probe.cells(door.kind, key) == before
    assert await door.read(store, key) == created


async def test_update_and_replacement_with_new_are_no_argument(
    store: MetadataStore, probe: Probe, names: Names
) -> None:
    subscription = CALLS[2]
    key, absent = subscription.key(names(b"topic")), subscription.key(names(b"absent"))
    await _create(subscription, store, key)
    before = await probe.cells(subscription.kind, key)
    for refused in (key, absent):
        assert refused.subscriber is not None
        for write in (store.subscriptions.update, store.subscriptions.replace):
            with pytest.raises(InvalidArgumentError, match="create"):
                await write(refused.topic, refused.subscriber, subscription.value(2), NEW)
    assert await probe.cells(subscription.kind, key) == before
    assert await probe.cells(subscription.kind, absent) == {}


# ------------------------------------------------------------------------------------------------------------- versions


async def test_versions_never_repeat(door: Door, store: MetadataStore, other: MetadataStore, names: Names) -> None:
    key = door.key(names(b"topic"))
    seen: list[Version] = []
    for _ in range(12):
        version = await door.write(store, key, door.value(1), NEW)
        seen.append(version)
        for client in (other, store):
            version = await door.write(client, key, door.value(1), version)
            seen.append(version)
        await door.delete(other, key, version)
        seen.append(await door.write(other, key, door.value(1), ANY))
        await door.delete(store, key, ANY)
    assert len(set(seen)) == len(seen) == 48
    await door.write(store, key, door.value(1), NEW)
    for version in seen:
        with pytest.raises(BadVersionError):
            await door.write(store, key, door.value(2), version)


async def test_version_survives_as_text(door: Door, store: MetadataStore, names: Names) -> None:
    key = door.key(names(b"topic"))
    created = await _create(door, store, key)
    updated = await door.write(store, key, door.value(2), Version.parse(str(created.version)))
    await door.delete(store, key, Version.parse(str(updated)))
    assert await door.read(store, key) is None


async def test_records_of_the_managers_are_apart(store: MetadataStore, names: Names) -> None:
    topic = names(b"topic")
    versions = {}
    for call in CALLS:
        assert await call.read(store, call.key(topic)) is None
        versions[call.label] = await call.write(store, call.key(topic), call.value(1), NEW)
    for call in CALLS:
        assert await call.read(store, call.key(topic)) == Versioned(call.value(1), versions[call.label])
        await call.delete(store, call.key(topic), versions[call.label])
        assert await call.read(store, call.key(topic)) is None


async def test_removed_behind_the_back_is_absent(
    manager: Call, store: MetadataStore, probe: Probe, names: Names
) -> None:
    key = manager.key(names(b"topic"))
    created = await _create(manager, store, key)
    await probe.remove(manager.kind, key)
    assert await manager.read(store, key) is None
    with pytest.raises(MISSING_ERRORS[manager.kind.name]):
        await manager.write(store, key, manager.value(2), created.version)
    with pytest.raises(MISSING_ERRORS[manager.kind.name]):
        await manager.delete(store, key, created.version)
    await _create(manager, store, key, 3)
    assert (await manager.read(store, key)) is not None


# ---------------------------------------------------------------------------------------------------------------- apply


async def test_apply_of_nothing_is_nothing(manager: Call, store: MetadataStore) -> None:
    assert await manager.apply(store, []) == []


async def test_apply_answers_in_order_with_successes_and_failures_mixed(
    manager: Call, store: MetadataStore, probe: Probe, names: Names
) -> None:
    present, stale, updated, deleted, absent, created = (
        manager.key(names(name)) for name in (b"present", b"stale", b"updated", b"deleted", b"absent", b"created")
    )
    was = {key: await _create(manager, store, key) for key in (present, stale, updated, deleted)}
    newer = await manager.write(store, stale, manager.value(2), was[stale].version)
    operations: list[Operation[Any]] = [
        Write(present, manager.value(3), NEW),
        Write(created, manager.value(3), NEW),
        Read(absent),
        Write(stale, manager.value(3), was[stale].version),
        Delete(deleted, was[deleted].version),
        Write(absent, manager.value(3), was[present].version),
        Read(present),
        Delete(absent, ANY),
        Write(updated, manager.value(3), was[updated].version),
        Delete(stale, was[stale].version),
        Delete(present, NEW),
        Write(RecordKey(present.topic, None if present.subscriber else b"s"), manager.value(3), NEW),  # type: ignore[arg-type]
        Read(RecordKey(b"", present.subscriber)),  # type: ignore[arg-type]
    ]
    outcomes = await manager.apply(store, operations)
    assert len(outcomes) == len(operations)
    exists, missing = EXISTS_ERRORS[manager.kind.name], MISSING_ERRORS[manager.kind.name]
    invalid = InvalidArgumentError
    expected = [
        exists,
        None,
        None,
        BadVersionError,
        None,
        missing,
        None,
        missing,
        None,
        BadVersionError,
        invalid,
        invalid,
    ]
    errors = [None if outcome.error is None else type(outcome.error) for outcome in outcomes]
    assert errors[:-1] == expected
    assert isinstance(outcomes[-1].error, InvalidArgumentError)
    assert outcomes[2].record is None
    assert outcomes[6].record == was[present]
    for position, current in ((0, was[present]), (3, Versioned(manager.value(2), newer))):
        refusal = outcomes[position].error
        assert isinstance(refusal, BadVersionError)
        assert refusal.current == current
    for key, position in ((created, 1), (updated, 8)):
        assert await manager.read(store, key) == Versioned(manager.value(3), outcomes[position].written())
    assert await manager.read(store, deleted) is None
    assert await probe.cells(manager.kind, absent) == {}


async def test_apply_of_many_writes_of_one_record_lets_one_win(
    manager: Call, store: MetadataStore, names: Names
) -> None:
    key = manager.key(names(b"topic"))
    outcomes = await manager.apply(store, [Write(key, manager.value(number), NEW) for number in range(40)])
    exists = EXISTS_ERRORS[manager.kind.name]
    assert Counter(type(outcome.error) for outcome in outcomes) == {type(None): 1, exists: 39}
    (winner,) = (number for number, outcome in enumerate(outcomes) if outcome.error is None)
    assert await manager.read(store, key) == Versioned(manager.value(winner), outcomes[winner].written())
    version = outcomes[winner].written()
    outcomes = await manager.apply(store, [Write(key, manager.value(number), version) for number in range(40)])
    assert Counter(type(outcome.error) for outcome in outcomes) == {type(None): 1, BadVersionError: 39}


async def test_apply_takes_five_thousand_operations(store: MetadataStore, names: Names) -> None:
    manager = CALLS[0]
    keys = [manager.key(names(b"%d" % number)) for number in range(2500)]
    written = await manager.apply(store, [Write(key, manager.value(n), NEW) for n, key in enumerate(keys)])
    operations: list[Operation[Any]] = []
    for number, (key, outcome) in enumerate(zip(keys, written, strict=True)):
        operations += [Read(key), Write(manager.key(names(b"%d" % (number + 2000))), manager.value(number), NEW)]
        assert outcome.error is None
    outcomes = await manager.apply(store, operations)
    assert len(outcomes) == 5000
    for number, (read, write) in enumerate(zip(outcomes[::2], outcomes[1::2], strict=True)):
        assert read.record == Versioned(manager.value(number), written[number].written())
        assert isinstance(write.error, TopicOwnerInfoExistsError) == (number < 500)


async def test_many_writers_of_one_record_lose_to_one(
    door: Door, store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    key = door.key(names(b"topic"))

    async def create(number: int) -> Version | BadVersionError:
        try:
            return await door.write((store, other)[number % 2], key, door.value(number), NEW)
        except BadVersionError as refusal:
            return refusal

    answers = await asyncio.gather(*(create(number) for number in range(20)))
    (winner,) = (number for number, answer in enumerate(answers) if isinstance(answer, Version))
    current = await door.read(store, key)
    assert current is not None
    assert (current.value, current.version) == (door.value(winner), answers[winner])
    refusals = [answer for answer in answers if isinstance(answer, BadVersionError)]
    assert all(refusal.current == current for refusal in refusals)
