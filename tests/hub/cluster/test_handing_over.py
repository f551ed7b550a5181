"""Prove that a hub hands a topic over to another in one step, whatever fails, and that the other serves it."""

import asyncio
from typing import Final

import pytest

from hedwig.hub.hub import Hub
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.model import HubInfo, SubscriberId, Topic
from hedwig.versions import NEW
from tests.faults.support.proxy import PASS, Action, Exchange, Step
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_both, on_each_kind
from tests.hub.cluster.support.deployment import Deployment, liveness_of
from tests.hub.cluster.test_one_owner import is_owner

T: Final = Topic(b"t")


def _owned(hub: Hub, name: Topic = T) -> OwnedTopic:
    topic = hub.topics.get(name)
    assert topic is not None
    return topic


async def _know_each_other(*hubs: Hub) -> None:
    await until(lambda: all(len(liveness_of(hub).live) == len(hubs) for hub in hubs), "the hubs know each other")


@on_each_kind
async def test_topic_and_subscription_go_to_the_hub_that_is_named(deployment: Deployment) -> None:
    one, other, third = [await deployment.start() for _ in range(3)]
    to_one, to_other, to_third = [await deployment.connect(hub) for hub in (one, other, third)]
    await to_one.subscribed(T, b"ann")
    assert await to_one.publish_many(T, b"a", b"b") == [1, 2]
    assert await to_one.delivered(2) == [1, 2]
    to_one.consume(T, b"ann", 1)
    await to_one.barrier()
    assert await one.topics.hand_over(_owned(one), other.me)
    await to_one.closed_by_hub()
    assert await deployment.owner(T) == other.me
    assert other.topics.get(T) is None, "nobody has asked it yet"
    # Every hub names the new owner, with the flag of a redirect too.
    for client in (await deployment.connect(one), to_third):
        for should_claim in (True, False):
            assert (await deployment.ask(client, T, should_claim=should_claim)).text == other.me.address
    await to_other.subscribed(T, b"ann")
    assert await to_other.delivered(1) == [2]
    assert await to_other.publish(T, b"c") == 3
    assert _owned(other).subscription(SubscriberId(b"ann")) is not None


async def test_requests_that_come_meanwhile_wait_and_are_sent_there(deployment: Deployment) -> None:
    armed = False

    def plan(exchange: Exchange) -> Step:
        return Step(Action.HOLD_REQUEST) if armed and exchange.name == deployment.networked.write else PASS

    proxy, subject = await deployment.behind_proxy(plan)
    one = await deployment.start(subject=subject)
    other = await deployment.start()
    client = await deployment.connect(one)
    assert await client.publish(T, b"a") == 1
    armed = True
    handing_over = asyncio.create_task(one.topics.hand_over(_owned(one), other.me))
    await until(lambda: proxy.done[Action.HOLD_REQUEST] == 1, "the ranges are being written")
    asking = [
        asyncio.create_task(deployment.ask(await deployment.connect(one), T, should_claim=flag))
        for flag in (True, False)
    ]
    await client.barrier()
    armed = False
    proxy.release()
    assert await handing_over
    assert [(await each).text for each in asking] == [other.me.address] * 2


async def test_hub_takes_up_what_it_gave_up_a_moment_ago_if_it_is_named(deployment: Deployment) -> None:
    """This also holds while the hub is drained: all other hubs send clients to it."""
    one, other = [await deployment.start() for _ in range(2)]
    await _know_each_other(one, other)
    to_one, to_other = await deployment.connect(one), await deployment.connect(other)
    assert is_owner(await deployment.ask(to_other, T))
    await other.topics.leave(_owned(other))
    assert is_owner(await deployment.ask(to_one, T))
    assert await one.topics.hand_over(_owned(one), other.me)
    other.topics.claims_nothing_new = True
    assert is_owner(await deployment.ask(to_other, T, tried=[one.me]))
    other.topics.claims_nothing_new = False
    # The hub owns the topic again, so its earlier release no longer counts. It may release and claim it once more.
    await other.topics.release(_owned(other))
    assert is_owner(await deployment.ask(to_other, T))


@on_both
async def test_hub_that_was_named_and_died_leaves_the_topic_to_any(deployment: Deployment) -> None:
    one, other = [await deployment.start() for _ in range(2)]
    to_one, to_other = await deployment.connect(one), await deployment.connect(other)
    assert await to_one.publish(T, b"a") == 1
    # The hub died just after the look-up: its record has the epoch of an earlier start.
    dead = HubInfo(host=other.me.host, port=other.me.port, ssl_port=other.me.ssl_port, epoch=other.me.epoch - 1)
    assert not await one.topics.ownership.may_hand_over(dead)
    assert not await one.topics.ownership.may_hand_over(one.me)
    assert await one.topics.hand_over(_owned(one), dead)
    assert is_owner(await deployment.ask(to_other, T))
    assert await to_other.publish(T, b"b") == 2


async def test_of_a_topic_that_others_have_meanwhile_nothing_is_handed_over(deployment: Deployment) -> None:
    one, other, third = [await deployment.start() for _ in range(3)]
    assert is_owner(await deployment.ask(await deployment.connect(one), T))
    owned = _owned(one)
    await deployment.store.ownership.delete(T, owned.owner_version)
    await deployment.store.ownership.write(T, third.me, NEW)
    assert not await one.topics.hand_over(owned, other.me)
    assert await deployment.owner(T) == third.me
    assert one.topics.get(T) is None
    assert (await deployment.ask(await deployment.connect(one), T)).text == third.me.address


async def test_topic_that_is_being_released_already_is_not_handed_over(deployment: Deployment) -> None:
    one, other = [await deployment.start() for _ in range(2)]
    assert is_owner(await deployment.ask(await deployment.connect(one), T))
    owned = _owned(one)
    releasing = asyncio.create_task(one.topics.release(owned))
    await until(lambda: not owned.is_serving, "it is on its way out")
    assert not await one.topics.hand_over(owned, other.me)
    await releasing
    assert await deployment.owner(T) is None


@pytest.mark.parametrize("lost", [Action.CUT_REQUEST, Action.CUT_REPLY])
@on_both
async def test_store_that_fails_at_the_hand_over_leaves_one_owner(deployment: Deployment, lost: Action) -> None:
    """The store sends a lost request again, and resolves a lost reply. So the hub learns the outcome either way."""
    armed = False

    def plan(exchange: Exchange) -> Step:
        nonlocal armed
        if not armed or exchange.name != deployment.networked.write:
            return PASS
        armed = False
        return Step(lost)

    _, subject = await deployment.behind_proxy(plan)
    one = await deployment.start(subject=subject)
    other = await deployment.start()
    to_one, to_other = await deployment.connect(one), await deployment.connect(other)
    assert is_owner(await deployment.ask(to_one, T))
    armed = True
    done = await one.topics.hand_over(_owned(one), other.me)
    assert not armed, "a write was lost"
    assert await deployment.owner(T) == (other.me if done else one.me)
    assert is_owner(await deployment.ask(to_other if done else to_one, T))
    assert (await deployment.ask(to_one if done else to_other, T)).text == (other if done else one).me.address
