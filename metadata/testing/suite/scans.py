"""Prove that listings are complete and in order, page by page, in bounded memory, also while topics come and go."""

import asyncio
import random
import tracemalloc
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any, Final, TypeVar

import pytest

from hedwig.errors import InvalidArgumentError
from hedwig.metadata import Delete, Estimate, MetadataStore, RecordKey, StoreOptions, Write
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.metadata.testing.subject import Subject
from hedwig.model import SubscriberId, SubscriptionData, SubscriptionPreferences, Topic
from hedwig.versions import ANY, NEW

_T = TypeVar("_T")

SMALL_PAGES = StoreOptions(page_rows=7)
BATCH: Final = 2000
OWNERSHIP, PERSISTENCE, SUBSCRIPTION = CALLS


async def _all(items: AsyncIterable[_T]) -> list[_T]:
    return [item async for item in items]


async def _create(manager: Call, store: MetadataStore, keys: Iterable[RecordKey]) -> None:
    waiting = list(keys)
    for start in range(0, len(waiting), BATCH):
        batch = waiting[start : start + BATCH]
        outcomes = await manager.apply(store, [Write(key, manager.value(n), NEW) for n, key in enumerate(batch)])
        for outcome in outcomes:
            outcome.check()


async def _delete(manager: Call, store: MetadataStore, keys: Iterable[RecordKey]) -> None:
    for outcome in await manager.apply(store, [Delete(key, ANY) for key in keys]):
        outcome.check()


def _key(topic: bytes, subscriber: bytes) -> RecordKey:
    return RecordKey(Topic(topic), SubscriberId(subscriber))


# --------------------------------------------------------------------------------------------- subscriptions of a topic


NEIGHBOURS: Final = (
    b"a",
    b"a\x00",
    b"a\x00\x01",
    b"a\x00b",
    b"a\x01",
    b"a/",
    b"a/b",
    b"a/subscribers",
    b"a/subscribers/b",
    b"aa",
    b"ab",
    b"a\xff",
    b"a\xff\xff",
    b"`",
    b"b",
    b"\x00",
    b"\xff",
)


async def test_neighbours_never_leak_into_each_other(small_pages: MetadataStore) -> None:
    subscribers = {
        topic: {b"%d-%d" % (turn, number) for number in range(turn * 3)} for turn, topic in enumerate(NEIGHBOURS)
    }
    for name in NEIGHBOURS:
        subscribers[name] |= {other for other in NEIGHBOURS if len(other) < 4}
    await _create(
        SUBSCRIPTION, small_pages, (_key(topic, name) for topic, names in subscribers.items() for name in names)
    )
    for topic, expected in subscribers.items():
        listed = [name async for name, _ in small_pages.subscriptions.read_subscriptions(Topic(topic))]
        assert len(listed) == len(expected)
        assert set(listed) == expected
    assert set(await _all(small_pages.subscriptions.topics())) == set(NEIGHBOURS)


async def test_topic_without_subscriptions_lists_none(small_pages: MetadataStore) -> None:
    topic = Topic(b"topic")
    assert await _all(small_pages.subscriptions.read_subscriptions(topic)) == []
    await OWNERSHIP.write(small_pages, OWNERSHIP.key(topic), samples.hub(1), NEW)
    await PERSISTENCE.write(small_pages, PERSISTENCE.key(topic), samples.ranges(1), NEW)
    await _create(SUBSCRIPTION, small_pages, [_key(b"topic/below", b"s"), _key(b"topic2", b"s")])
    assert await _all(small_pages.subscriptions.read_subscriptions(topic)) == []
    keys = [_key(topic, b"%d" % number) for number in range(20)]
    await _create(SUBSCRIPTION, small_pages, keys)
    await _delete(SUBSCRIPTION, small_pages, keys)
    assert await _all(small_pages.subscriptions.read_subscriptions(topic)) == []
    assert topic not in await _all(small_pages.subscriptions.topics())


