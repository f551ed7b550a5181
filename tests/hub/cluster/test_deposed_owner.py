"""Prove that a deposed owner changes nothing when it continues.

In `held` tests, one of its requests is on its way while the other hubs consider it dead, and reaches the store
afterwards. In the test of a stopped hub, a whole process stands still, with requests in its sockets.
"""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any, Final

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.versions import Versioned
from hedwig.wire import Answer, CloseSubscription, CreateOrAttach, Message, Publish, Subscribe, Unsubscribe
from tests.faults.support.proxy import PASS, Action, Exchange, Proxy, Step
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.cluster.support.both import on_both, on_each_kind, on_hbase, on_per_topic, on_zookeeper_first
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.support.wire_channel import WireChannel
from tests.hub.support.wire_client import ChannelClosedError, WireClient, eventually

T: Final = b"t"
U: Final = b"u"
_PUBLISHED: Final = 50


async def _records(deployment: Deployment, topic: bytes) -> list[Versioned[Any] | None]:
    """Return the store's records of a topic, without its subscriptions."""
    store = deployment.store
    return [
        await store.ownership.read(Topic(topic)),
        await store.persistence.read(Topic(topic)),
    ]


class _Held:
    """A hub whose next conditional write is held until `release`, while its session ends."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._passes = -1
        """The number of writes that pass before the held one; -1: no write is held."""
        self.hub: Hub
        self.store: Proxy
        self.zookeeper: Proxy

    async def start(self, **changes: Any) -> None:
        """Start the hub with these changes of its options."""
        deployment = self._deployment
        self.store, subject = await deployment.behind_proxy(self._plan)
        self.zookeeper = await deployment.proxy_to_zookeeper(ZooKeeperWire)
        # Once it registers anew, it takes topics only when it is asked: a test counts its writes.
        cluster = {"takeover_rate": 0, **changes.pop("cluster", {})}
        self.hub = await deployment.start(subject=subject, zookeeper=self.zookeeper.address, cluster=cluster, **changes)
        await deployment.begin_log(self.hub)

    def _plan(self, exchange: Exchange) -> Step:
        if self._passes >= 0 and exchange.name == self._deployment.networked.write:
            self._passes -= 1
            if self._passes < 0:
                return Step(Action.HOLD_REQUEST)
        return PASS

    def hold(self, passes: int = 0) -> None:
        self._passes = passes

    async def lose_session(self, other: Hub) -> None:
        """Wait until the write is held. Then let the hub lose its session, and wait until the other hub knows it."""
        await until(lambda: self.store.done[Action.HOLD_REQUEST] == 1, "the write is held")
        raw = self._deployment.raw()
        me = self.hub.me
        self.zookeeper.vanish()
        await self._deployment.gone(raw, me, other)

    async def release(self) -> None:
        """Let the write go to the store, and wait until it is there, or until its connection ended before."""
        self.store.release()
        await until(lambda: self.store.late_answers + self.store.late_losses == 1, "the write was late")


async def _check_unserved(request: "asyncio.Task[Answer]", refusal: StatusCode = StatusCode.SERVICE_DOWN) -> None:
    """Check that a request was refused, or that the hub closed its connection without an answer.

    A write may wait no longer than the hub's lease lasts. When the lease ends, the hub closes its connections too.
    Either may happen first.
    """
    try:
        answer = await request
    except ChannelClosedError:
        return
    assert answer.status is refusal, answer


@pytest.fixture
async def held(deployment: Deployment) -> _Held:
    held_hub = _Held(deployment)
    await held_hub.start()
    return held_hub


@on_both
async def test_late_claim_has_no_effect(deployment: Deployment, held: _Held) -> None:
    other = await deployment.start()
    client, to_other = await deployment.connect(held.hub), await deployment.connect(other)
    held.hold()
    asking = asyncio.create_task(deployment.ask(client, T))
    await held.lose_session(other)
    assert await to_other.publish(T, b"first") == 1
    before = await _records(deployment, T)
    await held.release()
    assert await _records(deployment, T) == before
    assert await deployment.owner(T) == other.me
    assert await to_other.publish(T, b"second") == 2
    await _check_unserved(asking)


@on_hbase
async def test_publish_whose_topic_may_or_may_not_be_claimed_is_surely_not_done(deployment: Deployment) -> None:
    """The store does not answer the claim. Its outcome is unknown, but the message was never appended."""
    held = _Held(deployment)
    await held.start(operation_timeout_s=4.0)
    client = await deployment.connect(held.hub)
    held.hold()
    answer = await client.request(T, Publish(Message(b"refused")))
    assert answer.status is StatusCode.SERVICE_DOWN, answer
    assert held.store.done[Action.HOLD_REQUEST] == 1
    await held.release()
    assert await client.publish(T, b"first") == 1
    await client.subscribed(T, b"ann")
    assert await client.publish(T, b"second") == 2
    assert [each.message.body for each in await client.deliveries(1)] == [b"second"]


async def test_late_release_does_not_take_a_topic_from_its_next_owner(deployment: Deployment, held: _Held) -> None:
    other = await deployment.start()
    client, to_other = await deployment.connect(held.hub), await deployment.connect(other)
    assert is_owner(await deployment.ask(client, T))
    topic = held.hub.topics.get(Topic(T))
    assert topic is not None
    held.hold()
    releasing = asyncio.create_task(held.hub.topics.release(topic))
    await held.lose_session(other)
    assert await to_other.publish(T, b"first") == 1
    before = await _records(deployment, T)
    await held.release()
    await releasing
    assert await _records(deployment, T) == before
    assert await to_other.publish(T, b"second") == 2


@on_zookeeper_first
async def test_late_hand_over_does_not_take_a_topic_from_its_next_owner(deployment: Deployment, held: _Held) -> None:
    other, target = [await deployment.start() for _ in range(2)]
    client, to_other = await deployment.connect(held.hub), await deployment.connect(other)
    assert is_owner(await deployment.ask(client, T))
    topic = held.hub.topics.get(Topic(T))
    assert topic is not None
    held.hold()
    handing_over = asyncio.create_task(held.hub.topics.hand_over(topic, target.me))
    await held.lose_session(other)
    assert await to_other.publish(T, b"first") == 1
    before = await _records(deployment, T)
    await held.release()
    assert await handing_over is False
    assert await _records(deployment, T) == before
    assert await deployment.owner(T) == other.me
    assert await to_other.publish(T, b"second") == 2


@on_per_topic
async def test_late_first_ledger_of_a_topic_has_no_effect(deployment: Deployment, held: _Held) -> None:
    """The deposed owner had made a ledger for its first message. Its range was on the way to the record."""
    other = await deployment.start()
    client, to_other = await deployment.connect(held.hub), await deployment.connect(other)
    assert is_owner(await deployment.ask(client, T))
    held.hold()
    publishing = asyncio.create_task(client.request(T, Publish(Message(b"late"))))
    await held.lose_session(other)
    # The other hub takes the topic over without publishing, so only its write to the record shuts the old owner out.
    await to_other.subscribed(T, b"ann")
    before = await _records(deployment, T)
    await held.release()
    assert await _records(deployment, T) == before
    await _check_unserved(publishing)
    assert await to_other.publish(T, b"first") == 1
    assert [each.message.body for each in await to_other.deliveries(1)] == [b"first"]


@on_zookeeper_first
async def test_late_first_range_in_the_log_of_a_deposed_owner_stays_empty(deployment: Deployment, held: _Held) -> None:
    """The next owner wrote nothing, since it has shut the old owner out of its log. So the late range lands."""
    other = await deployment.start()
    client, to_other = await deployment.connect(held.hub), await deployment.connect(other)
    assert is_owner(await deployment.ask(client, T))
    held.hold()
    publishing = asyncio.create_task(client.request(T, Publish(Message(b"late"))))
    await held.lose_session(other)
    await to_other.subscribed(T, b"ann")
    await held.release()
    record = await deployment.store.persistence.read(Topic(T))
    assert record is not None
    assert len(record.value.ranges) == 1, "it has landed"
    await _check_unserved(publishing)

    publisher = await deployment.connect(other)

    async def published() -> bool:
        return _serves(await publisher.request(T, Publish(Message(b"first"))))

    await eventually(published, "the next owner reads the record again, and goes on")
    await publisher.subscribed(T, b"ann")
    (first,) = await publisher.deliveries(1)
    assert (first.message.body, first.message.seq_id) == (b"first", MessageSeqId(1))


async def test_late_subscription_fails_or_is_seen(deployment: Deployment, held: _Held) -> None:
    other = await deployment.start()
    client, to_other = await deployment.connect(held.hub), await deployment.connect(other)
    assert await client.publish(T, b"before") == 1
    held.hold()
    subscribing = asyncio.create_task(client.subscribe(T, b"late"))
    await held.lose_session(other)
    # The next owner reads the subscriptions of the topic before this one is made.
    assert await to_other.publish(T, b"after") == 2
    await held.release()
    await _check_unserved(subscribing, StatusCode.UNCERTAIN_STATE)
    record = await deployment.store.subscriptions.read(Topic(T), SubscriberId(b"late"))
    answer = await to_other.subscribe(T, b"late", mode=CreateOrAttach.ATTACH)
    if answer.status is StatusCode.CLIENT_NOT_SUBSCRIBED:
        assert record is None, "what is on record is found"
    else:
        # The subscription was made after the first message, and no client knew of it. So later messages are delivered.
        assert answer.status is StatusCode.SUCCESS
        assert await to_other.delivered(1) == [2]


@on_hbase
async def test_hub_whose_store_is_silent_registers_anew_without_waiting_for_it(
    deployment: Deployment, held: _Held
) -> None:
    """The hub had claimed a topic, and was about to write the record of its ledgers."""
    client = WireClient(await WireChannel.open(held.hub.port))
    writes = held.store.seen[deployment.networked.write]
    held.hold(passes=1)
    client.send(T, Publish(Message(b"x")))
    await until(lambda: held.store.done[Action.HOLD_REQUEST] == 1, "the second write is held")
    before = held.hub.me
    held.zookeeper.vanish()
    await client.closed_by_hub()
    await held.zookeeper.come_back()
    await until(lambda: held.hub.me != before and held.hub.shape.is_proven(), "it serves again")
    assert held.store.seen[deployment.networked.write] == writes + 2, "it has not tried to give the topic back before"
    await client.close()
    await held.release()


def _serves(answer: Answer) -> bool:
    """Return whether a hub served a request. If not, its answer must be that it serves no client yet."""
    assert answer.status in (StatusCode.SUCCESS, StatusCode.SERVICE_DOWN), answer
    return answer.status is StatusCode.SUCCESS


async def _check_refused(requests: Sequence[tuple[WireClient, int]]) -> None:
    """Check that a hub refused all of these requests, once it has closed the channels."""
    for client in {client for client, _ in requests}:
        await client.closed_by_hub()
    answers = [client.answers.get(txn_id, []) for client, txn_id in requests]
    assert [[each.status for each in replies] for replies in answers] == [[StatusCode.SERVICE_DOWN]] * len(requests)


@on_each_kind
async def test_hub_that_was_stopped_past_its_session_and_goes_on_changes_nothing(deployment: Deployment) -> None:
    raw = deployment.raw()
    stopped = deployment.apart()
    await asyncio.to_thread(stopped.start)
    other = await deployment.start()
    client, subscriber, quick = [await deployment.connect(stopped) for _ in range(3)]
    to_other = await deployment.connect(other)
    before = deployment.registered_at(raw, stopped.port)
    assert before is not None
    await subscriber.subscribed(T, b"ann")
    assert is_owner(await deployment.ask(client, U)), "owned, and no ledger yet"
    ids = await client.publish_many(T, *(b"%d" % number for number in range(_PUBLISHED)))
    assert ids == list(range(1, _PUBLISHED + 1))
    assert await subscriber.delivered(_PUBLISHED) == ids
    answered = len(client.received)
    # The hub is stopped while it publishes. Some of these messages reach the bookies, and are answered, before that.
    under_way = [client.send(T, Publish(Message(b"under way %d" % number))) for number in range(200)]
    stopped.process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]  # it was started
    late = [client.send(T, Publish(Message(b"late %d" % number))) for number in range(20)]
    late += [client.send(U, Publish(Message(b"late"))) for _ in range(5)]
    late.append(client.send(T, Subscribe(subscriber=SubscriberId(b"late"), mode=CreateOrAttach.CREATE)))
    late.append(client.send(b"new", Publish(Message(b"late"))))
    # Only the hub is needed for these requests, so it answers them at once, if at all.
    waiting = [(client, txn_id) for txn_id in late]
    for to_hub in (quick, subscriber):
        for topic in (T, U, T, U):
            waiting.append((to_hub, to_hub.send(topic, CloseSubscription(SubscriberId(b"nobody")))))
    await deployment.gone(raw, before, other)
    acknowledged = _PUBLISHED + sum(txn_id in client.answers for txn_id in under_way)
    next_id = await to_other.publish(T, b"after")
    assert acknowledged < next_id <= _PUBLISHED + len(under_way) + 1
    assert await to_other.publish(U, b"after") == 1
    records = [await _records(deployment, topic) for topic in (T, U)]

    stopped.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]  # it was started
    await _check_refused(waiting)
    assert len(client.received) <= answered + len(under_way) + len(late)
    await until(lambda: deployment.registered_at(raw, stopped.port) not in (None, before), "it registers anew")
    again = deployment.registered_at(raw, stopped.port)
    assert again is not None
    to_stopped = await deployment.connect(stopped)

    async def serves() -> bool:
        return _serves(await deployment.ask(to_stopped, b"other"))

    await eventually(serves, "it serves again")
    assert await deployment.owner(b"other") == again

    assert [await _records(deployment, topic) for topic in (T, U)] == records
    for topic in (T, U):
        answer = await deployment.ask(to_stopped, topic)
        assert answer.text == other.me.address
    assert await to_other.publish(T, b"last") == next_id + 1
    assert await to_other.publish(U, b"last") == 2
    assert await deployment.owner(b"new") is None
    await to_other.subscribed(T, b"ann")
    bodies = {each.message.seq_id.local: each.message.body for each in await to_other.deliveries(next_id + 1)}  # type: ignore[union-attr]  # deliveries have ids
    assert sorted(bodies) == list(range(1, next_id + 2))
    numbers = {
        client.answers[txn_id][0].published: number
        for number, txn_id in enumerate(under_way)
        if txn_id in client.answers
    }
    for seq_id, number in numbers.items():
        # The hub also refuses those of them that it had not read before it stopped.
        if seq_id is not None:
            assert bodies[seq_id.local] == b"under way %d" % number
    refused = {
        b"under way %d" % number
        for number, txn_id in enumerate(under_way)
        for each in client.answers.get(txn_id, [])
        if each.status is StatusCode.SERVICE_DOWN
    }
    assert not refused & set(bodies.values())
    assert bodies[next_id] == b"after"
    assert not [body for body in bodies.values() if body.startswith(b"late")]
    assert not [each for each in subscriber.undelivered if each >= next_id], (
        "it delivered what was another's to deliver"
    )
    answer = await to_other.subscribe(T, b"late", mode=CreateOrAttach.CREATE_OR_ATTACH)
    assert answer.status is StatusCode.SUCCESS


@on_zookeeper_first
async def test_what_waited_in_the_sockets_of_a_stopped_hub_is_refused_though_nobody_took_over(
    deployment: Deployment,
) -> None:
    """Bookies would store the messages: no other hub has shut this hub out of its ledgers."""
    raw = deployment.raw()
    stopped = deployment.apart()
    await asyncio.to_thread(stopped.start)
    clients = [await deployment.connect(stopped) for _ in range(3)]
    before = deployment.registered_at(raw, stopped.port)
    assert [await clients[0].publish(topic, b"before") for topic in (T, U)] == [1, 1]
    stopped.process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]  # it was started
    late = [
        (client, client.send(topic, Publish(Message(b"late"))))
        for client in clients
        for _ in range(_PUBLISHED)
        for topic in (T, U, b"new")
    ]
    await until(lambda: deployment.registered_at(raw, stopped.port) is None, "its session has ended")
    stopped.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]  # it was started
    await _check_refused(late)
    await until(lambda: deployment.registered_at(raw, stopped.port) not in (None, before), "it registers anew")
    again = await deployment.connect(stopped)

    async def serves() -> bool:
        return _serves(await deployment.ask(again, b"other"))

    await eventually(serves, "it serves again")
    assert [await again.publish(topic, b"after") for topic in (T, U, b"new")] == [2, 2, 1]


@on_zookeeper_first
async def test_hub_that_was_stopped_past_its_session_deletes_no_subscription(deployment: Deployment) -> None:
    """Its UNSUBSCRIBEs waited in its sockets. The next owner has acknowledged the subscriptions meanwhile."""
    raw = deployment.raw()
    stopped = deployment.apart()
    await asyncio.to_thread(stopped.start)
    other = await deployment.start()
    subscriber, client = [await deployment.connect(stopped) for _ in range(2)]
    to_other = await deployment.connect(other)
    before = deployment.registered_at(raw, stopped.port)
    assert before is not None
    topics = [b"t%d" % number for number in range(10)]
    for topic in topics:
        # The hub deletes attached subscriptions at once, since it has their versions in memory. It must read the others
        # first.
        await subscriber.subscribed(topic, b"attached")
        await client.subscribed(topic, b"detached")
        await client.close_subscription(topic, b"detached")
    stopped.process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]  # it was started
    for topic in topics:
        for name in (b"attached", b"detached"):
            client.send(topic, Unsubscribe(SubscriberId(name)))
    await deployment.gone(raw, before, other)
    for topic in topics:
        for name in (b"attached", b"detached"):
            await to_other.subscribed(topic, name, mode=CreateOrAttach.ATTACH)
    stopped.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]  # it was started
    await client.closed_by_hub()
    await until(lambda: deployment.registered_at(raw, stopped.port) not in (None, before), "it registers anew")
    for topic in topics:
        assert await to_other.publish(topic, b"after") == 1
    assert await to_other.delivered(20) == [1] * 20
    for topic in topics:
        for name in (b"attached", b"detached"):
            record = await deployment.store.subscriptions.read(Topic(topic), SubscriberId(name))
            assert record is not None, f"{name!r} of {topic!r} was deleted"
