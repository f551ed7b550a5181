"""Prove that a client counts what it does, and that a change of its state is one line in the log for any topics."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from hedwig.client import BlockingClient, ClientCounters, ClientOptions, HedwigClient, HubAddress
from hedwig.errors import MalformedRequestError
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Answer, Publish, Request, Subscribe
from tests.client.support.wire import Wire
from tests.client.test_publishing import Refusing
from tests.faults.support.waiting import until

ANN = SubscriberId(b"ann")
PATIENCE_S = 60.0
NOTHING = dict.fromkeys(ClientCounters.__slots__, 0)


@pytest.fixture
async def client(wire: Wire) -> AsyncIterator[HedwigClient]:
    options = ClientOptions(hub=wire.address, share_channels=True, reconnect_pause_s=0.001, reconnect_pause_max_s=0.01)
    async with HedwigClient(options) as made:
        yield made


def counted(client: HedwigClient) -> dict[str, int]:
    """Return the counters that are not 0."""
    return {name: value for name in ClientCounters.__slots__ if (value := getattr(client.counters, name))}


async def test_publishes_are_counted(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    assert client.counters == ClientCounters(**NOTHING)
    for _ in range(3):
        await client.publish(topic, b"body")
    assert counted(client) == {"published": 3, "connections": 1}
    wire.intercept = lambda request: Answer(txn_id=request.txn_id, status=StatusCode.MALFORMED_REQUEST)
    with pytest.raises(MalformedRequestError):
        await client.publish(topic, b"body")
    assert counted(client) == {"published": 3, "publish_errors": 1, "connections": 1}
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
    publishing = asyncio.create_task(client.publisher("name").publish(topic, b"body", sequence=1))
    await until(lambda: client.counters.publish_repeats >= 3, "it is tried again")
    assert client.counters.publishes_in_flight == client.counters.late_topics == 1
    refusing.status = None
    await publishing
    after = counted(client)
    assert after.pop("publish_repeats") >= 3
    assert after == {"published": 4, "publish_errors": 1, "connections": 1}


async def test_subscriptions_are_counted(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    first, second = await client.subscribe(topic, ANN), await client.subscribe(topic, b"bob")
    await client.publish(topic, b"body")
    assert (await anext(first)).body == (await anext(second)).body == b"body"
    both = {"published": 1, "received": 2, "connections": 2, "subscriptions": 2, "attached_subscriptions": 2}
    assert counted(client) == both
    wire.intercept = lambda request: (
        Answer(txn_id=request.txn_id, status=StatusCode.SERVICE_DOWN)
        if isinstance(request.action, Subscribe) and request.action.subscriber == ANN
        else None
    )
    wire.cut()
    await until(lambda: second.is_attached and client.counters.late_subscriptions == 1, "one is attached again")
    away = {"attached_subscriptions": 1, "late_subscriptions": 1, "lost_attachments": 2, "lost_connections": 2}
    assert counted(client) == both | {"connections": 1} | away
    wire.intercept = lambda _: None
    await until(lambda: first.is_attached, "both are attached again")
    both |= {"connections": 1, "lost_attachments": 2, "lost_connections": 2}
    assert counted(client) == both, "what was delivered again does not count"
    await first.close()
    assert counted(client) == both | {"subscriptions": 1, "attached_subscriptions": 1}


async def test_a_blocking_client_has_them_too(own_hub: HubAddress, topic: Topic) -> None:
    def use() -> ClientCounters:
        with BlockingClient(ClientOptions(hub=own_hub)) as client, client.subscribe(topic, ANN):
            client.publish(topic, b"body")
            return client.counters

    counters = await asyncio.to_thread(use)
    assert (counters.published, counters.attached_subscriptions) == (1, 1)


async def test_many_subscriptions_that_are_refused_are_two_lines_in_the_log(
    wire: Wire, client: HedwigClient, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    opened = [await client.subscribe(Topic(topic + b"/%d" % number), ANN) for number in range(50)]
    asked = set()

    def refuse(request: Request) -> Answer | None:
        if not isinstance(request.action, Subscribe):
            return None
        asked.add(request.topic)
        return Answer(txn_id=request.txn_id, status=StatusCode.SERVICE_DOWN)

    wire.intercept = refuse
    with caplog.at_level(logging.DEBUG, logger="hedwig.client"):
        wire.cut()
        await until(lambda: len(asked) == client.counters.late_subscriptions == 50, "all are refused")
        wire.intercept = lambda _: None
        await until(lambda: all(each.is_attached for each in opened), "all are attached again")
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("a subscription is not attached, and is tried again: the hub answers SERVICE_DOWN")
    assert last == "all subscriptions are attached again"


async def test_a_subscription_that_is_closed_is_in_no_trouble(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    subscription = await client.subscribe(topic, ANN)
    wire.intercept = lambda request: (
        None if isinstance(request.action, Publish) else Answer(txn_id=request.txn_id, status=StatusCode.SERVICE_DOWN)
    )
    wire.cut()
    await until(lambda: client.counters.late_subscriptions == 1, "it is refused")
    await subscription.close()
    assert counted(client).keys() <= {"connections", "lost_attachments", "lost_connections"}


def lost_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    return [line for line in lines if "subscriptions are lost; other clients may have them" in line]


async def test_topics_that_a_share_loses_are_one_line_in_the_log(
    own_hub: HubAddress, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    topics = [Topic(topic + b"/%d" % number) for number in range(10)]
    async with (
        HedwigClient(ClientOptions(hub=own_hub)) as client,
        HedwigClient(ClientOptions(hub=own_hub)) as thief,
        client.share(topics, ANN) as share,
    ):
        await until(lambda: len(share.topics) == 10, "it serves all")
        with caplog.at_level(logging.WARNING, logger="hedwig.client.subscriptions.share"):
            for each in topics:
                await thief.subscribe(each, ANN, force_attach=True)
            await until(lambda: bool(lost_lines(caplog)), "it is logged")
    assert len(lost_lines(caplog)) < 10