async def test_subscriptions_of_a_topic_are_counted_beside_its_neighbours(small_pages: MetadataStore) -> None:
    numbers = {topic: turn for turn, topic in enumerate(NEIGHBOURS)}
    await _create(
        SUBSCRIPTION,
        small_pages,
        (_key(topic, b"%d" % index) for topic, number in numbers.items() for index in range(number)),
    )
    for topic, number in numbers.items():
        assert await small_pages.subscriptions.count_subscriptions(Topic(topic)) == number
    assert await small_pages.subscriptions.count_subscriptions(Topic(b"absent")) == 0
    # Deleted records are not counted, and records created again are counted once.
    topic = NEIGHBOURS[-1]
    await _delete(SUBSCRIPTION, small_pages, [_key(topic, b"%d" % index) for index in range(10)])
    await _create(SUBSCRIPTION, small_pages, [_key(topic, b"0")])
    assert await small_pages.subscriptions.count_subscriptions(Topic(topic)) == numbers[topic] - 9


@pytest.mark.parametrize("name", [b"", b"n" * 8193])
async def test_subscriptions_of_what_is_no_topic_are_not_counted(name: bytes, empty_store: MetadataStore) -> None:
    with pytest.raises(InvalidArgumentError):
        await empty_store.subscriptions.count_subscriptions(Topic(name))


@pytest.mark.parametrize("number", [6, 7, 8, 13, 14, 15, 50])
async def test_pages_join_without_a_gap(number: int, small_pages: MetadataStore) -> None:
    keys = [_key(b"topic", b"%d" % index) for index in range(number)]
    await _create(SUBSCRIPTION, small_pages, keys)
    listed = await _all(small_pages.subscriptions.read_subscriptions(Topic(b"topic")))
    assert len(listed) == number
    for name, record in listed:
        assert record == await small_pages.subscriptions.read(Topic(b"topic"), name)
    assert [name for name, _ in listed] == [
        name async for name, _ in small_pages.subscriptions.read_subscriptions(Topic(b"topic"))
    ]


async def test_large_records_are_scanned(empty_store: MetadataStore) -> None:
    """The size of a page is a number of records, but a page of the largest ones must still fit into a reply."""
    data = SubscriptionData(preferences=SubscriptionPreferences(options={"o": b"v" * 400_000}))
    keys = [_key(b"topic", b"%d" % number) for number in range(20)]
    for key in keys:
        await SUBSCRIPTION.write(empty_store, key, data, NEW)
    listed = await _all(empty_store.subscriptions.read_subscriptions(Topic(b"topic")))
    assert {name for name, _ in listed} == {key.subscriber for key in keys}
    assert all(record.value == data for _, record in listed)


