"""Our client against the original Java hub: publishing, the modes of subscribing, delivery, consuming, reconnecting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from hedwig.client import ClientOptions, CreateOrAttach, HedwigClient, HubAddress, Message, Subscription
from hedwig.errors import (
    ClientAlreadySubscribedError,
    ClientNotSubscribedError,
    InvalidMessageFilterError,
    LocalProtocolError,
    NameLimitError,
    SubscriptionClosedError,
    TopicBusyError,
    UncertainAnswerError,
)
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from tests.support.servers import RunningServers

ANN, BOB = SubscriberId(b"ann"), SubscriberId(b"bob")
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def hub(servers: RunningServers) -> HubAddress:
    return HubAddress.parse(servers.address("java-hedwig"))


@pytest.fixture(params=[False, True], ids=["a channel each", "shared channels"])
async def client(hub: HubAddress, request: pytest.FixtureRequest) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=hub, share_channels=request.param)) as made:
        yield made


@pytest.fixture
async def other(hub: HubAddress) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=hub)) as made:
        yield made


async def take(subscription: Subscription, number: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await anext(subscription)).body for _ in range(number)]


def bodies(start: int, stop: int) -> list[bytes]:
    return [b"message %d" % number for number in range(start, stop)]


async def test_messages_arrive_in_order_under_the_ids_that_were_told(client: HedwigClient, topic: Topic) -> None:
    subscription = await client.subscribe(topic, ANN)
    ids = [seq_id.local async for seq_id in client.publish_many(topic, bodies(0, 40))]
    assert ids == list(range(1, 41))
    async with asyncio.timeout(PATIENCE_S):
        messages = [await anext(subscription) for _ in range(40)]
    assert [message.body for message in messages] == bodies(0, 40)
    assert [message.seq_id.local for message in messages] == ids


async def test_a_message_keeps_its_properties(client: HedwigClient, topic: Topic) -> None:
    subscription = await client.subscribe(topic, ANN)
    sent = Message(b"body", properties={"lang": b"de"}, message_type="greeting")
    await client.publish(topic, sent)
    async with asyncio.timeout(PATIENCE_S):
        message = await anext(subscription)
    assert (message.body, message.properties, message.message_type) == (b"body", {"lang": b"de"}, "greeting")
    assert message.source_region == b"standalone"


async def test_each_mode_of_subscribing(client: HedwigClient, topic: Topic) -> None:
    with pytest.raises(ClientNotSubscribedError):
        await client.subscribe(topic, ANN, mode=CreateOrAttach.ATTACH)
    created = await client.subscribe(topic, ANN, mode=CreateOrAttach.CREATE)
    await created.close()
    with pytest.raises(ClientAlreadySubscribedError):
        await client.subscribe(topic, ANN, mode=CreateOrAttach.CREATE)
    for mode in (CreateOrAttach.ATTACH, CreateOrAttach.CREATE_OR_ATTACH):
        attached = await client.subscribe(topic, ANN, mode=mode)
        await attached.close()


async def test_delivery_goes_on_where_consuming_ended(client: HedwigClient, topic: Topic) -> None:
    subscription = await client.subscribe(topic, ANN)
    [_ async for _ in client.publish_many(topic, bodies(0, 12))]
    assert await take(subscription, 7) == bodies(0, 7)
    await subscription.close()
    again = await client.subscribe(topic, ANN, mode=CreateOrAttach.ATTACH)
    assert await take(again, 5) == bodies(7, 12), "closing tells the hub of the last message too"


async def test_without_automatic_consuming_the_application_decides(client: HedwigClient, topic: Topic) -> None:
    subscription = await client.subscribe(topic, ANN, auto_consume=False)
    [_ async for _ in client.publish_many(topic, bodies(0, 10))]
    async with asyncio.timeout(PATIENCE_S):
        third = [await anext(subscription) for _ in range(10)][2]
    assert third.seq_id is not None
    await subscription.consume(third.seq_id)
    await subscription.close()
    again = await client.subscribe(topic, ANN)
    assert await take(again, 7) == bodies(3, 10)


async def test_preferences_come_back_merged(client: HedwigClient, topic: Topic) -> None:
    first = SubscriptionPreferences(options={"a": b"1"}, message_window_size=5)
    subscription = await client.subscribe(topic, ANN, preferences=first)
    assert subscription.preferences == first
    await subscription.close()
    again = await client.subscribe(topic, ANN, preferences=SubscriptionPreferences(options={"b": b"2"}))
    assert again.preferences == SubscriptionPreferences(options={"a": b"1", "b": b"2"}, message_window_size=5)


async def test_a_window_holds_delivery_until_messages_are_consumed(client: HedwigClient, topic: Topic) -> None:
    window = SubscriptionPreferences(message_window_size=6)
    subscription = await client.subscribe(topic, ANN, preferences=window)
    [_ async for _ in client.publish_many(topic, bodies(0, 30))]
    assert await take(subscription, 30) == bodies(0, 30)


async def test_an_open_subscription_is_busy_for_others_unless_they_force_it(
    client: HedwigClient, other: HedwigClient, topic: Topic
) -> None:
    mine = await client.subscribe(topic, ANN)
    with pytest.raises(TopicBusyError):
        await other.subscribe(topic, ANN)
    theirs = await other.subscribe(topic, ANN, force_attach=True)
    with pytest.raises(SubscriptionClosedError):
        await take(mine, 1)
    await client.publish(topic, b"for them")
    assert await take(theirs, 1) == [b"for them"]


async def test_closing_what_was_taken_over_leaves_the_other_one_served(
    client: HedwigClient, other: HedwigClient, topic: Topic
) -> None:
    mine = await client.subscribe(topic, ANN)
    theirs = await other.subscribe(topic, ANN, force_attach=True)
    with pytest.raises(SubscriptionClosedError):
        await take(mine, 1)
    await mine.close()
    await client.publish(topic, b"for them")
    assert await take(theirs, 1) == [b"for them"]


async def test_unsubscribing_forgets_what_was_not_delivered(client: HedwigClient, topic: Topic) -> None:
    await client.subscribe(topic, ANN)
    await client.unsubscribe(topic, ANN)
    with pytest.raises(ClientNotSubscribedError):
        await client.unsubscribe(topic, ANN)
    await client.publish(topic, b"nobody hears")
    again = await client.subscribe(topic, ANN)
    await client.publish(topic, b"heard")
    assert await take(again, 1) == [b"heard"]


async def test_an_unknown_filter_is_refused(client: HedwigClient, topic: Topic) -> None:
    with pytest.raises(InvalidMessageFilterError):
        await client.subscribe(topic, ANN, preferences=SubscriptionPreferences(message_filter="no.such.Filter"))


async def test_closing_ends_the_iteration(client: HedwigClient, topic: Topic) -> None:
    subscription = await client.subscribe(topic, ANN)
    waiting = asyncio.create_task(anext(subscription, None))
    await asyncio.sleep(0)
    await subscription.close()
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting is None
    await subscription.close()


async def test_a_slow_application_gets_everything_in_the_end(hub: HubAddress, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=hub, deliveries_queued_max=4)) as client:
        slow = await client.subscribe(topic, ANN)
        quick = await client.subscribe(topic, BOB)
        [_ async for _ in client.publish_many(topic, bodies(0, 60))]
        assert await take(quick, 60) == bodies(0, 60)
        assert await take(slow, 60) == bodies(0, 60)


async def test_subscriptions_survive_the_death_of_the_hub(servers: RunningServers, topic: Topic) -> None:
    hub = HubAddress.parse(servers.address("java-hedwig"))
    async with HedwigClient(ClientOptions(hub=hub, reconnect_pause_max_s=0.5)) as client:
        subscription = await client.subscribe(topic, ANN)
        await client.publish(topic, b"before")
        assert await take(subscription, 1) == [b"before"]
        await asyncio.to_thread(servers.launcher.kill, "java-hedwig")
        meanwhile = asyncio.create_task(client.publish(topic, b"meanwhile"))
        await asyncio.to_thread(servers.launcher.start, "java-hedwig")
        async with asyncio.timeout(PATIENCE_S):
            # The client may send once more before it learns that the connection has ended. It gets no answer then.
            with suppress(UncertainAnswerError):
                await meanwhile
            await client.publish(topic, b"after")
            while (received := await take(subscription, 1)) == [b"meanwhile"]:
                pass
            assert received == [b"after"]


async def test_what_cannot_be_sent_is_refused_here(client: HedwigClient, topic: Topic) -> None:
    with pytest.raises(NameLimitError):
        await client.publish(Topic(b""), b"body")
    with pytest.raises(NameLimitError):
        await client.subscribe(topic, SubscriberId(bytes(8193)))
    with pytest.raises(LocalProtocolError):
        await client.publish(topic, bytes(1_258_291))
    assert (await client.publish(topic, b"still usable")).local == 1
