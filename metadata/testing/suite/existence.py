"""Prove that a topic exists for a store exactly while any manager has a record of it, of any client."""

from hedwig.metadata import MetadataStore
from hedwig.metadata.testing.clients import Names
from hedwig.metadata.testing.doors import Door
from hedwig.model import Topic
from hedwig.versions import NEW


async def test_topic_exists_from_its_first_record_to_its_last(
    door: Door, store: MetadataStore, other: MetadataStore, names: Names
) -> None:
    key = door.key(names(b"topic"))
    assert not await store.has_topic(key.topic)
    version = await door.write(other, key, door.value(1), NEW)
    assert await store.has_topic(key.topic)
    await door.delete(other, key, version)
    assert not await store.has_topic(key.topic)


async def test_topic_does_not_exist_for_others_whose_names_begin_with_its_own(
    door: Door, store: MetadataStore, names: Names
) -> None:
    """In ZooKeeper the nodes of these topics are below the topic's own node."""
    topic = names(b"topic")
    for longer in (topic + b"/below", topic + b"\0", topic + b"s"):
        await door.write(store, door.key(longer), door.value(1), NEW)
    assert not await store.has_topic(Topic(topic))
