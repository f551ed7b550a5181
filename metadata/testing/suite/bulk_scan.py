"""Prove that the bulk scan returns every record exactly once, in key order, in bounded memory, and that it resumes."""

import tracemalloc
from contextlib import aclosing
from typing import Any, Final

import pytest

from hedwig.errors import CorruptRecordError, MetadataUnavailableError
from hedwig.metadata import Delete, MetadataStore, RecordKey, ScannedRecord, StoreOptions, Write
from hedwig.metadata.contract.kinds import KINDS, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.scan import SCAN_ROWS
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.bulk_contents import PREFIXES, TOPICS, Contents, contents, fill
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.doors import CALLS
from hedwig.metadata.testing.probe import Probe
from hedwig.metadata.testing.subject import Subject
from hedwig.model import SubscriberId, SubscriptionData, SubscriptionPreferences, Topic
from hedwig.versions import ANY, NEW, Versioned

_KINDS: Final[tuple[RecordKind[Any], ...]] = KINDS
SMALL_PAGES: Final = StoreOptions(page_rows=7)
BATCH: Final = 2000


async def scanned(store: MetadataStore, **how: Any) -> list[ScannedRecord]:
    return [item async for page in store.scan(**how) for item in page]


async def test_every_record_is_met_once(small_pages: MetadataStore) -> None:
    assert await scanned(small_pages) == []
    stored = await fill(small_pages)
    met = await scanned(small_pages)
    assert contents(met) == stored
    for item in met[::17]:
        assert await _read(small_pages, item) == item.read()


async def _read(store: MetadataStore, item: ScannedRecord) -> Versioned[Any] | None:
    (call,) = (call for call in CALLS if call.kind is item.kind)
    if item.key.subscriber is None:
        return await call.read(store, item.key)
    return await store.subscriptions.read(item.key.topic, item.key.subscriber)


async def test_order_is_that_of_listings(filled: tuple[MetadataStore, Contents]) -> None:
    store, _ = filled
    met = await scanned(store)
    topics = list(dict.fromkeys(item.key.topic for item in met))
    assert topics == [topic async for topic in store.topics()]
    order = {kind.name: position for position, kind in enumerate(_KINDS)}
    for topic in topics:
        of_topic = [item for item in met if item.key.topic == topic]
        start = met.index(of_topic[0])
        assert met[start : start + len(of_topic)] == of_topic, "a topic's records stand together"
        assert [order[item.kind.name] for item in of_topic] == sorted(order[item.kind.name] for item in of_topic)
        listed = [name async for name, _ in store.subscriptions.read_subscriptions(topic)]
        assert [item.key.subscriber for item in of_topic if item.kind is SUBSCRIPTIONS] == listed


