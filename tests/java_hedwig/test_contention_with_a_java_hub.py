"""Prove that compare-and-set holds between our code and a running Java hub: one of two writers learns that it lost."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
from kazoo.client import KazooClient

from hedwig.errors import (
    BadVersionError,
    NoSubscriptionStateError,
    SubscriptionStateExistsError,
    TopicOwnerInfoExistsError,
    UncertainStateError,
)
from hedwig.metadata import MetadataStore, change
from hedwig.model import (
    HubInfo,
    LedgerRanges,
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.versions import NEW, Version, Versioned
from hedwig.wire import pubsub_pb2 as pb
from tests.java_hedwig.support.hub_client import HubClient, RefusedByHubError
from tests.java_hedwig.support.stack import REGION_PATH, JavaStack, eventually

__all__: list[str] = []

S: Final = SubscriberId(b"s")
TOPICS: Final = f"{REGION_PATH}/topics"
CONSUMES: Final = 1000
CLAIMS: Final = 30


def _at(local: int) -> SubscriptionData:
    return SubscriptionData(state=SubscriptionState(MessageSeqId(local)))


def _wanting(name: str) -> SubscriptionData:
    return SubscriptionData(preferences=SubscriptionPreferences(options={name: b""}))


async def _subscription(store: MetadataStore, topic: Topic) -> Versioned[SubscriptionData]:
    record = await store.subscriptions.read(topic, S)
    assert record is not None
    return record


def _options(record: Versioned[SubscriptionData]) -> set[str]:
    assert record.value.preferences is not None
    return set(record.value.preferences.options)


def _pointer(record: Versioned[SubscriptionData]) -> int:
    assert record.value.state is not None
    return record.value.state.consumed.local


# ------------------------------------------------------------------------------------------------------- subscriptions


async def test_update_of_ours_after_one_of_the_hub_is_refused(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient
) -> None:
    topic, path = Topic(b"hub-first"), f"{TOPICS}/hub-first/subscribers/s"
    with stack.client() as client:
        client.subscribe(topic, S)
        before = await _subscription(shared, topic)
        client.publish(topic, b"m")
        client.consume(topic, S, 1)
        eventually("the hub stored the pointer", lambda: raw.exists(path).version == 1)
        with pytest.raises(BadVersionError) as refused:
            await shared.subscriptions.update(topic, S, _wanting("late"), before.version)
        assert refused.value.current == await _subscription(shared, topic)
        assert _pointer(await _subscription(shared, topic)) == 1
        with pytest.raises(BadVersionError):
            await shared.subscriptions.delete(topic, S, before.version)
        with pytest.raises(SubscriptionStateExistsError):
            await shared.subscriptions.create(topic, S, _at(0))
        assert raw.exists(path).version == 1


async def test_update_of_the_hub_after_one_of_ours_is_refused_and_then_made_from_its_memory(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient
) -> None:
    """The hub reads the version again, but not the record. It overwrites a change unseen, so do not make one."""
    topic, path = Topic(b"us-first"), f"{TOPICS}/us-first/subscribers/s"
    with stack.client() as client:
        client.subscribe(topic, S)
        for _ in range(2):
            client.publish(topic, b"m")
        record = await _subscription(shared, topic)
        await shared.subscriptions.update(topic, S, _wanting("ours"), record.version)
        between = raw.exists(path)
        client.consume(topic, S, 2)
        eventually("the hub stored the pointer", lambda: raw.exists(path).version == 2)
    after = raw.exists(path)
    # A refused write takes a zxid, too. So there was one between our write and the final one.
    assert after.mzxid >= between.mzxid + 2
    now = await _subscription(shared, topic)
    assert _pointer(now) == 2
    assert _options(now) == set()


async def test_unsubscribe_at_the_hub_after_an_update_of_ours_is_refused(
    stack: JavaStack, shared: MetadataStore
) -> None:
    topic = Topic(b"kept")
    with stack.client() as client:
        client.subscribe(topic, S)
        client.close_subscription(topic, S)
        record = await _subscription(shared, topic)
        version = await shared.subscriptions.update(topic, S, _wanting("ours"), record.version)
        with pytest.raises(RefusedByHubError) as refused:
            client.unsubscribe(topic, S)
    assert refused.value.status == pb.BAD_VERSION
    now = await _subscription(shared, topic)
    assert now.version == version
    assert _options(now) == {"ours"}


async def test_subscription_that_the_hub_deleted_is_missing_for_us(stack: JavaStack, shared: MetadataStore) -> None:
    topic = Topic(b"hub-deleted")
    with stack.client() as client:
        client.subscribe(topic, S)
        record = await _subscription(shared, topic)
        client.close_subscription(topic, S)
        client.unsubscribe(topic, S)
    with pytest.raises(NoSubscriptionStateError):
        await shared.subscriptions.update(topic, S, _at(1), record.version)
    with pytest.raises(NoSubscriptionStateError):
        await shared.subscriptions.delete(topic, S, record.version)


async def test_subscription_that_the_hub_deleted_and_made_anew_is_hit_and_we_say_that_it_is_uncertain(
    stack: JavaStack, shared: MetadataStore
) -> None:
    """Java hubs move no guard, which leaves this one window. No update through it counts as done."""
    topic = Topic(b"window")
    with stack.client() as client:
        client.subscribe(topic, S)
        before = await _subscription(shared, topic)
        client.close_subscription(topic, S)
        client.unsubscribe(topic, S)
        client.subscribe(topic, S)
    assert (await _subscription(shared, topic)).version != before.version
    with pytest.raises(UncertainStateError, match="and created it anew"):
        await shared.subscriptions.update(topic, S, _wanting("old"), before.version)
    # As the error says, the update went into the new record.
    assert _options(await _subscription(shared, topic)) == {"old"}


async def test_delete_of_ours_through_that_window_ends_the_new_subscription(
    stack: JavaStack, shared: MetadataStore
) -> None:
    topic = Topic(b"window-of-a-delete")
    with stack.client() as client:
        client.subscribe(topic, S)
        before = await _subscription(shared, topic)
        client.close_subscription(topic, S)
        client.unsubscribe(topic, S)
        client.subscribe(topic, S)
    await shared.subscriptions.delete(topic, S, before.version)
    assert await shared.subscriptions.read(topic, S) is None


async def test_updates_of_both_at_once_are_each_applied_or_refused(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient
) -> None:
    topic, path = Topic(b"both"), f"{TOPICS}/both/subscribers/s"
    with stack.client() as client:
        client.subscribe(topic, S)
        start = raw.exists(path).version

        def consume_all() -> None:
            for number in range(1, CONSUMES + 1):
                client.consume(topic, S, number)

        hub = asyncio.create_task(asyncio.to_thread(consume_all))
        applied: list[Version] = []
        refused = 0
        while not hub.done() or not applied:
            record = await _subscription(shared, topic)
            try:
                data = _wanting(f"ours-{len(applied)}")
                applied.append(await shared.subscriptions.update(topic, S, data, record.version))
            except BadVersionError:
                refused += 1
        await hub
        # Our last update may have made the store refuse the hub's last consume. The hub repeats it by itself.
        eventually("the hub stored its last pointer", lambda: _stored_pointer(raw, path) == CONSUMES)
    by_the_hub = raw.exists(path).version - start - len(applied)
    # Every version belongs to one writer: no write counted for both, and no refused write of ours took effect.
    assert len(set(applied)) == len(applied)
    assert 0 < by_the_hub <= CONSUMES, (by_the_hub, len(applied), refused)


def _stored_pointer(raw: KazooClient, path: str) -> int:
    return pb.SubscriptionData.FromString(raw.get(path)[0]).state.msgId.localComponent


# ------------------------------------------------------------------------------------------------------- ledger ranges


def _unchanged(current: Versioned[LedgerRanges] | None) -> LedgerRanges:
    assert current is not None
    return current.value


async def test_hub_whose_ranges_we_wrote_gives_the_topic_up_and_keeps_what_it_acknowledged(
    stack: JavaStack, shared: MetadataStore
) -> None:
    topic = Topic(b"rolled")
    await shared.persistence.write(topic, LedgerRanges(), NEW)
    with stack.client() as client:
        client.subscribe(topic, S)
        client.close_subscription(topic, S)
        acknowledged = {client.publish(topic, b"m0"): b"m0"}
    lost = acknowledged_since = number = 0
    version = None
    while acknowledged_since < 3:
        if not lost and number % 11 == 0:
            # A hub that lost its session meanwhile has read the record anew. Then it is written once more.
            # It may also write between the read and the write.
            version = await change(shared.persistence, topic, _unchanged)
        number += 1
        body = b"m%d" % number
        try:
            with stack.client(timeout_s=5) as client:
                acknowledged[client.publish(topic, body)] = body
                acknowledged_since += lost > 0
        except RefusedByHubError as refused:
            if refused.status != pb.SERVICE_DOWN:
                raise
            lost += 1
        except TimeoutError:
            # The hub sometimes never answers a publish that arrives while it fails to roll a ledger.
            lost += 1
    # The store refused the hub's write of the ranges as it rolled the ledger. The hub released the topic and acquired
    # it again.
    assert version is not None
    with pytest.raises(BadVersionError):
        await shared.persistence.write(topic, LedgerRanges(), version)
    with stack.client() as client:
        client.subscribe(topic, S)
        delivered = dict(client.deliveries(max(acknowledged)))
    assert delivered.items() >= acknowledged.items()


# -------------------------------------------------------------------------------------------------------------- owners


@pytest.fixture(scope="module", params=[False, True], ids=["ephemeral owners", "persistent owners"])
def either_stack(request: pytest.FixtureRequest, stack: JavaStack) -> Iterator[JavaStack]:
    """The hub in each of its two ways of keeping owner records."""
    cas_owners: bool = request.param
    if cas_owners:
        stack.stop_hub()
        stack.start_hub(cas_owners=True)
    yield stack
    if cas_owners:
        stack.stop_hub()
        stack.start_hub()


@pytest.fixture
def neighbour(stack: JavaStack) -> Iterator[HubInfo]:
    """Another hub that its liveness node shows as alive, so loaded that no hub would choose it."""
    with stack.znodes() as session:
        path = f"{REGION_PATH}/hosts/127.0.0.9:4080:9876"
        session.create(path, b"numTopics: 1000000\n", ephemeral=True)
        epoch = session.exists(path).czxid
        yield HubInfo(host="127.0.0.9", port=4080, ssl_port=9876, epoch=epoch)


async def test_topics_claimed_by_both_have_one_owner_each(
    either_stack: JavaStack, shared: MetadataStore, neighbour: HubInfo
) -> None:
    """In turn, the hub is first, our code is first, and both start together."""
    with either_stack.client() as client:
        for number in range(CLAIMS):
            topic = Topic(b"claimed-%d-%d" % (neighbour.epoch, number))
            match number % 3:
                case 0:
                    at_the_hub = await asyncio.to_thread(_claim_by_publishing, client, topic)
                    at_ours = await _claim(shared, topic, neighbour)
                    assert at_the_hub is None
                case 1:
                    at_ours = await _claim(shared, topic, neighbour)
                    at_the_hub = await asyncio.to_thread(_claim_by_publishing, client, topic)
                    assert at_ours is None
                case _:
                    at_the_hub, at_ours = await asyncio.gather(
                        asyncio.to_thread(_claim_by_publishing, client, topic), _claim(shared, topic, neighbour)
                    )
            # Exactly one of them won, and the other one learned who won.
            own = f"127.0.0.1:{either_stack.hub_port}:9876"
            assert (at_the_hub, at_ours) in [(None, own), (neighbour.address, None)]
            record = await shared.ownership.read(topic)
            assert record is not None
            assert record.value.address == (at_the_hub or at_ours)


def _claim_by_publishing(client: HubClient, topic: Topic) -> str | None:
    """Let the hub claim `topic`; return the owner that it redirects to, or None if it serves."""
    try:
        try:
            client.publish(topic, b"m")
        except RefusedByHubError as lost:
            # With persistent owners, a hub that loses a claim says so in its first answer, and redirects from then on.
            if not lost.text.endswith(f"Owner info of topic {topic.decode()} existed."):
                raise
            client.publish(topic, b"m")
    except RefusedByHubError as redirect:
        if redirect.status != pb.NOT_RESPONSIBLE_FOR_TOPIC:
            raise
        return redirect.text
    return None


async def _claim(store: MetadataStore, topic: Topic, hub: HubInfo) -> str | None:
    """Claim `topic` for `hub`; return the faster owner, or None if it is `hub`."""
    try:
        await store.ownership.write(topic, hub, NEW)
    except TopicOwnerInfoExistsError as refused:
        return "unread" if refused.current is None else str(refused.current.value.address)
    return None


async def test_hub_claims_what_we_released(
    either_stack: JavaStack, shared: MetadataStore, raw: KazooClient, neighbour: HubInfo
) -> None:
    topic = Topic(b"released-%d" % neighbour.epoch)
    version = await shared.ownership.write(topic, neighbour, NEW)
    with either_stack.client() as client:
        with pytest.raises(RefusedByHubError) as redirect:
            client.publish(topic, b"m")
        assert redirect.value.text == neighbour.address
        await shared.ownership.delete(topic, version)
        assert client.publish(topic, b"m") == 1
    record = await shared.ownership.read(topic)
    assert record is not None
    assert record.value.epoch not in (0, neighbour.epoch)
    with pytest.raises(BadVersionError):
        await shared.ownership.write(topic, neighbour, version)


@pytest.mark.parametrize("either_stack", [True], ids=["persistent owners"], indirect=True, scope="module")
async def test_hub_takes_a_topic_over_from_an_owner_of_ours_that_is_not_alive(
    either_stack: JavaStack, shared: MetadataStore, raw: KazooClient, neighbour: HubInfo
) -> None:
    """A hub with persistent owner records uses compare-and-set. An earlier run of a live address counts as dead."""
    topic = Topic(b"dead-%d" % neighbour.epoch)
    dead = replace(neighbour, epoch=neighbour.epoch - 1)
    version = await shared.ownership.write(topic, dead, NEW)
    with either_stack.client() as client:
        assert client.publish(topic, b"m") == 1
    record = await shared.ownership.read(topic)
    assert record is not None
    assert record.value == either_stack.hub_info(raw)
    assert raw.exists(f"{TOPICS}/{topic.decode()}/hub").version == 1
    with pytest.raises(BadVersionError):
        await shared.ownership.delete(topic, version)
    assert await shared.ownership.read(topic) == record


@pytest.mark.parametrize("either_stack", [False], ids=["ephemeral owners"], indirect=True, scope="module")
async def test_hub_with_ephemeral_owners_redirects_to_an_owner_of_ours_that_is_not_alive(
    either_stack: JavaStack, shared: MetadataStore, neighbour: HubInfo
) -> None:
    """To such a hub any owner record means a living owner. Only our hubs can take such a topic over."""
    topic = Topic(b"dead-and-left-%d" % neighbour.epoch)
    dead = replace(neighbour, host="127.0.0.8", epoch=neighbour.epoch - 1)
    version = await shared.ownership.write(topic, dead, NEW)
    with either_stack.client() as client:
        assert _claim_by_publishing(client, topic) == dead.address
    await shared.ownership.write(topic, neighbour, version)
