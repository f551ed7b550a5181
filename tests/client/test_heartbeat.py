"""Prove that a hub that stands still is noticed, and that a hub or an application that is only slow is left alone."""

import asyncio
import logging
import signal
import time
from pathlib import Path

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress, Subscription
from hedwig.model import SubscriberId, Topic
from tests.client.support.wire import Wire
from tests.faults.support.waiting import until
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers

ANN = SubscriberId(b"ann")
PATIENCE_S = 60.0
SHORT_S = 1.0
LONG_S = 6.0
"""A silence within which a hub of ours answers, however busy the machine is."""
_SIGNS = (
    "has said nothing for 1 s",
    # On a busy machine the hub may have been silent for so long before it stood still. Then the channel is a new one.
    "took the connection only",
)


async def take(subscription: Subscription) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return (await anext(subscription)).body


@pytest.mark.parametrize("share", [False, True], ids=["a channel each", "shared channels"])
async def test_a_hub_that_is_stopped_is_given_up(
    tmp_path: Path, topic: Topic, share: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        # No request ends by its own deadline, and the kernel notices nothing.
        options = ClientOptions(
            hub=HubAddress.parse(hub.address),
            share_channels=share,
            publish_once=True,
            silence_s=SHORT_S,
            answer_timeout_s=10 * PATIENCE_S,
        )
        async with HedwigClient(options) as client, client.subscribe(topic, ANN) as subscription:
            await client.publish(topic, b"before")
            assert await take(subscription) == b"before"
            assert hub.process is not None
            hub.process.send_signal(signal.SIGSTOP)
            try:
                assert subscription.is_attached
                publishing = [asyncio.create_task(client.publish(topic, body)) for body in (b"second", b"third")]
                with caplog.at_level(logging.WARNING, logger="hedwig.client.publishing"):
                    await until(lambda: any(each in caplog.text for each in _SIGNS), "the client notices it")
                await until(lambda: not subscription.is_attached, "the subscription notices it")
                assert not any(each.done() for each in publishing)
            finally:
                hub.process.send_signal(signal.SIGCONT)
            async with asyncio.timeout(PATIENCE_S):
                # The hub has read both, and stores each once.
                assert [(await each).local for each in publishing] == [2, 3]
                assert [await take(subscription) for _ in publishing] == [b"second", b"third"]
            assert subscription.is_attached


@pytest.mark.parametrize("share", [False, True], ids=["a channel each", "shared channels"])
async def test_a_quiet_hub_is_asked_and_kept(wire: Wire, topic: Topic, share: bool) -> None:
    options = ClientOptions(hub=wire.address, share_channels=share, silence_s=LONG_S)
    async with HedwigClient(options) as client, client.subscribe(topic, ANN) as subscription:
        await client.publish(topic, b"before")
        assert await take(subscription) == b"before"
        connections, pings = wire.connections, wire.pings
        await until(lambda: wire.pings >= pings + 6, "both channels are asked again and again")
        assert wire.connections == connections
        assert subscription.is_attached


async def test_the_original_hub_is_kept_though_it_knows_no_ping(servers: RunningServers, topic: Topic) -> None:
    hub = HubAddress.parse(servers.address("java-hedwig"))
    options = ClientOptions(hub=hub, silence_s=LONG_S)
    async with HedwigClient(options) as client, client.subscribe(topic, ANN) as subscription:
        (serving,) = client._attachments._channels
        await asyncio.sleep(2.2 * LONG_S)
        await client.publish(topic, b"body")
        assert await take(subscription) == b"body"
        assert list(client._attachments._channels) == [serving]


async def test_a_slow_application_keeps_its_connection(wire: Wire, topic: Topic) -> None:
    options = ClientOptions(hub=wire.address, silence_s=SHORT_S, deliveries_queued_max=2)
    async with HedwigClient(options) as client, client.subscribe(topic, ANN) as subscription:
        bodies = [b"%d" % number for number in range(20)]
        async for _ in client.publish_many(topic, bodies):
            pass
        (serving,) = client._attachments._channels
        await until(lambda: serving.is_paused, "messages wait for the application")
        await asyncio.sleep(4 * SHORT_S)
        assert [await take(subscription) for _ in bodies] == bodies
        assert list(client._attachments._channels) == [serving]


async def test_a_client_that_stood_still_blames_no_hub(own_hub: HubAddress, topic: Topic) -> None:
    options = ClientOptions(hub=own_hub, silence_s=LONG_S / 2)
    async with HedwigClient(options) as client, client.subscribe(topic, ANN):
        (serving,) = client._attachments._channels
        for _ in range(2):
            time.sleep(LONG_S)  # noqa: ASYNC251 (the whole loop stands still)
            for _ in range(10):
                await asyncio.sleep(0.01)
                assert serving.is_open
