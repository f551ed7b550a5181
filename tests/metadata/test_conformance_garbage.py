"""Prove that a refused write leaves nothing for the garbage collector, which would keep large records for a while."""

import gc
import weakref

from hedwig.errors import TopicPersistenceInfoExistsError
from hedwig.metadata import MetadataStore
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.subject import Subject
from hedwig.model import Topic
from hedwig.versions import NEW
from tests.faults.support.waiting import until


async def _refusal(store: MetadataStore, topic: Topic) -> "weakref.ref[TopicPersistenceInfoExistsError]":
    """Return the error of a write that the store refuses. The error holds the present record."""
    try:
        await store.persistence.write(topic, samples.ranges(2), NEW)
    except TopicPersistenceInfoExistsError as exc:
        return weakref.ref(exc)
    raise AssertionError("the write was not refused")


async def test_refused_write_is_freed_without_the_collector(subject: Subject, clients: Clients, names: Names) -> None:
    store = await clients.open(subject)
    topic = Topic(names(b"t"))
    await store.persistence.write(topic, samples.ranges(1), NEW)
    gc.disable()
    try:
        refusal = await _refusal(store, topic)
        # A thread or a task of the store may not have let go of it yet.
        await until(lambda: refusal() is None, "the refusal is freed")
    finally:
        gc.enable()
