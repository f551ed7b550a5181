"""Prove that hubs share topics evenly, and that a drained hub gives all of them up and claims none."""

import asyncio
import time
from functools import partial
from random import Random
from typing import Final

import pytest
from kazoo.client import KazooClient

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.clock import SystemClock
from hedwig.hub.hub import Hub
from hedwig.hub.liveness import LivenessOptions
from hedwig.hub.liveness.live_hub import decode_load
from hedwig.hub.options.cluster_options import ClusterOptions
from hedwig.hub.topics.balance import Balance
from hedwig.hub.topics.given_up import GivenUp
from hedwig.hub.topics.topic import TopicState
from hedwig.model import HubInfo, Topic
from hedwig.status import StatusCode
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.cluster.support.both import on_zookeeper_first
from tests.hub.cluster.support.deployment import Deployment, liveness_of
from tests.hub.cluster.support.traffic import Traffic
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.support.admin_client import AdminClient
from tests.java_client.conftest import driver as java_driver
from tests.java_client.support.client import JavaClient
from tests.java_client.support.driver import JavaClientDriver

driver = java_driver
"""The process of the original client, as a fixture of this module too."""

_NEW: Final = 1_000
TOPICS: Final = [b"topic-%d" % number for number in range(40)]


def _balance(hub: Hub) -> Balance:
    assert hub.shape.balance is not None
    return hub.shape.balance


async def _own(deployment: Deployment, hub: Hub, topics: list[bytes]) -> None:
    client = await deployment.connect(hub)
    answers = await asyncio.gather(*(deployment.ask(client, topic) for topic in topics))
    assert all(is_owner(answer) for answer in answers)


def _load_as_seen(hub: Hub, other: Hub) -> int:
    (load,) = [each.load for each in liveness_of(hub).live if each.info == other.me]
    return load


def _load_in_zookeeper(deployment: Deployment, raw: KazooClient, hub: Hub) -> int:
    content, _ = raw.get(f"{deployment.prefix}/hosts/{hub.me.address}")
    return decode_load(content)