async def scan_one_large_topic(store: MetadataStore, subscriptions: int, topics: int) -> None:
    """Fill the store with one large topic among many others; scan it; check the memory it took and that it was exact.

    A scan that held the whole topic would need far more than the bound: the records alone are three times that.
    """
    large = Topic(b"middle")
    padding = {"padding": b"." * 600}
    data = SubscriptionData(preferences=SubscriptionPreferences(options=padding), state=samples.state(1))
    others = [b"%s-%d" % (side, number) for side in (b"before", b"later") for number in range(topics // 2)]
    await _create(SUBSCRIPTION, store, (_key(name, b"s") for name in (*others, b"middle\x00", b"middle/a", b"middlf")))
    for start in range(0, subscriptions, BATCH):
        names = [b"%08d" % number for number in range(start, min(start + BATCH, subscriptions))]
        for outcome in await store.subscriptions.apply([Write(_key(large, name), data, NEW) for name in names]):
            outcome.check()
    tracemalloc.start()
    try:
        listed = 0
        sum_of_names = 0
        async for name, record in store.subscriptions.read_subscriptions(large):
            listed += 1
            sum_of_names += int(name)
            assert record.value == data
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert listed == subscriptions
    assert sum_of_names == subscriptions * (subscriptions - 1) // 2
    assert peak < subscriptions * 600 / 3, f"the scan took {peak} bytes"
    assert len(await _all(store.subscriptions.topics())) == len(others) + 4


async def test_large_topic_is_scanned_in_bounded_memory(clients: Clients, empty_subject: Subject) -> None:
    store = await clients.open(empty_subject, StoreOptions(page_rows=20))
    await scan_one_large_topic(store, 5_000, 500)


# --------------------------------------------------------------------------------------------------- listings of topics


TOPICS: Final = tuple(
    dict.fromkeys(
        [b"t-%03d" % number for number in range(40)]
        + [b"t-%03d/nested" % number for number in range(0, 40, 5)]
        + [
            b"\x00\x00",
            b"\x00",
            b"\x00\xff",
            b"\x00a",
            b"a\xff",
            b"a\xff\x00",
            b"\xff",
            b"\xff\xff",
            b"a/",
            b"a",
            b"a/b",
            b"a\x00",
        ]
    )
)
PREFIXES: Final = (
    b"t-",
    b"t-00",
    b"t-001",
    b"t-001x",
    b"\x00",
    b"\x00\x00",
    b"\xff",
    b"a",
    b"a\xff",
    b"a/",
    b"t-005/",
    b"/",
    b"",
)


async def test_topics_are_listed_exactly(manager: Call, small_pages: MetadataStore) -> None:
    assert await _all(manager.topics(small_pages)) == []
    await _create(manager, small_pages, map(manager.key, TOPICS))
    listed = await _all(manager.topics(small_pages))
    assert len(listed) == len(TOPICS)
    assert set(listed) == set(TOPICS)
    for call in CALLS:
        if call is not manager:
            assert await _all(call.topics(small_pages)) == []


async def test_order_is_the_same_for_everybody(
    manager: Call, small_pages: MetadataStore, clients: Clients, empty_subject: Subject
) -> None:
    await _create(manager, small_pages, map(manager.key, TOPICS))
    listed = await _all(manager.topics(small_pages))
    assert await _all(manager.topics(small_pages)) == listed
    assert await _all(manager.topics(await clients.open(empty_subject))) == listed
    shuffled = [manager.key(name) for name in TOPICS]
    await _delete(manager, small_pages, shuffled)
    random.Random(1).shuffle(shuffled)
    await _create(manager, small_pages, shuffled)
    assert await _all(manager.topics(small_pages)) == listed


async def test_listing_resumes_after_any_name(manager: Call, small_pages: MetadataStore) -> None:
    await _create(manager, small_pages, map(manager.key, TOPICS))
    listed = await _all(manager.topics(small_pages))
    for position, topic in enumerate(listed):
        assert await _all(manager.topics(small_pages, start_after=topic)) == listed[position + 1 :]
    # It also resumes after names that are gone, with the names that followed them.
    gone = listed[::2]
    await _delete(manager, small_pages, map(manager.key, gone))
    for position, topic in enumerate(listed):
        left = [name for name in listed[position + 1 :] if name not in gone]
        assert await _all(manager.topics(small_pages, start_after=topic)) == left


async def test_listing_takes_a_prefix(manager: Call, small_pages: MetadataStore) -> None:
    await _create(manager, small_pages, map(manager.key, TOPICS))
    listed = await _all(manager.topics(small_pages))
    for prefix in PREFIXES:
        expected = [name for name in listed if name.startswith(prefix)]
        assert await _all(manager.topics(small_pages, prefix=prefix)) == expected
    middle = len(listed) // 2
    for prefix in PREFIXES[::4]:
        left = [name for name in listed[middle + 1 :] if name.startswith(prefix)]
        assert await _all(manager.topics(small_pages, prefix=prefix, start_after=listed[middle])) == left


async def test_topic_with_many_subscriptions_is_listed_once(small_pages: MetadataStore) -> None:
    sizes = {b"one": 1, b"page": 7, b"pages": 21, b"more": 40, b"none": 0, b"page/below": 9}
    await _create(SUBSCRIPTION, small_pages, (_key(t, b"%d" % n) for t, size in sizes.items() for n in range(size)))
    expected = sorted(topic for topic, size in sizes.items() if size)
    assert sorted(await _all(small_pages.subscriptions.topics())) == expected
    assert sorted(await _all(small_pages.topics())) == expected


async def test_managers_listings_are_merged(small_pages: MetadataStore) -> None:
    parts = {OWNERSHIP.label: TOPICS[::2], PERSISTENCE.label: TOPICS[::3], SUBSCRIPTION.label: TOPICS[1::3]}
    for manager in CALLS:
        await _create(manager, small_pages, map(manager.key, parts[manager.label]))
    expected = {name for names in parts.values() for name in names}
    merged = await _all(small_pages.topics())
    assert len(merged) == len(expected)
    assert set(merged) == expected
    for manager in CALLS:
        own = await _all(manager.topics(small_pages))
        assert own == [name for name in merged if name in parts[manager.label]]
    for position in range(0, len(merged), 7):
        assert await _all(small_pages.topics(start_after=merged[position])) == merged[position + 1 :]
    for prefix in PREFIXES[::3]:
        assert await _all(small_pages.topics(prefix=prefix)) == [name for name in merged if name.startswith(prefix)]


async def test_listing_may_be_left_at_any_point(manager: Call, small_pages: MetadataStore) -> None:
    await _create(manager, small_pages, map(manager.key, TOPICS))
    listed = await _all(manager.topics(small_pages))
    for stop in range(0, len(listed), 6):
        seen: list[bytes] = []
        listing: AsyncIterator[Topic] = manager.topics(small_pages)
        async for topic in listing:
            seen.append(topic)
            if len(seen) > stop:
                break
        await listing.aclose()  # type: ignore[attr-defined]
        assert seen == listed[: stop + 1]
    assert await _all(manager.topics(small_pages)) == listed


async def test_listing_is_right_while_topics_come_and_go(
    manager: Call, small_pages: MetadataStore, clients: Clients, empty_subject: Subject
) -> None:
    """Topics present throughout are listed exactly once, those absent throughout never, the others at most once."""
    lasting = {b"t-%03d" % number for number in range(60)}
    passing = [b"t-%03d%s" % (n, end) for n in range(0, 60, 3) for end in (b"a", b"/a", b"\x00")] + [b"\x01", b"zz"]
    await _create(manager, small_pages, map(manager.key, sorted(lasting)))
    writer = await clients.open(empty_subject, SMALL_PAGES)
    enough = asyncio.Event()

    async def churn(names: list[bytes]) -> int:
        turns = 0
        while not enough.is_set():
            await _create(manager, writer, map(manager.key, names))
            await _delete(manager, writer, map(manager.key, names))
            turns += 1
        return turns

    async with asyncio.TaskGroup() as group:
        churning = [group.create_task(churn(passing[start::4])) for start in range(4)]
        met = 0
        for _ in range(6):
            listed = await _all(manager.topics(small_pages))
            assert len(set(listed)) == len(listed)
            assert lasting <= set(listed) <= lasting | set(passing)
            met += len(listed) - len(lasting)
        enough.set()
    assert all(task.result() for task in churning)
    assert set(await _all(manager.topics(small_pages))) == lasting


async def test_scan_is_right_while_subscriptions_come_and_go(
    small_pages: MetadataStore, clients: Clients, empty_subject: Subject
) -> None:
    topic = Topic(b"topic")
    lasting = {b"s-%03d" % number for number in range(60)}
    passing = [b"s-%03d%s" % (n, end) for n in range(0, 60, 3) for end in (b"a", b"\x00")]
    await _create(SUBSCRIPTION, small_pages, (_key(topic, name) for name in sorted(lasting)))
    writer = await clients.open(empty_subject, SMALL_PAGES)
    enough = asyncio.Event()

    async def churn() -> int:
        turns = 0
        keys = [_key(topic, name) for name in passing]
        while not enough.is_set():
            await _create(SUBSCRIPTION, writer, keys)
            await _delete(SUBSCRIPTION, writer, keys)
            turns += 1
        return turns

    async with asyncio.TaskGroup() as group:
        churning = group.create_task(churn())
        for _ in range(6):
            listed = [name async for name, _ in small_pages.subscriptions.read_subscriptions(topic)]
            assert len(set(listed)) == len(listed)
            assert lasting <= set(listed) <= lasting | set(passing)
        enough.set()
    assert churning.result() > 0


async def test_records_are_counted(small_pages: MetadataStore) -> None:
    assert dict(await small_pages.count()) == {"ownership": 0, "persistence": 0, "subscriptions": 0}
    await _create(OWNERSHIP, small_pages, map(OWNERSHIP.key, TOPICS))
    await _create(PERSISTENCE, small_pages, map(PERSISTENCE.key, TOPICS[:10]))
    await _create(SUBSCRIPTION, small_pages, (_key(name, b"%d" % n) for name in TOPICS[:5] for n in range(9)))
    expected: dict[str, Any] = {"ownership": len(TOPICS), "persistence": 10, "subscriptions": 45}
    assert dict(await small_pages.count()) == expected
    await _delete(PERSISTENCE, small_pages, map(PERSISTENCE.key, TOPICS[:3]))
    await _delete(SUBSCRIPTION, small_pages, [_key(TOPICS[0], b"%d" % n) for n in range(9)])
    fewer = {**expected, "persistence": 7, "subscriptions": 36}
    assert dict(await small_pages.count()) == fewer
    assert dict(await small_pages.estimate()) == {kind: Estimate(number, True) for kind, number in fewer.items()}
