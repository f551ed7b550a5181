"""Prove that messages can be read in lists, with a limit of time and by a function, and what is finished then."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress, Received, Subscription
from hedwig.errors import SubscriptionClosedError
from hedwig.model import SubscriberId, Topic
from tests.faults.support.waiting import until

ANN = SubscriberId(b"ann")
PATIENCE_S = 60.0


@pytest.fixture
async def client(own_hub: HubAddress) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=own_hub, deliveries_queued_max=10)) as made:
        yield made


async def publish(client: HedwigClient, topic: Topic, count: int) -> None:
    async for _ in client.publish_many(topic, (b"%d" % number for number in range(1, count + 1))):
        pass


def ids(batch: list[Received]) -> list[int]:
    return [message.seq_id.local for message in batch]


async def read(subscription: Subscription, count: int, messages_max: int, wait_s: float) -> list[list[int]]:
    read: list[list[int]] = []
    async with asyncio.timeout(PATIENCE_S):
        async for batch in subscription.batches(messages_max, wait_s):
            read.append(ids(batch))
            if sum(map(len, read)) >= count:
                return read
    return read


@pytest.mark.parametrize("messages_max", [1, 7, 1000])
@pytest.mark.parametrize("wait_s", [0.0, 0.2])
async def test_lists_have_all_messages_in_order(
    client: HedwigClient, topic: Topic, messages_max: int, wait_s: float
) -> None:
    async with client.subscribe(topic, ANN) as subscription:
        await publish(client, topic, 50)
        batches = await read(subscription, 50, messages_max, wait_s)
    assert [each for batch in batches for each in batch] == list(range(1, 51))
    assert max(map(len, batches)) <= messages_max
    if wait_s:
        assert len(batches) == -(-50 // messages_max), "it waits for more than the queue holds"


async def test_a_list_is_finished_as_a_whole(client: HedwigClient, topic: Topic) -> None:
    async with client.subscribe(topic, ANN) as subscription:
        await publish(client, topic, 6)
        batches = subscription.batches(3, PATIENCE_S)
        assert ids(await anext(batches)) == [1, 2, 3]
        assert ids(await anext(batches)) == [4, 5, 6]
        await batches.aclose()  # type: ignore[attr-defined]
        await subscription.close(last_is_finished=False)
    async with client.subscribe(topic, ANN) as subscription:
        assert await read(subscription, 3, 3, PATIENCE_S) == [[4, 5, 6]]
    async with client.subscribe(topic, ANN) as subscription:
        assert await subscription.receive(0.3) is None, "all are finished"


async def test_what_is_here_comes_before_the_end(client: HedwigClient, topic: Topic) -> None:
    async with client.subscribe(topic, ANN) as subscription:
        await publish(client, topic, 2)
        batches = subscription.batches(10, PATIENCE_S)
        waiting = asyncio.ensure_future(anext(batches))
        await until(
            lambda: subscription._handed_out is not None and subscription._handed_out.local == 2, "both are here"
        )
        taken = await client.subscribe(topic, ANN, force_attach=True)
        assert ids(await waiting) == [1, 2]
        with pytest.raises(SubscriptionClosedError):
            await anext(batches)
        await taken.close()


async def test_receive_ends_in_time_and_loses_nothing(client: HedwigClient, topic: Topic) -> None:
    async with client.subscribe(topic, ANN) as subscription:
        assert await subscription.receive(0.05) is None
        publishing = asyncio.create_task(publish(client, topic, 30))
        received: list[int] = []
        while len(received) < 30:
            if (message := await subscription.receive(0.001)) is not None:
                received.append(message.seq_id.local)
        assert received == list(range(1, 31))
        await publishing
    assert await subscription.receive(1.0) is None, "it was closed"
    assert [batch async for batch in subscription.batches(3)] == []


@pytest.mark.parametrize("auto_consume", [True, False])
async def test_a_function_gets_each_message(client: HedwigClient, topic: Topic, auto_consume: bool) -> None:
    received: list[Received] = []
    async with client.subscribe(topic, ANN, on_message=received.append, auto_consume=auto_consume) as subscription:
        await publish(client, topic, 30)
        await until(lambda: len(received) == 30, "all come")
        assert ids(received) == list(range(1, 31))
        if not auto_consume:
            await subscription.consume(received[19].seq_id)
    async with client.subscribe(topic, ANN) as subscription:
        assert (message := await subscription.receive(0.5)) is None or not auto_consume
        assert message is None or message.seq_id.local == 21


async def test_a_function_that_fails_ends_it(client: HedwigClient, topic: Topic) -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fail_at_third(message: Received) -> None:
        if message.body == b"3":
            raise ValueError("three")

    subscription = await client.subscribe(topic, ANN, on_message=fail_at_third)
    await publish(client, topic, 5)
    with pytest.raises(SubscriptionClosedError, match="three"):
        async with asyncio.timeout(PATIENCE_S):
            await anext(subscription)
    assert [str(context["exception"]) for context in told] == ["three"]
    await subscription.close()
    async with client.subscribe(topic, ANN) as again:
        assert await read(again, 3, 5, 0.5) == [[3, 4, 5]]
