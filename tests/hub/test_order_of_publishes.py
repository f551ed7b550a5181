"""Prove that messages of nobody keep their order too, while a hub refuses some of them and stores others."""

import asyncio

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.hub.hub import Hub
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import Attempt, Message, Publish
from tests.hub.support.wire_client import WireClient

T = Topic(b"T")
OTHER = Topic(b"other")


async def test_what_follows_a_refused_message_is_refused_until_that_comes_again(hub: Hub, client: WireClient) -> None:
    async def publish(topic: Topic, body: bytes, previous: int) -> tuple[int, StatusCode]:
        sent = client.send(topic, Publish(Message(body), previous))
        return sent, (await client.answer(sent)).status

    hub.requests.is_read_only = True
    first, status = await publish(T, b"1", 0)
    assert status is StatusCode.SERVICE_DOWN
    hub.requests.is_read_only = False
    second, status = await publish(T, b"2", first)
    assert status is StatusCode.SERVICE_DOWN
    assert (await publish(T, b"3", second))[1] is StatusCode.SERVICE_DOWN
    assert (await publish(OTHER, b"1", first))[1] is StatusCode.SUCCESS
    again, status = await publish(T, b"1", 0)
    assert status is StatusCode.SUCCESS
    assert (await publish(T, b"2", again))[1] is StatusCode.SUCCESS


async def test_a_client_keeps_the_order_of_its_calls_at_a_hub_that_refuses_now_and_then(hub: Hub) -> None:
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port), reconnect_pause_s=0.001)
    async with HedwigClient(options) as client:
        running = []
        for number in range(400):
            hub.requests.is_read_only = number % 5 == 0
            running.append(asyncio.create_task(client.publish(T, b"message %d" % number)))
            await asyncio.sleep(0)
        hub.requests.is_read_only = False
        async with asyncio.timeout(60):
            positions = [(await each).local for each in running]
        assert client.counters.publish_repeats
    assert positions == list(range(1, 401))


async def test_what_follows_a_message_that_is_refused_for_good_is_stored(client: WireClient) -> None:
    first = client.send(T, Publish(Message(b"1"), 0, Attempt(age_ms=1)))
    assert (await client.answer(first)).status is StatusCode.MALFORMED_REQUEST
    second = client.send(T, Publish(Message(b"2"), first))
    assert (await client.answer(second)).status is StatusCode.SUCCESS
