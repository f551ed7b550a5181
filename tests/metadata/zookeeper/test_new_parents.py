"""Prove that a record with a new parent costs one transaction once the store expects new parents.

A wrong guess changes only the cost.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from hedwig.errors import SubscriptionStateExistsError, TopicOwnerInfoExistsError
from hedwig.metadata import MetadataStore
from hedwig.metadata.zookeeper.writes.versions import ZnodeVersion
from hedwig.model import HubInfo, LedgerRanges, MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.versions import NEW
from tests.metadata.zookeeper.conftest import Prefix

ME: Final = SubscriberId(b"me")
HUB: Final = HubInfo(host="hub.example", port=4080, epoch=7)
DATA: Final = SubscriptionData(state=SubscriptionState(MessageSeqId(0)))


async def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(question, *arguments)


async def _own(store: MetadataStore, name: bytes) -> ZnodeVersion:
    version = await store.ownership.write(Topic(name), HUB, NEW)
    assert isinstance(version, ZnodeVersion)
    return version


async def _subscribe(store: MetadataStore, name: bytes, subscriber: SubscriberId = ME) -> ZnodeVersion:
    version = await store.subscriptions.create(Topic(name), subscriber, DATA)
    assert isinstance(version, ZnodeVersion)
    return version


async def _transactions(raw: KazooClient, parent: str, node: str) -> tuple[int, int, int]:
    """Return the zxids that made a parent, marked it, and made its child."""
    _, above = await _ask(raw.get, parent)
    _, below = await _ask(raw.get, f"{parent}/{node}")
    return above.czxid, above.mzxid, below.czxid


async def test_new_topics_are_claimed_in_one_transaction_each(
    store: MetadataStore, prefix: Prefix, raw: KazooClient
) -> None:
    for number in range(4):
        name = b"topic-%d" % number
        version = await _own(store, name)
        await store.persistence.write(Topic(name), LedgerRanges(), NEW)
        await _subscribe(store, name)
        topic = f"{prefix.path}/topics/{name.decode()}"
        made, marked, child = await _transactions(raw, topic, "hub")
        listed, changed, subscription = await _transactions(raw, f"{topic}/subscribers", "me")
        assert (version.guard, marked > made) == (1, True), "the ledgers' record marks the topic once more"
        assert changed == subscription
        # The first creation makes the parents separately. It teaches the store what to expect.
        assert (made == child) == (number > 0)
        assert (listed == subscription) == (number > 0)


async def test_versions_of_records_made_with_their_parents_serve_like_any(store: MetadataStore) -> None:
    await _own(store, b"first")
    await _subscribe(store, b"first")
    owner = await _own(store, b"second")
    subscription = await _subscribe(store, b"second")
    record = await store.ownership.read(Topic(b"second"))
    assert record is not None
    assert (record.version, record.value) == (owner, HUB)
    moved = await store.subscriptions.update(Topic(b"second"), ME, DATA, subscription)
    await store.subscriptions.delete(Topic(b"second"), ME, moved)
    await store.ownership.delete(Topic(b"second"), owner)
    again = await _own(store, b"second")
    assert again != owner


async def test_wrong_guesses_are_made_good(store: MetadataStore) -> None:
    """Records with existing parents alternate with records with new parents, and some creations are refused."""
    for number in range(4):
        name = b"topic-%d" % number
        await _own(store, name)  # The guess is right from the second topic on.
        await _subscribe(store, name)
        second = await _subscribe(store, name, SubscriberId(b"second"))  # The store expected no parent here.
        third = await _subscribe(store, name, SubscriberId(b"third"))
        assert (second.guard, third.guard) == (2, 3)
    with pytest.raises(TopicOwnerInfoExistsError) as owned:
        await _own(store, b"topic-0")  # The store expected the topic to be missing.
    assert owned.value.current is not None
    assert owned.value.current.value == HUB
    await _subscribe(store, b"topic-new")
    with pytest.raises(SubscriptionStateExistsError) as subscribed:
        await _subscribe(store, b"topic-0")
    assert subscribed.value.current is not None


async def test_everything_above_is_made_where_more_is_missing_than_expected(store: MetadataStore) -> None:
    await _own(store, b"a")
    await _subscribe(store, b"a")
    await _own(store, b"b/c/d")
    await _subscribe(store, b"e/f/g")
    assert await store.ownership.read(Topic(b"b/c/d")) is not None
    assert await store.subscriptions.read(Topic(b"e/f/g"), ME) is not None


async def test_many_at_once_under_one_new_parent_are_all_made(store: MetadataStore) -> None:
    await _subscribe(store, b"first")
    made = await asyncio.gather(*(_subscribe(store, b"crowd", SubscriberId(b"%d" % number)) for number in range(50)))
    assert sorted(version.guard or 0 for version in made) == list(range(1, 51))
    subscribers = [subscriber async for subscriber, _ in store.subscriptions.read_subscriptions(Topic(b"crowd"))]
    assert len(subscribers) == 50
