"""Prove who owns a topic: one hub at a time, by compare-and-set. All other hubs redirect to it."""

import asyncio
from typing import Final

import pytest

from hedwig.hub.liveness import Registration
from hedwig.metadata import MetadataUrl
from hedwig.model import HubInfo, MessageSeqId, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.versions import NEW
from hedwig.wire import (
    Answer,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Message,
    Publish,
    Subscribe,
    Unsubscribe,
)
from tests.faults.support.proxy import PASS, Action, Exchange, Step
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_both, on_each_kind
from tests.hub.cluster.support.deployment import Deployment, liveness_of
from tests.hub.cluster.support.lagging import Behind, BehindWire, Lag, LaggingWire

TOPICS: Final = [b"topic-%d" % number for number in range(30)]


def is_owner(answer: Answer) -> bool:
    """Return whether a hub served a request. If not, its answer must name another hub."""
    if answer.status is StatusCode.SUCCESS:
        return True
    assert answer.status is StatusCode.NOT_RESPONSIBLE_FOR_TOPIC, answer
    return False


@on_both
async def test_of_three_hubs_asked_at_once_one_claims_and_the_others_name_it(deployment: Deployment) -> None:
    hubs = [await deployment.start() for _ in range(3)]
    clients = [await deployment.connect(hub) for hub in hubs]
    for topic in TOPICS:
        answers = await asyncio.gather(*(deployment.ask(client, topic) for client in clients))
        (winner,) = [hub for hub, answer in zip(hubs, answers, strict=True) if is_owner(answer)]
        assert {answer.text for answer in answers if not is_owner(answer)} == {winner.me.address}
        assert await deployment.owner(topic) == winner.me
    assert sum(len(hub.topics) for hub in hubs) == len(TOPICS)


@on_both
async def test_redirected_client_is_served_where_it_was_sent(deployment: Deployment) -> None:
    hubs = [await deployment.start() for _ in range(3)]
    await until(lambda: all(len(liveness_of(hub).live) == 3 for hub in hubs), "the hubs know each other")
    clients = {hub.me.address: await deployment.connect(hub) for hub in hubs}
    redirected = 0
    for number, topic in enumerate(TOPICS):
        first = hubs[number % 3].me.address
        answer = await deployment.ask(clients[first], topic, should_claim=False)
        owner = first
        if not is_owner(answer):
            redirected += 1
            assert answer.text is not None
            owner = answer.text
            assert is_owner(await deployment.ask(clients[owner], topic))
        for address, client in clients.items():
            for should_claim in (False, True):
                answer = await deployment.ask(client, topic, should_claim=should_claim)
                assert is_owner(answer) == (address == owner)
                assert answer.text in ("", None, owner)
    assert redirected, "no hub chose another"


@on_both
async def test_released_topic_is_whose_who_is_asked_next(deployment: Deployment) -> None:
    one, other = [await deployment.start() for _ in range(2)]
    to_one, to_other = [await deployment.connect(hub) for hub in (one, other)]
    for asked, hub, released in ((to_one, one, to_other), (to_other, other, to_one), (to_one, one, to_other)):
        assert is_owner(await deployment.ask(asked, b"t"))
        assert not is_owner(await deployment.ask(released, b"t"))
        topic = hub.topics.get(Topic(b"t"))
        assert topic is not None
        await hub.topics.release(topic)
        assert await deployment.owner(b"t") is None


