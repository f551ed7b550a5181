"""Releases over the wire, and how many topics a hub acquires at a time."""

import asyncio
from typing import Any

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import CreateOrAttach, Message, Publish, Subscribe, Unsubscribe
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.locked_metadata import locked
from tests.hub.support.topic_records import S, T, owner_of, release
from tests.hub.support.wire_client import WireClient, eventually


async def test_a_release_closes_the_serving_channels_and_sends_no_event(
    hub: Hub, client: WireClient, connect: Connect
) -> None:
    bystander, publisher = await connect(hub), await connect(hub)
    await client.subscribed(T, S)
    await client.subscribed(b"other topic", S)
    await bystander.subscribed(b"other topic", b"another")
    await publisher.publish(T, b"1")
    await client.deliveries(1)
    await release(hub)
    await client.closed_by_hub()
    assert client.events == []
    assert await owner_of(hub) is None
    await publisher.publish(b"other topic", b"m")
    await bystander.deliveries(1)
    again = await connect(hub)
    await again.subscribed(b"other topic", S)
    await again.subscribed(T, S)
    assert [each.topic for each in await again.deliveries(2)].count(T) == 1


async def test_a_released_topic_is_taken_again_at_the_next_request(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    owned = hub.topics.get(T)
    assert owned is not None
    releasing = asyncio.create_task(hub.topics.release(owned))
    sent = [client.send(T, Publish(Message(b"m"))) for _ in range(10)]
    assert [WireClient.published(await client.answer(txn_id)) for txn_id in sent] == list(range(2, 12))
    await releasing


async def test_requests_during_a_release_are_served_after_it(hub: Hub, client: WireClient, connect: Connect) -> None:
    other = await connect(hub)
    await other.subscribed(T, b"attached")
    await client.publish_many(T, b"1", b"2")
    owned = hub.topics.get(T)
    assert owned is not None
    with locked(hub):
        releasing = asyncio.create_task(hub.topics.release(owned))
        await eventually(lambda: not owned.is_serving, "the release began")
        subscribed = client.send(T, Subscribe(subscriber=S, mode=CreateOrAttach.CREATE))
        published = client.send(T, Publish(Message(b"3")))
        unsubscribed = client.send(T, Unsubscribe(SubscriberId(b"attached")))
        await client.barrier()
    await releasing
    assert (await client.answer(subscribed)).status is StatusCode.SUCCESS
    assert WireClient.published(await client.answer(published)) == 3
    assert (await client.answer(unsubscribed)).status is StatusCode.SUCCESS
    await other.closed_by_hub()


async def test_idle_topics_are_released_and_used_ones_are_not(start_hub: StartHub, connect: Connect) -> None:
    # Long enough that a busy machine does not make the used topic idle between two steps of this test.
    hub = await start_hub(topic_idle_s=4.0, topic_sweep_s=0.05)
    client = await connect(hub)
    await client.subscribed(b"attached", S)
    await client.publish(b"idle", b"m")

    async def is_released() -> bool:
        await client.publish(b"used", b"m")
        return hub.topics.get(Topic(b"idle")) is None

    await eventually(is_released, "the idle topic is released")
    assert hub.topics.get(Topic(b"attached")) is not None
    assert hub.topics.get(Topic(b"used")) is not None
    assert await client.publish(b"idle", b"m") == 2


async def test_old_topics_are_released_used_or_not(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(topic_age_s=1.0, topic_sweep_s=0.05)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.closed_by_hub()
    assert client.events == []


async def test_the_topics_unused_for_longest_make_room(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(topics_max=3, topic_sweep_s=3600.0, topic_idle_s=0.0)
    client = await connect(hub)
    await client.subscribed(b"T0", S)
    for number in range(1, 7):
        await client.publish(b"T%d" % number, b"m")
    await hub.topics.sweep()
    await eventually(lambda: len(hub.topics) == 3, "three are left")
    assert hub.topics.get(Topic(b"T0")) is not None


async def test_many_topics_at_once(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(acquisitions_max=5)
    client = await connect(hub)
    sent = [client.send(b"T%d" % (number % 300), Publish(Message(b"m"))) for number in range(600)]
    ids = [WireClient.published(await client.answer(txn_id)) for txn_id in sent]
    assert ids == [1] * 300 + [2] * 300


async def test_first_ledgers_are_made_few_at_a_time(
    start_hub: StartHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start_hub(ledger_changes_max=3)
    create, at_once, most = hub.ledgers.create, 0, 0

    async def counted(*given: Any) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return await create(*given)
        finally:
            at_once -= 1

    monkeypatch.setattr(hub.ledgers, "create", counted)
    client = await connect(hub)
    sent = [client.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(100)]
    assert [WireClient.published(await client.answer(txn_id)) for txn_id in sent] == [1] * 100
    assert most == 3


async def test_topics_that_one_connection_asks_for_do_not_wait_for_those_of_another(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub(acquisitions_max=2)
    greedy, modest = await connect(hub), await connect(hub)
    with locked(hub):
        # The other client later asks for one of these topics as well.
        sent = [greedy.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(500)]
        await eventually(lambda: hub.topics.waiting == 498, "the greedy one waits")
        asked = [modest.send(topic, Publish(Message(b"m"))) for topic in (b"mine", b"T400")]
        await modest.barrier()
    assert [WireClient.published(await modest.answer(txn_id)) for txn_id in asked] == [1, 2]
    assert len(greedy.answers) < 100
    assert [WireClient.published(await greedy.answer(txn_id)) for txn_id in sent] == [1] * 500


async def test_topics_that_one_connection_asks_for_do_not_take_the_places_of_others(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub(acquisitions_max=1, acquisitions_waiting_max=50)
    greedy, modest = await connect(hub), await connect(hub)
    with locked(hub):
        sent = [greedy.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(100)]
        refused = [await greedy.answer(txn_id) for txn_id in sent[51:]]
        assert {each.status for each in refused} == {StatusCode.SERVICE_DOWN}
        asked = [modest.send(b"M%d" % number, Publish(Message(b"m"))) for number in range(30)]
        refused = [await modest.answer(txn_id) for txn_id in asked[16:]]
        assert {each.status for each in refused} == {StatusCode.SERVICE_DOWN}
    assert {(await modest.answer(txn_id)).status for txn_id in asked[:16]} == {StatusCode.SUCCESS}
    assert {(await greedy.answer(txn_id)).status for txn_id in sent[:51]} == {StatusCode.SUCCESS}


async def test_too_many_topics_that_wait_are_refused(start_hub: StartHub, connect: Connect) -> None:
    """Each connection may have sixteen requests in any case."""
    hub = await start_hub(acquisitions_max=1, acquisitions_waiting_max=5)
    client = await connect(hub)
    with locked(hub):
        sent = [client.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(30)]
        refused = [await client.answer(txn_id) for txn_id in sent[17:]]
        assert {each.status for each in refused} == {StatusCode.SERVICE_DOWN}
    assert {(await client.answer(txn_id)).status for txn_id in sent[:17]} == {StatusCode.SUCCESS}
