"""Prove that changes of many clients to one record all take effect, each once, on every manager."""

import asyncio
from typing import Any

from hedwig.metadata import Instead, MetadataStore, TopicRecords, change
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Names
from hedwig.metadata.testing.doors import Call
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.versions import Versioned

CHANGES = 8
SUBSCRIBER = SubscriberId(b"subscriber")


def _records(manager: Call, store: MetadataStore) -> TopicRecords[Any]:
    chosen = manager.manager(store)
    records: TopicRecords[Any] = chosen.of(SUBSCRIBER) if manager.kind.has_subscriber else chosen
    return records


async def test_changes_at_once_are_each_made_once(
    manager: Call, store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    topic = Topic(names(b"topic"))
    values = [manager.value(number) for number in range(CHANGES + 1)]

    def following(current: Versioned[Any] | None) -> Any:
        return values[0] if current is None else values[values.index(current.value) + 1]

    async def one(client: MetadataStore) -> Any:
        return await change(_records(manager, client), topic, following, tries=CHANGES)

    versions = await asyncio.gather(*(one((store, other)[number % 2]) for number in range(CHANGES)))
    record = await manager.read(other, manager.key(topic))
    assert record is not None
    assert record.value == values[CHANGES - 1]
    assert record.version in versions
    assert len(set(versions)) == CHANGES


async def test_deletion_is_a_change_that_many_make_and_one_carries_out(
    manager: Call, store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    topic = Topic(names(b"topic"))
    await change(_records(manager, store), topic, lambda _: manager.value(1))
    deletions = [change(_records(manager, client), topic, lambda _: Instead.DELETE) for client in (store, other) * 4]
    assert await asyncio.gather(*deletions) == [None] * 8
    assert await manager.read(store, manager.key(topic)) is None


async def test_change_of_a_subscription_leaves_the_parts_that_it_does_not_name(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    topic = Topic(names(b"topic"))
    created = await store.subscriptions.create(topic, SUBSCRIBER, samples.subscription(1))
    await other.subscriptions.update(topic, SUBSCRIBER, SubscriptionData(preferences=samples.preferences(2)), created)
    moved = await change(
        store.subscriptions.of(SUBSCRIBER),
        topic,
        lambda _: SubscriptionData(state=samples.state(3)),
        seen=Versioned(samples.subscription(1), created),
    )
    whole = SubscriptionData(preferences=samples.preferences(2), state=samples.state(3))
    assert moved is not None
    assert await other.subscriptions.read(topic, SUBSCRIBER) == Versioned(whole, moved)