@on_each_kind
async def test_topic_of_a_dead_hub_is_taken_over_with_its_messages(deployment: Deployment) -> None:
    """The record names an ended incarnation: another one at the address of a live hub, or one at an unused address."""
    one, other = [await deployment.start() for _ in range(2)]
    to_one, to_other = [await deployment.connect(hub) for hub in (one, other)]
    dead = {
        b"earlier": HubInfo(host=one.me.host, port=one.me.port, ssl_port=one.me.ssl_port, epoch=one.me.epoch - 1),
        b"later": HubInfo(host=one.me.host, port=one.me.port, ssl_port=one.me.ssl_port, epoch=one.me.epoch + 1),
        b"unknown": HubInfo(host="127.0.0.1", port=1, ssl_port=None, epoch=7),
    }
    for name, owner in dead.items():
        assert await to_one.publish(name, b"first") == 1
        topic = one.topics.get(Topic(name))
        assert topic is not None
        await one.topics.release(topic)
        await deployment.store.ownership.write(Topic(name), owner, NEW)
        answer = await deployment.ask(to_other, name)
        assert is_owner(answer)
        assert await deployment.owner(name) == other.me
        assert await to_other.publish(name, b"second") == 2
        answer = await deployment.ask(to_one, name)
        assert answer.text == other.me.address


async def test_hub_that_is_asked_without_the_flag_leaves_a_dead_hubs_topic_to_whom_it_chooses(
    deployment: Deployment,
) -> None:
    """Otherwise all topics of a dead hub would go to the hubs that clients ask first."""
    hubs = [await deployment.start(cluster={"placement": "uniform"}) for _ in range(2)]
    await until(lambda: all(len(liveness_of(hub).live) == 2 for hub in hubs), "the hubs know each other")
    clients = {hub.me.address: await deployment.connect(hub) for hub in hubs}
    dead = HubInfo(host="127.0.0.1", port=1, ssl_port=None, epoch=7)
    for topic in TOPICS:
        await deployment.store.ownership.write(Topic(topic), dead, NEW)
        answer = await deployment.ask(clients[hubs[0].me.address], topic, should_claim=False)
        if not is_owner(answer):
            assert answer.text is not None
            assert is_owner(await deployment.ask(clients[answer.text], topic))
    shares = [len(hub.topics) for hub in hubs]
    assert sum(shares) == len(TOPICS)
    assert min(shares) > 3, shares


async def test_live_owner_that_a_hub_has_not_heard_of_is_not_robbed(deployment: Deployment) -> None:
    lag = Lag()
    proxy = await deployment.proxy_to_zookeeper(lambda: LaggingWire(lag))
    asked = await deployment.start(zookeeper=proxy.address)
    await until(lambda: len(liveness_of(asked).live) == 1, "it knows itself")
    lag.is_on = True
    owner = await deployment.start()
    client = await deployment.connect(asked)
    for topic in TOPICS:
        assert is_owner(await deployment.ask(await deployment.connect(owner), topic))
        for should_claim in (True, False):
            answer = await deployment.ask(client, topic, should_claim=should_claim)
            assert not is_owner(answer)
            assert answer.text == owner.me.address
    assert [hub.info for hub in liveness_of(asked).live] == [asked.me], "what it watches did not tell"
    assert lag.hidden


async def test_hub_goes_on_with_a_topic_whose_release_did_not_reach_the_store(deployment: Deployment) -> None:
    """The record names this very incarnation. All other hubs redirect clients here, so it must serve them."""
    one, other = [await deployment.start() for _ in range(2)]
    await until(lambda: all(len(liveness_of(hub).live) == 2 for hub in (one, other)), "the hubs know each other")
    await deployment.store.ownership.write(Topic(b"t"), one.me, NEW)
    to_one, to_other = [await deployment.connect(hub) for hub in (one, other)]
    assert (await deployment.ask(to_other, b"t")).text == one.me.address
    assert one.shape.balance is not None
    one.shape.balance.drain(True)
    assert is_owner(await deployment.ask(to_one, b"t"))


@pytest.mark.parametrize("subscriber", [b"ann"])
async def test_subscription_follows_its_topic_to_the_next_owner(deployment: Deployment, subscriber: bytes) -> None:
    one, other = [await deployment.start() for _ in range(2)]
    to_one, to_other = [await deployment.connect(hub) for hub in (one, other)]
    await to_one.subscribed(b"t", subscriber)
    assert await to_one.publish_many(b"t", b"a", b"b", b"c") == [1, 2, 3]
    assert await to_one.delivered(3) == [1, 2, 3]
    to_one.consume(b"t", subscriber, 2)
    await to_one.barrier()
    topic = one.topics.get(Topic(b"t"))
    assert topic is not None
    assert topic.subscription(SubscriberId(subscriber)) is not None
    await one.topics.release(topic)
    await to_one.closed_by_hub()
    await to_other.subscribed(b"t", subscriber)
    assert await to_other.publish(b"t", b"d") == 4
    assert await to_other.delivered(2) == [3, 4]


