"""Prove that a store finds the subscriptions of a subscriber: all that exist, in pages, also from the middle on."""

from hedwig.metadata import Delete, MetadataStore, RecordKey, Write
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.awkward_names import AWKWARD
from hedwig.metadata.testing.clients import Names
from hedwig.metadata.testing.probe import Probe
from hedwig.model import SubscriberId, Topic
from hedwig.versions import ANY, NEW

_READER = SubscriberId(b"reader")
_OTHER = SubscriberId(b"reader-too")


async def _topics_of(store: MetadataStore, subscriber: SubscriberId, start_after: Topic | None = None) -> list[Topic]:
    return [record.key.topic async for page in store.subscriptions_of(subscriber, start_after) for record in page]


async def test_subscriptions_of_a_subscriber_are_those_that_exist(
    store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    reader, topics = SubscriberId(names(b"reader")), [Topic(names(b"t%d" % number)) for number in range(4)]
    for topic in topics:
        await store.subscriptions.create(topic, reader, samples.subscription(1))
        await store.subscriptions.create(topic, SubscriberId(reader + b"-too"), samples.subscription(2))
    assert sorted(await _topics_of(other, reader)) == topics
    await other.subscriptions.delete(topics[0], reader, ANY)
    version = await other.subscriptions.update(topics[1], reader, samples.subscription(3), ANY)
    await store.subscriptions.delete(topics[1], reader, version)
    await store.subscriptions.create(topics[1], reader, samples.subscription(4))
    (outcome,) = await store.subscriptions.apply([Delete(RecordKey(topics[2], reader), ANY)])
    outcome.check()
    assert sorted(await _topics_of(store, reader)) == [topics[1], topics[3]]
    assert sorted(await _topics_of(store, SubscriberId(reader + b"-too"))) == topics
    assert await _topics_of(store, SubscriberId(reader[:-1])) == []


async def test_subscriptions_of_a_subscriber_have_their_records(store: MetadataStore, names: Names) -> None:
    reader, topic = SubscriberId(names(b"reader")), Topic(names(b"topic"))
    version = await store.subscriptions.create(topic, reader, samples.subscription(5))
    ((found,),) = [page async for page in store.subscriptions_of(reader)]
    assert found.kind is SUBSCRIPTIONS
    assert found.key == RecordKey(topic, reader)
    assert found.read() == await store.subscriptions.read(topic, reader)
    assert found.read().version == version


async def test_subscriptions_of_a_subscriber_are_listed_in_pages_and_from_the_middle_on(
    small_pages: MetadataStore,
) -> None:
    topics = [Topic(b"topic-%d" % number) for number in range(40)]
    data = samples.subscription(1)
    writes = [Write(RecordKey(topic, name), data, NEW) for topic in topics for name in (_READER, _OTHER)]
    for outcome in await small_pages.subscriptions.apply(writes):
        outcome.written()
    listed = await _topics_of(small_pages, _READER)
    assert sorted(listed) == sorted(topics)
    for middle in (0, 6, 7, 22, 39):
        assert await _topics_of(small_pages, _READER, listed[middle]) == listed[middle + 1 :]
    deletes = [Delete(RecordKey(topic, _READER), ANY) for topic in listed[::2]]
    for outcome in await small_pages.subscriptions.apply(deletes):
        outcome.check()
    assert await _topics_of(small_pages, _READER) == listed[1::2]
    assert await _topics_of(small_pages, _READER, listed[20]) == listed[21::2]


async def test_subscriptions_of_a_subscriber_are_found_by_any_name(store: MetadataStore) -> None:
    data = samples.subscription(1)
    keys = [RecordKey(Topic(name), SubscriberId(name)) for name in AWKWARD]
    for outcome in await store.subscriptions.apply([Write(key, data, NEW) for key in keys]):
        outcome.written()
    for name in AWKWARD:
        assert await _topics_of(store, SubscriberId(name)) == [Topic(name)]


async def test_subscription_that_cannot_be_read_is_found(store: MetadataStore, probe: Probe, names: Names) -> None:
    reader, topics = SubscriberId(names(b"reader")), [Topic(names(b"a")), Topic(names(b"b"))]
    for topic in topics:
        await store.subscriptions.create(topic, reader, samples.subscription(1))
    await probe.corrupt(SUBSCRIPTIONS, RecordKey(topics[0], reader))
    found = {record.key.topic: record async for page in store.subscriptions_of(reader) for record in page}
    assert found.keys() == set(topics)
    assert found[topics[0]].error is not None
    assert found[topics[1]].error is None