async def test_scan_resumes_after_any_topic(small_pages: MetadataStore) -> None:
    await fill(small_pages)
    met = await scanned(small_pages)
    topics = list(dict.fromkeys(item.key.topic for item in met))
    for position in range(0, len(topics), 5):
        rest = set(topics[position + 1 :])
        left = [item for item in met if item.key.topic in rest]
        assert await scanned(small_pages, start_after=topics[position]) == left
    # It also resumes after a topic that is gone.
    gone = topics[len(topics) // 2]
    for call in CALLS:
        keys = [item.key for item in met if item.kind is call.kind and item.key.topic == gone]
        for outcome in await call.apply(small_pages, [Delete(key, ANY) for key in keys]):
            outcome.check()
    rest = set(topics[topics.index(gone) + 1 :])
    assert await scanned(small_pages, start_after=gone) == [item for item in met if item.key.topic in rest]


async def test_scan_takes_a_prefix(filled: tuple[MetadataStore, Contents]) -> None:
    store, _ = filled
    met = await scanned(store)
    middle = met[len(met) // 2].key.topic
    rest = {item.key.topic for item in met[[item.key.topic for item in met].index(middle) :]} - {middle}
    for prefix in PREFIXES:
        expected = [item for item in met if item.key.topic.startswith(prefix)]
        assert await scanned(store, prefix=prefix) == expected, prefix
        left = [item for item in expected if item.key.topic in rest]
        assert await scanned(store, prefix=prefix, start_after=middle) == left, prefix


async def test_scan_of_some_kinds_meets_those(filled: tuple[MetadataStore, Contents]) -> None:
    store, stored = filled
    for kind in KINDS:
        met = contents(await scanned(store, kinds=(kind,)))
        assert met == {name: record for name, record in stored.items() if name[0] == kind.name}


async def test_scan_may_be_left_at_any_page(empty_store: MetadataStore) -> None:
    topics = [b"topic-%04d" % number for number in range(160)]
    stored = await fill(empty_store, topics)
    async with aclosing(empty_store.scan()) as pages:
        async for page in pages:
            assert len(page) == SCAN_ROWS
            break
    assert contents(await scanned(empty_store)) == stored


async def test_record_that_cannot_be_read_does_not_end_the_scan(
    small_pages: MetadataStore, clients: Clients, empty_subject: Subject
) -> None:
    stored = await fill(small_pages, TOPICS[:20])
    probe: Probe = await clients.probe(empty_subject, small_pages)
    broken = [next(name for name in stored if name[0] == kind.name) for kind in KINDS]
    for kind, (_, key) in zip(_KINDS, broken, strict=True):
        await probe.corrupt(kind, key)
    met = await scanned(small_pages)
    unreadable = [item for item in met if item.error is not None]
    assert {(item.kind.name, item.key) for item in unreadable} == set(broken)
    assert contents(item for item in met if item.error is None) == {
        name: record for name, record in stored.items() if name not in broken
    }
    with pytest.raises(CorruptRecordError):
        unreadable[0].read()
    # Later tests may use the same store, and have to read it in order to empty it.
    for call, (_, key) in zip(CALLS, broken, strict=True):
        for outcome in await call.apply(small_pages, [Delete(key, ANY)]):
            outcome.check()


async def test_closed_store_ends_the_scan_with_an_error(clients: Clients, empty_subject: Subject) -> None:
    store = await clients.open(empty_subject, SMALL_PAGES)
    await fill(store)
    await store.close()
    with pytest.raises(MetadataUnavailableError):
        await scanned(store)


async def scan_beside_a_large_topic(store: MetadataStore, subscriptions: int, topics: int) -> None:
    """Scan one large topic among many others; check the memory that the scan took, and that it was exact.

    A scan that held the whole topic in memory would need half as much again.
    """
    large = Topic(b"middle")
    data = SubscriptionData(
        preferences=SubscriptionPreferences(options={"padding": b"." * 600}), state=samples.state(1)
    )
    await fill(store, [b"%d-%s" % (number, b"other") for number in range(topics)])
    for start in range(0, subscriptions, BATCH):
        names = [SubscriberId(b"%08d" % number) for number in range(start, min(start + BATCH, subscriptions))]
        for outcome in await store.subscriptions.apply([Write(RecordKey(large, name), data, NEW) for name in names]):
            outcome.check()
    tracemalloc.start()
    try:
        seen = sum_of_names = 0
        async for page in store.scan():
            for item in page:
                if item.key.topic == large:
                    seen += 1
                    sum_of_names += int(item.key.subscriber or b"")
                    assert item.read().value == data
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (seen, sum_of_names) == (subscriptions, subscriptions * (subscriptions - 1) // 2)
    assert peak < 3_000_000 + subscriptions * 600 * 0.8, f"the scan took {peak} bytes"


async def test_large_topic_is_met_in_bounded_memory(clients: Clients, empty_subject: Subject) -> None:
    store = await clients.open(empty_subject, StoreOptions(page_rows=20))
    await scan_beside_a_large_topic(store, 5_000, 20)
