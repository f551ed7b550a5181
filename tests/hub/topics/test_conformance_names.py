"""Names of topics and subscribers, over the wire."""

import pytest

from hedwig.model import SubscriberId
from hedwig.status import StatusCode
from hedwig.wire import CloseSubscription, CreateOrAttach, Message, Publish, Subscribe, Unsubscribe
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.topic_records import S, T
from tests.hub.support.wire_client import WireClient

NAMES = [
    b"x",
    b"x" * 8192,
    b"nul\0nul",
    b"\xff\xfe not utf-8 \x80",
    b"a/b",
    b"/leading",
    b"trailing/",
    b"double//slash",
    b".",
    b"..",
    b" ",
    b"\n",
    b"hub",
    b"__reserved",
    "Größe 🦔".encode(),
    b"%s{}\\",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:20]))
async def test_names_are_any_bytes(start_hub: StartHub, connect: Connect, name: bytes) -> None:
    async with await start_hub() as hub:
        client = await connect(hub)
        await client.subscribed(name, name)
        assert await client.publish(name, name) == 1
        delivery = await client.delivery()
        assert (delivery.topic, delivery.subscriber, delivery.message.body) == (name, name, name)
        await client.close()
    client = await connect(await start_hub())
    await client.subscribed(name, name, mode=CreateOrAttach.ATTACH)
    assert await client.delivered(1) == [1]
    assert (await client.unsubscribe(name, name)).status is StatusCode.SUCCESS


@pytest.mark.parametrize("name", [b"", b"x" * 8193])
async def test_names_beyond_the_limits_are_malformed(client: WireClient, name: bytes) -> None:
    for action in (Publish(Message(b"m")), Subscribe(subscriber=S), Unsubscribe(S), CloseSubscription(S)):
        assert (await client.request(name, action)).status is StatusCode.MALFORMED_REQUEST
    subscriber = SubscriberId(name)
    for action in (Subscribe(subscriber=subscriber), Unsubscribe(subscriber), CloseSubscription(subscriber)):
        assert (await client.request(T, action)).status is StatusCode.MALFORMED_REQUEST
    client.consume(name, S, 1)
    client.consume(T, name, 1)
    await client.publish(T, b"m")
