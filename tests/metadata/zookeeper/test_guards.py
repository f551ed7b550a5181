"""Prove the purpose of the guard, the parent's data version: no incarnation of a node passes for another."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from hedwig.errors import BadVersionError, NoSubscriptionStateError, UncertainStateError
from hedwig.metadata import Delete, MetadataStore, Outcome, RecordKey, Write, open_metadata
from hedwig.metadata.zookeeper.records.records import SUBSCRIPTION
from hedwig.metadata.zookeeper.writes.versions import ZnodeVersion, identity_of
from hedwig.model import HubInfo, LedgerRanges, MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.versions import ANY, NEW, Version
from tests.metadata.zookeeper.conftest import Prefix

TOPIC: Final = Topic(b"a/b")
ME: Final = SubscriberId(b"me")
NEIGHBOUR: Final = SubscriberId(b"neighbour")


def _data(consumed: int) -> SubscriptionData:
    return SubscriptionData(state=SubscriptionState(MessageSeqId(consumed)))


def _parent(prefix: Prefix) -> str:
    return f"{prefix.path}/topics/a/b/subscribers"


async def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(question, *arguments)


async def test_version_is_the_nodes_own_numbers(store: MetadataStore, prefix: Prefix, raw: KazooClient) -> None:
    created = await store.subscriptions.create(TOPIC, ME, _data(1))
    data, stat = await _ask(raw.get, f"{_parent(prefix)}/me")
    mark, parent = await _ask(raw.get, _parent(prefix))
    assert isinstance(created, ZnodeVersion)
    assert identity_of(created) == (stat.czxid, 0)
    assert created.guard == parent.version == 1
    assert created.token == SUBSCRIPTION.token(data) == mark
    updated = await store.subscriptions.update(TOPIC, ME, _data(2), created)
    data, _ = await _ask(raw.get, f"{_parent(prefix)}/me")
    assert identity_of(updated) == (stat.czxid, 1)
    assert SUBSCRIPTION.previous(data) == created.token
    assert (await _ask(raw.get, _parent(prefix)))[1].version == 1


async def test_neighbours_change_no_version_and_stop_no_write(store: MetadataStore) -> None:
    subscriptions = store.subscriptions
    version = await subscriptions.create(TOPIC, ME, _data(1))
    neighbour = await subscriptions.create(TOPIC, NEIGHBOUR, _data(1))
    record = await subscriptions.read(TOPIC, ME)
    assert record is not None
    assert record.version == version
    assert hash(record.version) == hash(version)
    updated = await subscriptions.update(TOPIC, ME, _data(2), version)
    await subscriptions.delete(TOPIC, NEIGHBOUR, neighbour)
    await subscriptions.create(TOPIC, NEIGHBOUR, _data(1))
    await subscriptions.delete(TOPIC, ME, updated)
    assert await subscriptions.read(TOPIC, ME) is None


async def test_version_without_hints_serves_as_well(store: MetadataStore) -> None:
    version = await store.subscriptions.create(TOPIC, ME, _data(1))
    bare = Version.parse(str(version))
    assert bare == version
    assert version == bare
    updated = await store.subscriptions.update(TOPIC, ME, _data(2), bare)
    with pytest.raises(BadVersionError) as refusal:
        await store.subscriptions.update(TOPIC, ME, _data(3), bare)
    assert refusal.value.current_version == updated
    await store.subscriptions.delete(TOPIC, ME, Version.parse(str(updated)))


@pytest.mark.parametrize("bare", [False, True])
async def test_another_incarnation_at_the_same_data_version_is_refused(
    store: MetadataStore, prefix: Prefix, bare: bool
) -> None:
    async with await open_metadata(prefix.url) as other:
        stale: Version = await store.subscriptions.create(TOPIC, ME, _data(1))
        await other.subscriptions.delete(TOPIC, ME, stale)
        again = await other.subscriptions.create(TOPIC, ME, _data(1))
    known, renewed = identity_of(stale), identity_of(again)
    assert known is not None
    assert renewed is not None
    assert (known[0] < renewed[0], known[1] == renewed[1]) == (True, True)
    stale = Version.parse(str(stale)) if bare else stale
    with pytest.raises(BadVersionError):
        await store.subscriptions.update(TOPIC, ME, _data(2), stale)
    with pytest.raises(BadVersionError):
        await store.subscriptions.delete(TOPIC, ME, stale)
    record = await store.subscriptions.read(TOPIC, ME)
    assert record is not None
    assert record.version == again


async def test_program_that_leaves_no_trace_is_noticed_afterwards(
    store: MetadataStore, prefix: Prefix, raw: KazooClient
) -> None:
    """The original changes no guard. This one window remains, and the store does not report success in it."""
    path = f"{_parent(prefix)}/me"
    version = await store.subscriptions.create(TOPIC, ME, _data(1))
    await _ask(raw.delete, path)
    await _ask(raw.create, path, SUBSCRIPTION.encode(_data(5)))
    with pytest.raises(UncertainStateError, match="and created it anew"):
        await store.subscriptions.update(TOPIC, ME, _data(2), version)


async def test_writes_of_the_original_are_met_with_care(store: MetadataStore, prefix: Prefix, raw: KazooClient) -> None:
    path = f"{_parent(prefix)}/me"
    version = await store.subscriptions.create(TOPIC, ME, _data(1))
    await _ask(raw.set, path, SUBSCRIPTION.encode(_data(5)))
    with pytest.raises(BadVersionError) as refusal:
        await store.subscriptions.update(TOPIC, ME, _data(2), version)
    current = refusal.value.current
    assert current is not None
    assert current.value == _data(5)
    await store.subscriptions.update(TOPIC, ME, _data(6), current.version)
    data, _ = await _ask(raw.get, path)
    assert SUBSCRIPTION.previous(data) == b""
    await _ask(raw.delete, path)
    with pytest.raises(NoSubscriptionStateError):
        await store.subscriptions.update(TOPIC, ME, _data(7), current.version)


async def test_record_that_nobody_can_read_is_still_guarded(
    store: MetadataStore, prefix: Prefix, raw: KazooClient
) -> None:
    path = f"{_parent(prefix)}/me"
    version = await store.subscriptions.create(TOPIC, ME, _data(1))
    stat = await _ask(raw.set, path, b"\xff")
    with pytest.raises(BadVersionError) as refusal:
        await store.subscriptions.delete(TOPIC, ME, version)
    assert refusal.value.current is None
    assert path in str(refusal.value)
    here = ZnodeVersion.of((stat.czxid, stat.version), path, None, b"", None)
    await store.subscriptions.delete(TOPIC, ME, here)
    assert await _ask(raw.exists, path) is None


async def test_parents_outlive_their_records(store: MetadataStore, prefix: Prefix, raw: KazooClient) -> None:
    await store.ownership.write(TOPIC, HubInfo(host="h", port=1), NEW)
    await store.subscriptions.create(TOPIC, ME, _data(1))
    await store.ownership.delete(TOPIC, ANY)
    await store.subscriptions.delete(TOPIC, ME, ANY)
    assert (await _ask(raw.get, _parent(prefix)))[1].version == 2
    assert (await _ask(raw.get, f"{prefix.path}/topics/a/b"))[1].version == 2
    assert [topic async for topic in store.topics()] == []


async def test_many_deletes_under_one_parent_share_transactions(
    store: MetadataStore, prefix: Prefix, raw: KazooClient
) -> None:
    keys = [RecordKey(TOPIC, SubscriberId(b"%d" % number)) for number in range(1500)]
    created = await store.subscriptions.apply([Write(key, _data(1), NEW) for key in keys])
    seven, first = SubscriberId(b"7"), created[7].written()
    second = await store.subscriptions.update(TOPIC, seven, _data(2), first)
    guard = (await _ask(raw.get, _parent(prefix)))[1].version
    outcomes: list[Outcome[SubscriptionData]] = await store.subscriptions.apply(
        [Delete(key, outcome.written()) for key, outcome in zip(keys, created, strict=True)]
    )
    assert [index for index, outcome in enumerate(outcomes) if outcome.error is not None] == [7]
    assert isinstance(outcomes[7].error, BadVersionError)
    assert await _ask(raw.get_children, _parent(prefix)) == ["7"]
    assert (await _ask(raw.get, _parent(prefix)))[1].version - guard <= 100
    await store.subscriptions.delete(TOPIC, seven, second)


async def test_creations_and_deletions_side_by_side_all_get_done(store: MetadataStore, prefix: Prefix) -> None:
    keys = [RecordKey(TOPIC, SubscriberId(b"%d" % number)) for number in range(300)]
    created = await store.subscriptions.apply([Write(key, _data(1), NEW) for key in keys])
    more = [RecordKey(TOPIC, SubscriberId(b"more %d" % number)) for number in range(300)]
    async with await open_metadata(prefix.url) as other:
        deleted, added = await asyncio.gather(
            store.subscriptions.apply(
                [Delete(key, outcome.written()) for key, outcome in zip(keys, created, strict=True)]
            ),
            other.subscriptions.apply([Write(key, _data(1), NEW) for key in more]),
        )
    assert [outcome.error for outcome in (*deleted, *added)] == [None] * 600
    left = {subscriber async for subscriber, _ in store.subscriptions.read_subscriptions(TOPIC)}
    assert left == {key.subscriber for key in more}


async def test_store_that_was_removed_says_so(store: MetadataStore, prefix: Prefix, raw: KazooClient) -> None:
    await _ask(lambda: raw.delete(prefix.path, recursive=True))
    assert await store.persistence.read(TOPIC) is None
    with pytest.raises(Exception, match="hedwig-admin metadata format"):
        await store.persistence.write(TOPIC, LedgerRanges(), NEW)
