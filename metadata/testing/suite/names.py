"""Prove that any bytes can be a name, that no two names are confused, and that the limits of length hold."""

from collections.abc import AsyncIterable, Coroutine, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedwig.errors import NameLimitError
from hedwig.metadata import Delete, MetadataStore, Read, RecordKey, Write
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.awkward_names import AWKWARD, LONGEST, MOST_COMPONENTS, looks_like
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.metadata.testing.probe import Probe
from hedwig.metadata.testing.refusals import refused_at_once
from hedwig.metadata.testing.subject import Subject
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.names import NAME_BYTES_MAX
from hedwig.versions import ANY, NEW, Version, Versioned

_T = TypeVar("_T")

FORBIDDEN = {"empty": b"", "one byte too many": b"a" * (NAME_BYTES_MAX + 1)}
SOME = AWKWARD[::7]


async def _all(items: AsyncIterable[_T]) -> list[_T]:
    return [item async for item in items]


def _key(manager: Call, topic: bytes, subscriber: bytes = b"s") -> RecordKey:
    return RecordKey(Topic(topic), SubscriberId(subscriber) if manager.kind.has_subscriber else None)


async def _create_all(manager: Call, store: MetadataStore, keys: Iterable[RecordKey]) -> dict[RecordKey, Any]:
    """Create a different record at each of `keys`; return the expected results of reads."""
    values = {key: manager.value(number) for number, key in enumerate(keys)}
    outcomes = await manager.apply(store, [Write(key, value, NEW) for key, value in values.items()])
    return {
        key: Versioned(value, outcome.written()) for (key, value), outcome in zip(values.items(), outcomes, strict=True)
    }


async def _read_all(manager: Call, store: MetadataStore, keys: Iterable[RecordKey]) -> dict[RecordKey, Any]:
    asked = list(keys)
    outcomes = await manager.apply(store, [Read(key) for key in asked])
    for outcome in outcomes:
        outcome.check()
    return {key: outcome.record for key, outcome in zip(asked, outcomes, strict=True)}


async def test_any_bytes_name_a_topic(empty_subject: Subject, clients: Clients) -> None:
    store = await clients.open(empty_subject)
    probe = await clients.probe(empty_subject, store)
    expected = {}
    for manager in CALLS:
        expected[manager.label] = await _create_all(manager, store, (_key(manager, name) for name in AWKWARD))
    for manager in CALLS:
        created = expected[manager.label]
        assert await _read_all(manager, store, created) == created
        assert sorted(await _all(manager.topics(store))) == sorted(AWKWARD)
        assert await probe.live(manager.kind) == {(key.topic, key.subscriber) for key in created}
    assert sorted(await _all(store.topics())) == sorted(AWKWARD)
    for key, record in expected["subscription"].items():
        assert await _all(store.subscriptions.read_subscriptions(key.topic)) == [(key.subscriber, record)]
    await _delete_every_other(store, expected)


async def _delete_every_other(store: MetadataStore, expected: dict[str, dict[RecordKey, Any]]) -> None:
    """Delete half of the records, and check that the other half is unchanged."""
    for manager in CALLS:
        created = expected[manager.label]
        gone = list(created)[::2]
        outcomes = await manager.apply(store, [Delete(key, created[key].version) for key in gone])
        assert [outcome.error for outcome in outcomes] == [None] * len(gone)
        assert await _read_all(manager, store, created) == {**created, **dict.fromkeys(gone)}
        assert sorted(await _all(manager.topics(store))) == sorted(AWKWARD[1::2])


async def test_any_bytes_name_a_subscriber(empty_subject: Subject, clients: Clients) -> None:
    store = await clients.open(empty_subject)
    manager = CALLS[2]
    topics = (b"a", b"a\x00", b"a/subscribers", b"\xff")
    keys = [_key(manager, topic, name) for topic in topics for name in AWKWARD]
    created = await _create_all(manager, store, keys)
    assert await _read_all(manager, store, keys) == created
    for topic in topics:
        listed = await _all(store.subscriptions.read_subscriptions(Topic(topic)))
        assert len(listed) == len(AWKWARD)
        assert dict(listed) == {key.subscriber: record for key, record in created.items() if key.topic == topic}
    assert sorted(await _all(manager.topics(store))) == sorted(topics)


async def test_names_that_look_like_stored_names_are_others(empty_subject: Subject, clients: Clients) -> None:
    """A topic or subscriber may have the very name into which a store encodes another name."""
    store = await clients.open(empty_subject)
    probe = await clients.probe(empty_subject, store)
    for manager in CALLS:
        originals = [_key(manager, name, name) for name in SOME]
        created = await _create_all(manager, store, originals)
        stored = {name for key in originals for name in await probe.stored_names(manager.kind, key)}
        similar = sorted({other for name in stored for other in looks_like(name)})
        topics = [key for name in similar if (key := _key(manager, name, b"s")) not in created]
        subscribers = [key for name in similar if (key := _key(manager, b"of one topic", name)) not in created]
        for keys in (topics, subscribers) if manager.kind.has_subscriber else (topics,):
            assert set((await _read_all(manager, store, keys)).values()) == {None}
            created |= await _create_all(manager, store, keys)
        assert await _read_all(manager, store, created) == created
        assert await probe.live(manager.kind) == {(key.topic, key.subscriber) for key in created}


