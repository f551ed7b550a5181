"""Prove that a store with a change feed reports each changed record at least once after its last change.

This holds whichever client changes the record and whatever goes on meanwhile. The feed reports no other records.

Runs over every backend with a change feed.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

import pytest

from hedwig.errors import BadVersionError, MetadataUnavailableError, NoRecordError
from hedwig.metadata import Delete, MetadataStore, RecordKey, Write
from hedwig.metadata.contract.changes import ChangedRecord, Changes, ChangesLostError
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.awkward_names import AWKWARD
from hedwig.metadata.testing.clients import Names
from hedwig.metadata.testing.doors import CALLS, DOORS, Call
from hedwig.model import LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.versions import ANY, NEW
from tests.metadata.support.backends import BACKENDS, BackendRow, as_parameters

THROUGH_THE_GATEWAY = ("test_every_change_of_a_record_is_told_once",)

READER: Final = SubscriberId(b"reader\xff\x00")
_ALL: Final = 1000


@pytest.fixture(scope="session", params=as_parameters(BACKENDS))
def backend(request: pytest.FixtureRequest) -> BackendRow:
    """Return each backend with a change feed in turn."""
    row: BackendRow = request.param
    return row


async def _begun(store: MetadataStore, kinds: Sequence[RecordKind[Any]] = KINDS) -> Changes:
    changes = store.changes(kinds)
    assert changes is not None
    await changes.begin()
    return changes


async def test_every_change_of_a_record_is_told_once(
    manager: Call, store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    key = manager.key(names(b"news\x00'"))
    changed = [ChangedRecord(manager.kind, key)]
    await manager.write(store, manager.key(names(b"before")), manager.value(0), NEW)
    changes = await _begun(store)
    assert await changes.take(_ALL) == [], "it was there before"
    version = await manager.write(store, key, manager.value(1), NEW)
    assert await changes.take(_ALL) == changed
    assert await changes.take(_ALL) == []
    version = await manager.write(other, key, manager.value(2), version)
    assert await changes.take(_ALL) == changed, "whoever does it"
    with pytest.raises(BadVersionError):
        await manager.write(store, key, manager.value(3), NEW)
    assert await changes.take(_ALL) == [], "what is refused changes nothing"
    await manager.delete(other, key, version)
    assert await changes.take(_ALL) == changed
    assert await changes.take(_ALL) == []
    again = await manager.write(store, key, manager.value(4), NEW)
    await manager.delete(store, key, again)
    await manager.write(store, key, manager.value(5), NEW)
    assert await changes.take(_ALL) == changed, "made anew after a deletion, twice"
    assert await changes.take(_ALL) == []
    await changes.end()


async def test_every_way_to_change_a_record_is_told(store: MetadataStore, other: MetadataStore, names: Names) -> None:
    keys = [(each, each.key(names(each.label.encode()))) for each in DOORS]
    changes = await _begun(store)
    expected = {ChangedRecord(each.kind, key) for each, key in keys}
    versions = [await each.write(other, key, each.value(1), NEW) for each, key in keys]
    assert set(await changes.take(_ALL)) == expected
    after = [
        await each.write(other, key, each.value(2), version)
        for (each, key), version in zip(keys, versions, strict=True)
    ]
    assert set(await changes.take(_ALL)) == expected
    for (each, key), version in zip(keys, after, strict=True):
        await each.delete(other, key, version)
    assert set(await changes.take(_ALL)) == expected
    assert await changes.take(_ALL) == []
    await changes.end()


async def test_moving_a_consume_pointer_is_told(store: MetadataStore, names: Names) -> None:
    key = RecordKey(Topic(names(b"topic")), READER)
    await store.subscriptions.create(key.topic, READER, samples.subscription(1))
    changes = await _begun(store)
    state = SubscriptionData(state=samples.subscription(2).state)
    await store.subscriptions.apply([Write(key, state, ANY, merge=True)])
    assert await changes.take(_ALL) == [ChangedRecord(SUBSCRIPTIONS, key)]
    await changes.end()


async def test_many_changes_come_in_parts(store: MetadataStore, names: Names) -> None:
    changes = await _begun(store)
    keys = [RecordKey(Topic(names(b"t-%d" % number))) for number in range(25)]
    await store.persistence.apply([Write(key, LedgerRanges(), NEW) for key in keys])
    await store.ownership.apply([Write(key, samples.hub(1), NEW) for key in keys])
    parts = [await changes.take(20) for _ in range(4)]
    assert [len(part) for part in parts] == [20, 20, 10, 0]
    records = [each for part in parts for each in part]
    assert set(records) == {ChangedRecord(kind, key) for kind in (PERSISTENCE, OWNERSHIP) for key in keys}
    assert len(records) == 2 * len(keys)
    await store.persistence.apply([Delete(key, ANY) for key in keys])
    assert {each.key for each in await changes.take(_ALL)} == set(keys)
    await changes.end()


async def test_only_the_kinds_that_were_asked_for_are_told(store: MetadataStore, names: Names) -> None:
    changes = await _begun(store, [PERSISTENCE, SUBSCRIPTIONS])
    key = RecordKey(Topic(names(b"topic")))
    await store.ownership.write(key.topic, samples.hub(1), NEW)
    assert await changes.take(_ALL) == []
    await store.persistence.write(key.topic, LedgerRanges(), NEW)
    assert await changes.take(_ALL) == [ChangedRecord(PERSISTENCE, key)]
    await changes.end()


async def test_beginning_again_forgets_what_was_changed(store: MetadataStore, names: Names) -> None:
    changes = await _begun(store)
    keys = [RecordKey(Topic(names(b"t-%d" % number))) for number in range(10)]
    await store.persistence.apply([Write(key, LedgerRanges(), NEW) for key in keys])
    assert len(await changes.take(4)) == 4
    await changes.begin()
    assert await changes.take(_ALL) == []
    await store.persistence.apply([Write(keys[0], LedgerRanges(), ANY)])
    assert await changes.take(_ALL) == [ChangedRecord(PERSISTENCE, keys[0])]
    await changes.end()


async def test_two_never_take_changes_from_each_other_unnoticed(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    first, second = await _begun(store), await _begun(other)
    changed = [ChangedRecord(PERSISTENCE, RecordKey(Topic(names(b"topic"))))]
    await store.persistence.write(changed[0].key.topic, LedgerRanges(), NEW)
    taken: Sequence[ChangedRecord] = changed
    with suppress(MetadataUnavailableError):  # Where only one reader is possible, the first one fails here.
        taken = await first.take(_ALL)
    assert taken == changed
    await first.end()  # This must not end the second reader's feed.
    assert await second.take(_ALL) == changed
    await second.end()
    with pytest.raises((MetadataUnavailableError, ChangesLostError)):
        await second.take(_ALL)


async def test_each_write_is_told_as_soon_as_it_is_done(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    """The next take reports every write that another client has an answer to: it waits for nothing to arrive."""
    changes = await _begun(store)
    key = RecordKey(Topic(names(b"news\x00'")))
    version = await other.ownership.write(key.topic, samples.hub(0), NEW)
    for number in range(1, 50):
        assert await changes.take(_ALL) == [ChangedRecord(OWNERSHIP, key)]
        record = await store.ownership.read(key.topic)
        assert record is not None
        assert record.version == version
        version = await other.ownership.write(key.topic, samples.hub(number), version)
    await changes.end()


async def test_changes_are_told_whatever_the_names_are(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    changes = await _begun(store)
    keys = [RecordKey(Topic(names(name))) for name in AWKWARD]
    named = [RecordKey(keys[0].topic, SubscriberId(name)) for name in AWKWARD]
    await other.ownership.apply([Write(key, samples.hub(1), NEW) for key in keys])
    for outcome in await other.subscriptions.apply([Write(key, samples.subscription(1), NEW) for key in named]):
        outcome.check()
    expected = {*(ChangedRecord(OWNERSHIP, key) for key in keys), *(ChangedRecord(SUBSCRIPTIONS, key) for key in named)}
    assert set(await changes.take(_ALL)) == expected
    await other.subscriptions.apply([Delete(key, ANY) for key in named])
    assert set(await changes.take(_ALL)) == {ChangedRecord(SUBSCRIPTIONS, key) for key in named}
    await changes.end()


async def test_nothing_is_missing_between_what_is_taken(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    """Take changes all the time while clients write as fast as they can. Each write is reported, soon or later."""
    changes = await _begun(store)
    keys = [RecordKey(Topic(names(b"t-%d" % number))) for number in range(400)]
    writers = [
        asyncio.create_task(client.persistence.apply([Write(key, LedgerRanges(), NEW) for key in part]))
        for client, part in ((other, keys[::2]), (store, keys[1::2]))
    ]
    reported: list[ChangedRecord] = []
    while not all(writer.done() for writer in writers):
        reported += await changes.take(7)
    for writer in writers:
        for outcome in writer.result():
            outcome.check()
    while taken := await changes.take(7):
        reported += taken
    assert {each.key for each in reported} == set(keys)
    await changes.end()


async def test_named_records_of_a_store_are_no_changes(store: MetadataStore, names: Names) -> None:
    changes = await _begun(store)
    before = await store.named_records.read("freeze")
    assert await store.named_records.replace("freeze", before, names(b"value"))
    assert await changes.take(_ALL) == []
    await changes.end()


class _Copy:
    """A copy of the records of some keys. The change feed keeps it up to date."""

    def __init__(self, store: MetadataStore, calls: Sequence[Call]) -> None:
        self._store = store
        self._calls = {call.kind.name: call for call in calls}
        self.records: dict[ChangedRecord, Any] = {}
        self.taken = 0

    async def follow(self, changes: Changes, most: int) -> int:
        """Take changes, and read each changed record again; return the number of changes."""
        changed = await changes.take(most)
        assert len(set(changed)) == len(changed) <= most
        for each in changed:
            self.records[each] = await self.read(each)
        self.taken += len(changed)
        return len(changed)

    async def read(self, record: ChangedRecord) -> Any:
        stored = await self._calls[record.kind.name].read(self._store, record.key)
        return None if stored is None else stored.value


async def test_a_copy_that_follows_the_changes_ends_up_equal(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    """Several clients write and delete a few records of every kind, while one takes the changes in small parts."""
    keys = [(call, call.key(names(b"shared-%d" % number))) for call in CALLS for number in range(12)]
    changes = await _begun(store)
    copy = _Copy(store, CALLS)
    random = Random(20)
    writes = 0

    async def change(through: MetadataStore) -> None:
        nonlocal writes
        for number in range(120):
            call, key = random.choice(keys)
            try:
                if random.random() < 0.3:
                    await call.delete(through, key, ANY)
                else:
                    await call.write(through, key, call.value(number), ANY)
                writes += 1
            except (NoRecordError, BadVersionError):
                pass

    writers = [asyncio.create_task(change(through)) for through in (store, other, store)]
    rounds = 0
    while not all(writer.done() for writer in writers):
        await copy.follow(changes, 5)
        rounds += 1
    await asyncio.gather(*writers)
    while await copy.follow(changes, 5):
        pass
    assert rounds > 1
    assert writes > 100
    for call, key in keys:
        record = ChangedRecord(call.kind, key)
        assert copy.records.get(record) == await copy.read(record), f"{record} was changed after it was told last"
    await changes.end()