async def test_client_that_was_sent_here_is_not_sent_on_with_one_that_was_not(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their requests share one look-up. It began for the other client, and ends with the choice of a third hub."""
    armed = False

    def plan(_: Exchange) -> Step:
        nonlocal armed
        was_armed, armed = armed, False
        return Step(Action.HOLD_REQUEST) if was_armed else PASS

    proxy, subject = await deployment.behind_proxy(plan)
    hub = await deployment.start(subject=subject)
    other = await deployment.start()
    monkeypatch.setattr(Registration, "choose", lambda *_: other.me)
    client = await deployment.connect(hub)
    armed = True
    asks = Publish(Message(b"m"))
    first = client.send(b"t", asks, should_claim=False)
    await until(lambda: proxy.done[Action.HOLD_REQUEST] == 1, "the owner is looked up")
    sent_here = [client.send(b"t", asks) for _ in range(2)]
    second = client.send(b"t", asks, should_claim=False)
    await client.barrier()
    proxy.release()
    for txn_id in (first, second):
        answer = await client.answer(txn_id)
        assert not is_owner(answer)
        assert answer.text == other.me.address
    assert all([is_owner(await client.answer(txn_id)) for txn_id in sent_here])


@on_both
async def test_requests_that_need_a_subscription_are_sent_to_the_owner_and_make_no_topic(
    deployment: Deployment,
) -> None:
    hub, other = [await deployment.start() for _ in range(2)]
    await until(lambda: len(liveness_of(hub).live) == 2, "it knows the other")
    client, to_other = await deployment.connect(hub), await deployment.connect(other)
    subscriber = SubscriberId(b"nobody")
    expected = (
        (Unsubscribe(subscriber), StatusCode.CLIENT_NOT_SUBSCRIBED),
        (CloseSubscription(subscriber), StatusCode.SUCCESS),
        (Subscribe(subscriber=subscriber, mode=CreateOrAttach.ATTACH), StatusCode.CLIENT_NOT_SUBSCRIBED),
    )
    consume = Consume(subscriber=subscriber, seq_id=MessageSeqId(1))
    for should_claim in (False, True):
        for action, status in expected:
            answer = await client.request(b"none", action, should_claim=should_claim)
            assert answer.status is status
        consumed = client.send(b"none", consume, should_claim=should_claim)
        await client.unsubscribe(b"none", subscriber)
        assert consumed not in client.answers
        assert not await deployment.store.has_topic(Topic(b"none"))
    await to_other.publish(b"owned", b"m")
    for asked in (*(action for action, _ in expected), consume):
        answer = await client.answer(client.send(b"owned", asked))
        assert (answer.status, answer.text) == (StatusCode.NOT_RESPONSIBLE_FOR_TOPIC, other.me.address)
    assert not hub.topics.acquired


async def test_topic_that_a_server_of_zookeeper_has_not_heard_of_yet_exists(deployment: Deployment) -> None:
    behind = Behind()
    proxy = await deployment.proxy_to_zookeeper(lambda: BehindWire(behind))
    one = await deployment.start()
    other = await deployment.start(subject=deployment.networked.behind(proxy, deployment.subject))
    to_one, to_other = [await deployment.connect(hub) for hub in (one, other)]
    await to_one.subscribed(b"t", b"ann")
    owned = one.topics.get(Topic(b"t"))
    assert owned is not None
    await one.topics.release(owned)
    behind.below = f"{MetadataUrl.parse(deployment.subject.url).path}/topics/t"
    assert (await to_other.unsubscribe(b"t", b"ann")).status is StatusCode.SUCCESS
    assert behind.hidden
