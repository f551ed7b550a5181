"""Prove that arguments of a wrong type fail at once, say what is right, and leave nothing behind."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hedwig.client import BlockingClient, ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ConfigurationError, InvalidArgumentError
from hedwig.model import Topic
from hedwig.wire import Message
from tests.client.test_publishing import PATIENCE_S

ROOM = 1
"""One message that stayed behind would keep the next one waiting."""
BODIES: list[Any] = ["text", "\n\x05hello", 5, None, bytearray(b"x"), memoryview(b"x")]


async def _publish(client: HedwigClient, topic: Topic, body: Any) -> None:
    await client.publish(topic, body)


async def _begin(client: HedwigClient, topic: Topic, body: Any) -> None:
    await client.begin_publish(topic, body, lambda _: None)


async def _many(client: HedwigClient, topic: Topic, body: Any) -> None:
    async for _ in client.publish_many(topic, [body]):
        pass


async def _named(client: HedwigClient, topic: Topic, body: Any) -> None:
    await client.publisher("ann").publish(topic, body, sequence=1)


@pytest.mark.parametrize("call", [_publish, _begin, _many, _named])
@pytest.mark.parametrize("is_connected", [False, True])
async def test_a_body_is_bytes(
    own_hub: HubAddress, topic: Topic, call: Callable[[HedwigClient, Topic, Any], Awaitable[None]], is_connected: bool
) -> None:
    options = ClientOptions(hub=own_hub, publishes_in_flight_max=ROOM, answer_timeout_s=PATIENCE_S)
    async with HedwigClient(options) as client:
        if is_connected:
            await client.publish(topic, b"before")
        for body in BODIES:
            with pytest.raises(InvalidArgumentError, match="is bytes, not ") as caught:
                await call(client, topic, body)
            assert ("text.encode()" in str(caught.value)) == isinstance(body, str)
            assert client.counters.publishes_in_flight == 0
        last = await client.publish(topic, b"after")
        assert last.local == 1 + is_connected, "nothing else was stored"
        assert client.counters.lost_connections == 0


def test_a_blocking_client_says_the_same(own_hub: HubAddress, topic: Topic) -> None:
    body: Any = "text"
    with BlockingClient(ClientOptions(hub=own_hub)) as client:
        with pytest.raises(InvalidArgumentError, match="is bytes, not str"):
            client.publish(topic, body)
        assert client.publish(topic, b"bytes").local == 1


def test_a_message_names_the_property() -> None:
    properties: Any = {"lang": "de"}
    with pytest.raises(InvalidArgumentError, match="the property 'lang' of a message is bytes, not str"):
        Message(b"hallo", properties=properties)


async def test_a_name_is_text_or_bytes(own_hub: HubAddress) -> None:
    name: Any = None
    async with HedwigClient(ClientOptions(hub=own_hub)) as client:
        with pytest.raises(InvalidArgumentError, match="a name is text or bytes, not NoneType"):
            await client.publish(name, b"x")
        with pytest.raises(InvalidArgumentError, match="a name is text or bytes, not NoneType"):
            client.subscribe("news", name)


@pytest.mark.parametrize("topics", ["news", b"news"])
async def test_a_share_has_several_topics(own_hub: HubAddress, topics: Any) -> None:
    async with HedwigClient(ClientOptions(hub=own_hub)) as client:
        with pytest.raises(InvalidArgumentError, match=r"give \["):
            client.share(topics, "workers")


def test_the_hub_of_options_is_an_address() -> None:
    hub: Any = "127.0.0.1:4080"
    with pytest.raises(ConfigurationError, match=r"HubAddress\.parse\('127\.0\.0\.1:4080'\)"):
        ClientOptions(hub=hub)
