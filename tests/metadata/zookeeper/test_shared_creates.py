"""Prove that simultaneous creations of records share transactions.

An obstacle to one creation fails that one only.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kazoo.client import KazooClient

from hedwig.errors import (
    InvalidArgumentError,
    SubscriptionStateExistsError,
    TopicOwnerInfoExistsError,
    UncertainStateError,
)
from hedwig.metadata import (
    Delete,
    MetadataStore,
    Outcome,
    Read,
    RecordKey,
    StoreOptions,
    Write,
    format_metadata,
    open_metadata,
)
from hedwig.metadata.zookeeper.writes.versions import identity_of
from hedwig.model import HubInfo, LedgerRanges, MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.versions import NEW
from tests.metadata.zookeeper.conftest import Prefix

HUB: Final = HubInfo(host="hub.example", port=4080, epoch=7)
DATA: Final = SubscriptionData(state=SubscriptionState(MessageSeqId(0)))
MOVED: Final = SubscriptionData(state=SubscriptionState(MessageSeqId(9)))


def _topics(count: int, name: str = "topic") -> list[RecordKey]:
    return [RecordKey(Topic(f"{name}-{number}".encode())) for number in range(count)]


def _subscriptions(topic: bytes, count: int) -> list[RecordKey]:
    return [RecordKey(Topic(topic), SubscriberId(b"s%d" % number)) for number in range(count)]


async def _claim(store: MetadataStore, keys: Sequence[RecordKey]) -> list[Outcome[HubInfo]]:
    return await store.ownership.apply([Write(key, HUB, NEW) for key in keys])


async def _subscribe(store: MetadataStore, keys: Sequence[RecordKey]) -> list[Outcome[SubscriptionData]]:
    return await store.subscriptions.apply([Write(key, DATA, NEW) for key in keys])


def _transactions(outcomes: Sequence[Outcome[HubInfo]] | Sequence[Outcome[SubscriptionData]]) -> int:
    """Return the number of transactions that made them: nodes of one transaction share its zxid."""
    zxids = set()
    for outcome in outcomes:
        identity = identity_of(outcome.written())
        assert identity is not None
        zxids.add(identity[0])
    return len(zxids)


async def test_a_hundred_share_two_transactions_also_with_parents_that_are_missing(store: MetadataStore) -> None:
    assert _transactions(await _claim(store, _topics(100))) == 2
    assert _transactions(await _claim(store, _topics(100, "more"))) == 2
    subscriptions = [key for topic in range(20) for key in _subscriptions(b"topic-%d" % topic, 5)]
    assert _transactions(await _subscribe(store, subscriptions)) == 2


async def test_single_calls_of_one_moment_share_one_too_where_a_hub_makes_them(
    store: MetadataStore, prefix: Prefix
) -> None:
    async with await open_metadata(prefix.url, StoreOptions(operation_timeout_s=20, gather=True)) as gathering:
        claims = (gathering.ownership.write(key.topic, HUB, NEW) for key in _topics(40))
        versions = await asyncio.gather(*claims)
    assert len({identity_of(version) for version in versions}) == 1


async def test_records_of_one_transaction_are_changed_and_deleted_like_any(store: MetadataStore) -> None:
    keys = _subscriptions(b"topic", 8)
    made = await _subscribe(store, keys)
    moved = await store.subscriptions.apply(
        [Write(key, MOVED, outcome.written()) for key, outcome in zip(keys, made, strict=True)]
    )
    stale = await store.subscriptions.apply(
        [Write(key, DATA, outcome.written()) for key, outcome in zip(keys, made, strict=True)]
    )
    assert all(outcome.error is not None for outcome in stale)
    gone = await store.subscriptions.apply(
        [Delete(key, outcome.written()) for key, outcome in zip(keys, moved, strict=True)]
    )
    assert gone == [Outcome()] * 8
    again = await _subscribe(store, keys)
    assert {outcome.written() for outcome in again}.isdisjoint(outcome.written() for outcome in [*made, *moved])


async def test_one_that_exists_is_refused_and_the_others_are_made(store: MetadataStore) -> None:
    keys = _topics(30)
    (first,) = await _claim(store, keys[7:8])
    outcomes = await _claim(store, keys)
    assert isinstance(outcomes[7].error, TopicOwnerInfoExistsError)
    assert outcomes[7].error.current is not None
    assert outcomes[7].error.current.version == first.written()
    others = outcomes[:7] + outcomes[8:]
    assert _transactions(others) == 1
    reads = await store.ownership.apply([Read(key) for key in keys])
    assert all(outcome.record is not None and outcome.record.value == HUB for outcome in reads)


async def test_many_that_exist_are_refused_each_with_what_is_there(store: MetadataStore) -> None:
    keys = _subscriptions(b"topic", 20)
    made = await _subscribe(store, keys[::2])
    outcomes = await _subscribe(store, keys)
    for before, outcome in zip(made, outcomes[::2], strict=True):
        assert isinstance(outcome.error, SubscriptionStateExistsError)
        assert outcome.error.current is not None
        assert outcome.error.current.version == before.written()
    assert all(outcome.error is None for outcome in outcomes[1::2])


async def test_the_same_record_twice_is_made_once(store: MetadataStore) -> None:
    (key,) = _topics(1)
    outcomes = await _claim(store, [key, *_topics(3, "other"), key])
    refused = [outcome for outcome in (outcomes[0], outcomes[-1]) if outcome.error is not None]
    assert len(refused) == 1
    assert isinstance(refused[0].error, TopicOwnerInfoExistsError)


async def test_topics_of_which_some_exist_are_nested_or_have_awkward_names(store: MetadataStore) -> None:
    names = [b"a", b"a/b", b"a/b/c/d", b"\xff\x00", b"hub", b"x/subscribers/y", b"e\xcc\x81", b"a/b/c"]
    await _claim(store, [RecordKey(Topic(name)) for name in names[:2]])
    outcomes = await _claim(store, [RecordKey(Topic(name)) for name in names])
    assert [outcome.error is None for outcome in outcomes] == [False] * 2 + [True] * 6
    listed = {topic async for topic in store.ownership.topics()}
    assert listed == {Topic(name) for name in names}


async def test_what_cannot_be_stored_is_refused_alone(store: MetadataStore) -> None:
    keys = [*_topics(2), RecordKey(Topic(b"")), *_topics(2, "other")]
    outcomes = await _claim(store, keys)
    assert isinstance(outcomes[2].error, InvalidArgumentError)
    assert [outcome.error is None for outcome in outcomes] == [True, True, False, True, True]


async def test_other_operations_go_beside_them(store: MetadataStore) -> None:
    old, *new = _topics(6)
    (made,) = await store.persistence.apply([Write(old, LedgerRanges(), NEW)])
    outcomes = await store.persistence.apply(
        [Read(old), *(Write(key, LedgerRanges(), NEW) for key in new), Write(old, LedgerRanges(), made.written())]
    )
    assert all(outcome.error is None for outcome in outcomes)
    assert all(outcome.written() for outcome in outcomes[1:])
    reads = await store.persistence.apply([Read(key) for key in [old, *new]])
    assert [outcome.record and outcome.record.version for outcome in reads] == [
        outcomes[-1].written(),
        *(outcome.written() for outcome in outcomes[1:-1]),
    ]


async def test_large_records_are_spread_over_transactions_that_the_server_takes(store: MetadataStore) -> None:
    """Together they have several times the size that one request may have."""
    hub = HubInfo(host="h" * 60_000, port=4080, epoch=7)
    outcomes = await store.ownership.apply([Write(key, hub, NEW) for key in _topics(64)])
    assert 20 < _transactions(outcomes) <= 64


async def test_a_store_that_was_removed_says_so(store: MetadataStore, prefix: Prefix, raw: KazooClient) -> None:
    await asyncio.to_thread(raw.delete, prefix.path, recursive=True)
    outcomes = await _claim(store, _topics(3))
    assert all("metadata format" in str(outcome.error) for outcome in outcomes)


async def test_a_store_that_is_closed_meanwhile_leaves_each_outcome_open(prefix: Prefix) -> None:
    """The client sent the one transaction, and its outcome cannot be learned."""
    await format_metadata(prefix.url)
    store = await open_metadata(prefix.url, StoreOptions(operation_timeout_s=20))
    claiming = asyncio.create_task(_claim(store, _topics(12)))
    # Only the bridge knows whether a call is under way.
    bridge = store._backend._bridge  # type: ignore[attr-defined]
    for _ in range(1000):
        if bridge._calls:
            break
        await asyncio.sleep(0)
    await store.close()
    assert {type(outcome.error) for outcome in await claiming} == {UncertainStateError}