@pytest.mark.parametrize("made_of", LONGEST)
async def test_longest_names_fit_together(made_of: str, empty_subject: Subject, clients: Clients) -> None:
    await _fit_together(LONGEST[made_of], await clients.open(empty_subject))


async def test_longest_names_of_most_components_fit_together(own_subject: Subject, clients: Clients) -> None:
    """A store that nests components keeps a deep tree, which later listings would have to walk through."""
    await _fit_together(MOST_COMPONENTS, await clients.open(own_subject))


async def _fit_together(name: bytes, store: MetadataStore) -> None:
    for manager in CALLS:
        longest = _key(manager, name, name)
        created = await _create_all(
            manager, store, [longest, _key(manager, name[:-1], name), _key(manager, b"n", name)]
        )
        assert await _read_all(manager, store, created) == created
        updated = await manager.write(store, longest, manager.value(9), created[longest].version)
        assert await manager.read(store, longest) == Versioned(manager.value(9), updated)
        assert sorted(await _all(manager.topics(store))) == sorted({name, name[:-1], b"n"})
    assert await _all(store.ownership.topics(prefix=name)) == [name]
    subscriptions = await _all(store.subscriptions.read_subscriptions(Topic(name)))
    assert [subscriber for subscriber, _ in subscriptions] == [name]
    for manager in CALLS:
        for topic in (name, name[:-1], b"n"):
            await manager.delete(store, _key(manager, topic, name), ANY)
        assert await _all(manager.topics(store)) == []


@pytest.mark.parametrize("name", FORBIDDEN.values(), ids=FORBIDDEN)
async def test_forbidden_length_is_refused_before_anything_is_sent(
    name: bytes, manager: Call, store: MetadataStore
) -> None:
    version = Version(b"sent never")
    keys = [_key(manager, name)]
    if manager.kind.has_subscriber:
        keys += [_key(manager, b"topic", name), _key(manager, name, name)]
    for key in keys:
        calls: list[Coroutine[Any, Any, Any]] = [
            manager.read(store, key),
            manager.delete(store, key, version),
            manager.delete(store, key, ANY),
        ]
        calls += [manager.write(store, key, manager.value(1), given) for given in (NEW, ANY, version)]
        for call in calls:
            assert str(len(name)) in str(refused_at_once(call, NameLimitError))
        outcomes = await manager.apply(store, [Read(key), Write(key, manager.value(1), NEW)])
        assert [type(outcome.error) for outcome in outcomes] == [NameLimitError, NameLimitError]


@pytest.mark.parametrize("name", FORBIDDEN.values(), ids=FORBIDDEN)
async def test_forbidden_length_is_refused_in_scans(name: bytes, store: MetadataStore) -> None:
    with pytest.raises(NameLimitError):
        await _all(store.subscriptions.read_subscriptions(Topic(name)))


# --------------------------------------------------------------------------------------------------------- random names

fragments = st.sampled_from([*SOME, b"a", b"/", b"\x00", b"\xff", b"hub", b"subscribers", b"."])
random_names = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.lists(fragments, min_size=1, max_size=4).map(b"".join),
    st.sampled_from(AWKWARD),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(topics=st.sets(random_names, min_size=1, max_size=6), subscribers=st.sets(random_names, min_size=1, max_size=4))
async def test_random_names_are_apart(topics: set[bytes], subscribers: set[bytes], empty_store: MetadataStore) -> None:
    store, subscriptions = empty_store, CALLS[2]
    keys = [(manager, _key(manager, topic)) for manager in CALLS[:2] for topic in topics]
    keys += [(subscriptions, _key(subscriptions, topic, name)) for topic in topics for name in subscribers]
    expected = {}
    for number, (manager, key) in enumerate(keys):
        value = manager.value(number)
        expected[manager.label, key] = Versioned(value, await manager.write(store, key, value, NEW))
    for manager, key in keys:
        assert await manager.read(store, key) == expected[manager.label, key]
    for manager in CALLS:
        assert sorted(await _all(manager.topics(store))) == sorted(topics)
    for topic in topics:
        listed: list[tuple[SubscriberId, Versioned[SubscriptionData]]]
        listed = await _all(store.subscriptions.read_subscriptions(Topic(topic)))
        assert sorted(name for name, _ in listed) == sorted(subscribers)
        assert all(record == expected["subscription", _key(subscriptions, topic, name)] for name, record in listed)
    for manager, key in keys:
        await manager.delete(store, key, expected[manager.label, key].version)
    assert await _all(store.topics()) == []


async def test_topic_names_are_given_back_as_bytes(store: MetadataStore, names: Names, probe: Probe) -> None:
    topic = Topic(names(b"bytes"))
    await store.ownership.write(topic, samples.hub(1), NEW)
    listed = await _all(store.ownership.topics(prefix=topic))
    assert listed == [topic]
    assert [type(name) for name in listed] == [bytes]
