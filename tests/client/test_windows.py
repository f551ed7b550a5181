"""Prove that all messages arrive through a window of any size: the client reports in time what it consumed."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from hedwig.client import BlockingClient, BlockingSubscription, ClientOptions, HedwigClient, HubAddress, Subscription
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from tests.hub.support.running import RunningHub

ANN = SubscriberId(b"ann")
PATIENCE_S = 60.0
MESSAGES = 30


@pytest.fixture(scope="module")
def narrow_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    """Run a hub whose window is smaller than the number of messages after which a client sends a consume."""
    with RunningHub(tmp_path_factory.mktemp("narrow-hub"), "message_window=3") as hub:
        yield HubAddress.parse(hub.address)


@pytest.fixture(params=[1, 2, 4, 5, 7, "the hub's own"])
def window(request: pytest.FixtureRequest) -> int | None:
    """Return the window that the subscription asks for."""
    return request.param if isinstance(request.param, int) else None


@pytest.fixture
def hub(window: int | None, request: pytest.FixtureRequest) -> HubAddress:
    address: HubAddress = request.getfixturevalue("narrow_hub" if window is None else "own_hub")
    return address


@pytest.fixture(params=[False, True], ids=["a channel each", "shared channels"])
async def client(hub: HubAddress, request: pytest.FixtureRequest) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=hub, share_channels=request.param)) as made:
        yield made


def _ids() -> list[int]:
    return list(range(1, MESSAGES + 1))


async def test_all_messages_come(client: HedwigClient, window: int | None, topic: Topic) -> None:
    preferences = SubscriptionPreferences(message_window_size=window)
    async with client.subscribe(topic, ANN, preferences=preferences) as subscription, asyncio.timeout(PATIENCE_S):
        assert [each.local async for each in client.publish_many(topic, [b"message"] * MESSAGES)] == _ids()
        assert [await _next_id(subscription) for _ in range(MESSAGES)] == _ids()


async def test_a_wait_that_is_given_up_is_told_of_all_the_same(
    client: HedwigClient, window: int | None, topic: Topic
) -> None:
    preferences = SubscriptionPreferences(message_window_size=window)
    ids: list[int] = []
    async with client.subscribe(topic, ANN, preferences=preferences) as subscription, asyncio.timeout(PATIENCE_S):
        assert [each.local async for each in client.publish_many(topic, [b"message"] * MESSAGES)] == _ids()
        while len(ids) < MESSAGES:
            asking = asyncio.create_task(_next_id(subscription))
            for _ in range(len(ids) % 3):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            ids.append(await _next_id(subscription) if asking.cancelled() else asking.result())
    assert ids == _ids()


async def _next_id(subscription: Subscription) -> int:
    seq_id = (await anext(subscription)).seq_id
    assert seq_id is not None
    return seq_id.local


def test_all_messages_come_to_the_blocking_client(hub: HubAddress, window: int | None, topic: Topic) -> None:
    preferences = SubscriptionPreferences(message_window_size=window)
    with BlockingClient(ClientOptions(hub=hub)) as client, client.subscribe(topic, ANN, preferences=preferences) as ann:
        assert [each.local for each in client.publish_many(topic, [b"message"] * MESSAGES)] == _ids()
        assert [_receive_id(ann) for _ in range(MESSAGES)] == _ids()


def _receive_id(subscription: BlockingSubscription) -> int | None:
    message = subscription.receive(PATIENCE_S)
    return None if message is None or message.seq_id is None else message.seq_id.local