class _MovedClock(SystemClock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


async def _know_each_other(*hubs: Hub) -> None:
    await until(lambda: all(len(liveness_of(hub).live) == len(hubs) for hub in hubs), "the hubs know each other")


async def test_hub_above_its_share_has_an_excess_and_no_more_than_its_batch(deployment: Deployment) -> None:
    options = {"rebalance_tolerance": 0.5, "rebalance_topics_max": 10}
    one, other = [await deployment.start(cluster=options) for _ in range(2)]
    await _know_each_other(one, other)
    assert _balance(one).excess() == 0
    await _own(deployment, one, TOPICS[:1])
    assert _balance(one).excess() == 0, "a single topic is no excess"
    await _own(deployment, other, TOPICS[1:11])

    def knows(load: int) -> bool:
        return [hub.load for hub in liveness_of(one).live if hub.info == other.me] == [load]

    await until(lambda: knows(10), "the load of the other is known")
    await _own(deployment, one, [b"mine-%d" % number for number in range(29)])
    # The loads are 30 and 10. The mean is 20, and a hub may own half as many more.
    assert _balance(one).excess() == 0
    await _own(deployment, one, [b"more-%d" % number for number in range(4)])
    assert _balance(one).excess() == 10


async def test_hub_decides_on_loads_of_now(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub does not know the other hub's topics yet when it checks whether it owns too many itself."""
    raw = deployment.raw()
    monkeypatch.setattr("hedwig.hub.cluster.LivenessOptions", partial(LivenessOptions, refresh_s=3600.0))
    one, other = [await deployment.start() for _ in range(2)]
    await _know_each_other(one, other)
    await _own(deployment, one, TOPICS[:22])
    await _own(deployment, other, TOPICS[22:])
    await until(lambda: _load_in_zookeeper(deployment, raw, other) == 18, "the other has told its load")
    assert _load_as_seen(one, other) == 0
    balance = Balance(ClusterOptions(rebalance_interval_s=0.1), liveness_of(one), SystemClock(), Random())
    balance.attach(one.topics)
    running = asyncio.create_task(balance.run())
    try:
        await until(lambda: _load_as_seen(one, other) == 18, "it has looked")
        looked = liveness_of(one).live
        await until(lambda: liveness_of(one).live is not looked, "it has looked again")
    finally:
        running.cancel()
        await asyncio.wait([running])
    # The loads are 22 and 18, so the hub is a tenth above the mean.
    assert len(one.topics) == 22


async def test_hub_gives_no_more_up_while_what_it_gave_up_is_not_claimed_yet(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client has asked for the given-up topics yet, so the known mean is too low."""
    monkeypatch.setattr("hedwig.hub.cluster.LivenessOptions", partial(LivenessOptions, refresh_s=3600.0))
    one = await deployment.start(cluster={"rebalance_interval_s": 0.1})
    await _own(deployment, one, TOPICS)
    other = await deployment.start()
    await until(lambda: len(one.topics) < len(TOPICS), "it gives up what is above its share")
    await until(lambda: not any(topic.state is TopicState.RELEASING for topic in one.topics), "it has done so")
    for _ in range(3):
        looked = liveness_of(one).live
        await until(lambda: liveness_of(one).live is not looked, "it has looked again")  # noqa: B023 (awaited here)
    assert (len(one.topics), len(other.topics)) == (len(TOPICS) // 2, 0)


def test_topics_that_were_given_up_count_until_others_have_them_or_nobody_wants_them() -> None:
    clock = _MovedClock()
    given_up = GivenUp(clock)
    assert given_up.unclaimed(100) == 0
    given_up.note(10)
    assert given_up.unclaimed(100) == 10
    assert given_up.unclaimed(103) == 7
    # There are fewer topics than before: other hubs gave some up too, or a hub ended.
    assert given_up.unclaimed(50) == 7
    clock.now_s += 6
    given_up.note(5)
    assert given_up.unclaimed(51) == 11
    clock.now_s += 6
    assert given_up.unclaimed(51) == 5
    assert given_up.unclaimed(1000) == 0
    assert given_up.unclaimed(0) == 0


async def test_new_hub_fills_up_and_no_message_is_lost(deployment: Deployment) -> None:
    options = {"rebalance_interval_s": 1.0, "rebalance_tolerance": 0.1, "rebalance_topics_max": 8}
    one = await deployment.start(cluster=options)
    async with Traffic(f"127.0.0.1:{one.port}", TOPICS) as traffic:
        await until(lambda: traffic.published > 2 * len(TOPICS), "messages are published")
        assert len(one.topics) == len(TOPICS)
        other = await deployment.start(cluster=options)
        await until(lambda: len(other.topics) >= 16, "the new hub fills up")
        assert len(one.topics) + len(other.topics) <= len(TOPICS)
        before = traffic.published
        await until(lambda: traffic.published > before + len(TOPICS), "messages are published")
        await traffic.settle()


async def test_new_topics_go_to_hubs_in_equal_parts(deployment: Deployment) -> None:
    """The client asks always the same hub, and does so faster than hubs tell their loads."""
    started = [await deployment.start() for _ in range(3)]
    await _know_each_other(*started)
    at_once = asyncio.Semaphore(64)
    async with HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", started[0].port))) as client:

        async def publish(number: int) -> None:
            async with at_once:
                await client.publish(b"new-%d" % number, b"first")

        await asyncio.gather(*map(publish, range(_NEW)))
    shares = [len(hub.topics) for hub in started]
    print(f"topics of each hub: {shares}")
    assert sum(shares) == _NEW
    assert min(shares) >= 0.9 * _NEW / 3, shares
    assert max(shares) <= 1.1 * _NEW / 3, shares


@on_zookeeper_first
async def test_drained_hub_is_emptied_and_its_subscribers_follow(
    deployment: Deployment, driver: JavaClientDriver
) -> None:
    one, other = [await deployment.start(admin_port=0) for _ in range(2)]
    await _know_each_other(one, other)
    admin = AdminClient(f"127.0.0.1:{one.admin_port}")
    await _own(deployment, one, [*TOPICS[:20], b"java"])
    async with Traffic(f"127.0.0.1:{one.port}", TOPICS[:20]) as traffic:
        java = await asyncio.to_thread(JavaClient, driver, f"127.0.0.1:{one.port}", {})
        listening = await asyncio.to_thread(java.listen, b"java", b"ann")
        published = await asyncio.to_thread(java.publish_many, b"java", 20)
        assert await asyncio.to_thread(listening.ids, 20) == sorted(published)
        await until(lambda: traffic.published > 60, "messages are published")
        assert len(one.topics) == 21
        reply = await asyncio.to_thread(admin.post, "/drain?state=on")
        assert (reply["draining"], reply["other_hubs"]) == (True, 1)
        await until(lambda: len(one.topics) == 0, "the drained hub is empty")
        assert (await asyncio.to_thread(admin.get, "/drain"))["topics"] == 0
        before = traffic.published
        await until(lambda: traffic.published > before + 60, "messages are published to the other")
        assert sorted(await asyncio.to_thread(java.publish_many, b"java", 20)) == list(range(21, 41))
        seen = 20
        while seen < 40:
            [local] = await asyncio.to_thread(listening.ids, 1)
            assert local <= seen + 1
            seen = max(seen, local)
        await traffic.settle()
        assert len(one.topics) == 0
        await asyncio.to_thread(java.__exit__, None, None, None)
    client, to_other = await deployment.connect(one), await deployment.connect(other)
    # Another hub has redirected this client here.
    for topic in (b"new", TOPICS[0]):
        answer = await deployment.ask(client, topic)
        assert not is_owner(answer)
        assert answer.text == other.me.address
    assert is_owner(await deployment.ask(to_other, b"new"))
    await asyncio.to_thread(admin.post, "/drain?state=off")
    assert is_owner(await deployment.ask(client, b"newer"))


async def test_drained_hub_takes_no_topic_of_a_dead_hub(deployment: Deployment) -> None:
    one, other = [await deployment.start() for _ in range(2)]
    await _know_each_other(one, other)
    _balance(one).drain(True)
    dead = deployment.apart()
    await asyncio.to_thread(dead.start)
    assert is_owner(await deployment.ask(await deployment.connect(dead), b"t"))
    await until(lambda: len(liveness_of(one).live) == 3, "it knows the third")
    dead.kill()
    await until(lambda: len(liveness_of(one).live) == 2, "it has heard of the end of the third")
    answer = await deployment.ask(await deployment.connect(one), b"t")
    assert answer.text == other.me.address


async def test_drained_hub_stays_drained_over_a_registration(deployment: Deployment) -> None:
    proxy = await deployment.proxy_to_zookeeper(ZooKeeperWire)
    one = await deployment.start(zookeeper=proxy.address)
    other = await deployment.start()
    await _know_each_other(one, other)
    _balance(one).drain(True)
    before = one.me
    proxy.vanish()
    await until(lambda: not one.shape.is_proven(), "the session is in doubt")
    await proxy.come_back()
    await until(lambda: one.me != before and one.shape.is_proven(), "it serves again")

    def shows_it() -> bool:
        return [hub.is_draining for hub in liveness_of(other).live if hub.info == one.me] == [True]

    await until(shows_it, "the other knows that it is drained")
    await until(lambda: _balance(one).others == 1, "it knows the other")
    answer = await deployment.ask(await deployment.connect(one), b"t")
    assert answer.text == other.me.address


async def test_drain_gives_up_no_faster_than_its_rate(deployment: Deployment) -> None:
    one, other = [await deployment.start(cluster={"drain_rate": 20}) for _ in range(2)]
    await _know_each_other(one, other)
    await _own(deployment, one, TOPICS)
    began_at = time.monotonic()
    _balance(one).drain(True)
    await until(lambda: len(one.topics) == 0, "it is empty")
    # The hub releases two topics at a time, ten times a second.
    assert time.monotonic() - began_at >= (len(TOPICS) / 2 - 1) / 10


async def test_hub_that_is_drained_while_there_is_no_other_serves_on(deployment: Deployment) -> None:
    one = await deployment.start()
    client = await deployment.connect(one)
    await client.subscribed(b"t", b"ann")
    _balance(one).drain(True)
    assert await client.publish(b"new", b"first") == 1
    assert await client.publish_many(b"t", *(b"%d" % number for number in range(20))) == list(range(1, 21))
    assert await client.delivered(20) == list(range(1, 21))
    other = await deployment.start()
    await until(lambda: len(one.topics) == 0, "it is emptied once there is another")
    await client.closed_by_hub()
    assert is_owner(await deployment.ask(await deployment.connect(other), b"t"))


async def test_topic_that_was_given_up_for_the_balance_is_claimed_again_by_choice_only(deployment: Deployment) -> None:
    """This also holds for requests with the flag of a redirect, which else makes any hub claim."""
    one, other = [await deployment.start(cluster={"placement": "uniform"}) for _ in range(2)]
    await _know_each_other(one, other)
    await _own(deployment, one, TOPICS)
    released, left = TOPICS[:10], TOPICS[10:]
    await asyncio.gather(*(one.topics.release(topic) for topic in one.topics if topic.name in released))
    await asyncio.gather(*(one.topics.leave(topic) for topic in one.topics))
    assert len(one.topics) == 0
    client, to_other = await deployment.connect(one), await deployment.connect(other)
    assert all([is_owner(await deployment.ask(client, topic)) for topic in released])
    answers = [await deployment.ask(client, topic) for topic in left]
    sent_on = [topic for topic, answer in zip(left, answers, strict=True) if not is_owner(answer)]
    assert sent_on, "all of them came back"
    assert all([is_owner(await deployment.ask(to_other, topic)) for topic in sent_on])


async def test_client_is_not_sent_back_to_a_hub_that_gave_the_topic_up(deployment: Deployment) -> None:
    """Two hubs have given the topic up, and none is drained. The client finds an owner at the third hub or here."""
    one, other, third = [await deployment.start() for _ in range(3)]
    hubs = [one, other, third]
    await _know_each_other(*hubs)
    clients = {hub.me.address: await deployment.connect(hub) for hub in hubs}
    for topic in TOPICS:
        for hub in (one, other):
            assert is_owner(await deployment.ask(clients[hub.me.address], topic))
            owned = hub.topics.get(Topic(topic))
            assert owned is not None
            await hub.topics.leave(owned)
        tried: list[HubInfo] = []
        asked = one
        while not is_owner(answer := await deployment.ask(clients[asked.me.address], topic, tried=tried)):
            assert answer.status is StatusCode.NOT_RESPONSIBLE_FOR_TOPIC
            tried.append(asked.me)
            (asked,) = [hub for hub in hubs if hub.me.address == answer.text]
            assert asked.me not in tried
        assert (await deployment.owner(topic)) == asked.me
        # Another client that both hubs have redirected finds the same owner.
        assert is_owner(await deployment.ask(clients[asked.me.address], topic, tried=[one.me, other.me]))


async def test_client_of_a_topic_that_every_hub_gave_up_is_served(deployment: Deployment) -> None:
    one, other = [await deployment.start() for _ in range(2)]
    await _know_each_other(one, other)
    to_one, to_other = await deployment.connect(one), await deployment.connect(other)
    for topic in TOPICS[:10]:
        for hub, client in ((one, to_one), (other, to_other)):
            assert is_owner(await deployment.ask(client, topic))
            owned = hub.topics.get(Topic(topic))
            assert owned is not None
            await hub.topics.leave(owned)
        assert is_owner(await deployment.ask(to_other, topic, tried=[one.me]))
