"""Prove that most programs need one import only, and may give addresses and texts in their usual forms."""

import subprocess
import sys

import pytest

import hedwig
from hedwig.client import BlockingClient, HedwigClient, HubAddress, Received
from hedwig.errors import ClientClosedError, InvalidArgumentError, NameLimitError
from hedwig.model import MessageSeqId, Topic

_LOADED = "import hedwig, sys; print(*(name for name in sys.modules if name.startswith('hedwig')))"


def test_import_loads_nothing_before_it_is_asked_for() -> None:
    ran = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == ["hedwig"]


@pytest.mark.parametrize("name", hedwig.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(hedwig, name) is not None


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'hedwig' has no attribute 'HedwigCleint'"):
        hedwig.HedwigCleint  # type: ignore[attr-defined]  # noqa: B018


async def test_names_may_be_text(own_hub: HubAddress, topic: Topic) -> None:
    name = topic.decode() + "/ä"
    async with HedwigClient(str(own_hub)) as client, client.subscribe(name, "ä") as subscription:
        assert (subscription.topic, subscription.subscriber) == (name.encode(), "ä".encode())
        assert (await client.publish(name.encode(), b"hello")).local == 1
        message = await anext(subscription)
        assert isinstance(message, Received)
        assert (message.seq_id, message.body) == (MessageSeqId(1), b"hello")
        await subscription.close()
        await client.unsubscribe(name, "ä".encode())


def test_names_may_be_text_without_asyncio(own_hub: HubAddress, topic: Topic) -> None:
    name = topic.decode()
    with BlockingClient(str(own_hub)) as client:
        client.subscribe(name, "ann")
        assert [each.local for each in client.publish_many(name, [b"1", b"2"])] == [1, 2]
        client.close_subscription(topic, b"ann")
        with client.subscribe(topic, b"ann") as subscription:
            assert next(subscription).seq_id.local == 1
        client.unsubscribe(name, "ann")


async def test_a_subscription_is_opened_when_it_is_entered_or_awaited(own_hub: HubAddress, topic: Topic) -> None:
    async with HedwigClient(str(own_hub)) as client:
        opening = client.subscribe(topic, "ann")
        async with opening as subscription:
            assert subscription.is_attached
        assert not subscription.is_open
        again = await opening
        assert again.is_attached
    with pytest.raises(ClientClosedError):
        await opening


@pytest.mark.parametrize(("name", "error"), [("\ud800", InvalidArgumentError), ("", NameLimitError)])
async def test_names_that_are_none_are_refused_at_once(name: str, error: type[Exception]) -> None:
    async with HedwigClient("127.0.0.1:1") as client:
        for refused in (client.publish(name, b""), client.unsubscribe("t", name), client.close_subscription(name, "s")):
            with pytest.raises(error):
                await refused
        with pytest.raises(error):
            client.subscribe("t", name)
