"""Prove that a finished message is consumed in time, also if its application takes long for the next one."""

import asyncio
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from hedwig.client import ClientOptions, HedwigClient, Subscription
from hedwig.model import SubscriberId, Topic
from hedwig.wire import Consume
from tests.client.support.wire import Wire
from tests.faults.support.waiting import until, until_blocking
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.checkout import CHECKOUT

ANN = SubscriberId(b"ann")
PATIENCE_S = 60.0
MANY = 1_000_000

_READER = """
import sys, time
from hedwig import BlockingClient
from hedwig.client import ClientOptions, HubAddress

options = ClientOptions(hub=HubAddress.parse(sys.argv[1]), consume_every=1_000_000, consume_within_s=0.2)
with BlockingClient(options) as client:
    for message in client.subscribe("news", "ann"):
        print(message.seq_id.local, flush=True)
        time.sleep(0.02)
"""


def consumed(wire: Wire, topic: Topic) -> list[int]:
    return [
        request.action.seq_id.local
        for request in wire.requests
        if request.topic == topic and isinstance(request.action, Consume)
    ]


async def take(subscription: Subscription, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(count):
            await anext(subscription)


@pytest.mark.parametrize("share", [False, True], ids=["a channel each", "shared channels"])
async def test_finished_messages_are_told_while_the_application_is_busy(wire: Wire, topic: Topic, share: bool) -> None:
    options = ClientOptions(hub=wire.address, share_channels=share, consume_every=MANY, consume_within_s=0.05)
    async with HedwigClient(options) as client, client.subscribe(topic, ANN) as subscription:
        async for _ in client.publish_many(topic, [b"body"] * 10):
            pass
        await take(subscription, 5)  # Asking for a message finishes the one before it.
        async with asyncio.timeout(PATIENCE_S):
            await wire.has(lambda: consumed(wire, topic)[-1:] == [4])
        await take(subscription, 2)
        async with asyncio.timeout(PATIENCE_S):
            await wire.has(lambda: consumed(wire, topic)[-1] == 6)
    assert consumed(wire, topic) == sorted(set(consumed(wire, topic)))


async def test_one_timer_serves_many_subscriptions(wire: Wire, topic: Topic) -> None:
    topics = [Topic(topic + b"/%d" % number) for number in range(100)]
    options = ClientOptions(hub=wire.address, share_channels=True, consume_every=MANY, consume_within_s=0.5)
    async with HedwigClient(options) as client, asyncio.timeout(PATIENCE_S):
        opened = [await client.subscribe(each, ANN) for each in topics]
        for each in topics:
            await client.publish(each, b"one")
            await client.publish(each, b"two")
            await client.publish(each, b"three")
        loop = asyncio.get_running_loop()
        timers = 0
        call_later = loop.call_later

        def counted(*arguments: object, **options: object) -> asyncio.TimerHandle:
            nonlocal timers
            timers += getattr(arguments[1], "__name__", "") == "_send_all"
            return call_later(*arguments, **options)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_later", counted)
            for subscription in opened:
                await take(subscription, 2)
            await wire.has(lambda: all(consumed(wire, each) for each in topics))
        assert [consumed(wire, each) for each in topics] == [[1]] * 100
        assert 0 < timers < 50, "once, or a few times on a machine that takes long for the loop"


async def test_a_message_that_is_not_finished_is_not_told(wire: Wire, topic: Topic) -> None:
    options = ClientOptions(hub=wire.address, consume_every=MANY, consume_within_s=0.01)
    async with HedwigClient(options) as client:

        async def fail_at_the_second() -> None:
            async with client.subscribe(topic, ANN) as subscription:
                for _ in range(3):
                    await client.publish(topic, b"body")
                await take(subscription, 2)
                async with asyncio.timeout(PATIENCE_S):
                    await wire.has(lambda: bool(consumed(wire, topic)))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_at_the_second()
        assert consumed(wire, topic) == [1]


def lag(hub: RunningHub) -> tuple[int, int]:
    """Return how many messages the subscription is behind, and what it has consumed, as the owner says."""
    answer = AdminClient(hub.admin).get(f"/lag?topic={quote('news')}")
    (row,) = answer["subscriptions"]
    return row["lag_messages"], row["consumed"]


async def test_the_owner_shows_no_lag_for_a_subscriber_that_has_caught_up(tmp_path: Path) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        async with HedwigClient(hub.address) as client, client.subscribe("news", "ann") as subscription:

            async def read() -> None:
                async for _ in subscription:
                    pass

            reading = asyncio.create_task(read())
            for _ in range(7):
                await client.publish("news", b"body")
            await until(lambda: lag(hub) == (0, 7), "it has caught up")
            reading.cancel()


def test_a_client_that_is_killed_gets_little_again(tmp_path: Path) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        command = [sys.executable, "-c", _READER, hub.address]
        with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE) as reader:
            try:
                until_blocking(lambda: _is_attached(hub), "it subscribes")
                asyncio.run(_publish(hub, 500))
                until_blocking(lambda: lag(hub)[1] >= 20, "it has consumed some messages")
                before = lag(hub)[1]
            finally:
                reader.kill()
            assert reader.stdout is not None
            received = [int(line) for line in reader.stdout.read().split()]
        assert asyncio.run(_first(hub)) > before
        assert received[-1] >= before


def _is_attached(hub: RunningHub) -> bool:
    answer = AdminClient(hub.admin).ask("GET", "/lag?topic=news")
    return answer.status == 200 and any(row["attached"] for row in answer.json["subscriptions"])


async def _publish(hub: RunningHub, count: int) -> None:
    async with HedwigClient(hub.address) as client:
        async for _ in client.publish_many("news", [b"body"] * count):
            pass


async def _first(hub: RunningHub) -> int:
    async with HedwigClient(hub.address) as client, client.subscribe("news", "ann") as subscription:
        return (await anext(subscription)).seq_id.local
