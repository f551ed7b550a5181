"""Topics that are not durable, over the wire."""

from hedwig.hub.hub import Hub
from hedwig.model import SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import CreateOrAttach, Message, Publish
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.topic_records import S
from tests.hub.support.wire_client import eventually


async def test_a_non_durable_topic_delivers_to_who_is_there_and_keeps_nothing(fleeting: Hub, connect: Connect) -> None:
    client, other = await connect(fleeting), await connect(fleeting)
    assert await client.publish(b"live.1", b"unheard") == 1
    await client.subscribed(b"live.1", S)
    await other.subscribed(b"live.1", b"other")
    assert await client.publish_many(b"live.1", b"2", b"3") == [2, 3]
    assert await client.delivered(2) == [2, 3]
    assert await other.delivered(2) == [2, 3]
    assert (await fleeting.ledgers.stats()).ledgers == 0
    assert await fleeting.metadata.subscriptions.read(Topic(b"live.1"), S) is None
    assert await fleeting.metadata.persistence.read(Topic(b"live.1")) is None
    assert await client.publish(b"lively", b"m") == 1
    assert (await fleeting.ledgers.stats()).ledgers == 1, "no pattern matches this one"


async def test_a_non_durable_subscription_ends_with_its_channel(fleeting: Hub, connect: Connect) -> None:
    client, other = await connect(fleeting), await connect(fleeting)
    assert (await client.subscribe(b"live.1", S, mode=CreateOrAttach.ATTACH)).status is StatusCode.CLIENT_NOT_SUBSCRIBED
    await client.subscribed(b"live.1", S, mode=CreateOrAttach.CREATE)
    assert (await other.subscribe(b"live.1", S)).status is StatusCode.TOPIC_BUSY
    await client.close()
    await eventually(lambda: len(fleeting.channels) == 1, "the hub saw the end of the channel")
    await other.subscribed(b"live.1", S, mode=CreateOrAttach.CREATE)
    await other.publish(b"live.1", b"m")
    assert await other.delivered(1) == [1]
    other.consume(b"live.1", S, 1)
    assert (await other.unsubscribe(b"live.1", S)).status is StatusCode.SUCCESS
    assert (await other.unsubscribe(b"live.1", S)).status is StatusCode.CLIENT_NOT_SUBSCRIBED


async def test_publishing_to_nobody_can_be_refused(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(non_durable_topics=("nobody",), non_durable_refuses_nobody=True)
    client = await connect(hub)
    assert (await client.request(b"nobody", Publish(Message(b"m")))).status is StatusCode.NO_SUCH_TOPIC
    await client.subscribed(b"nobody", S)
    assert await client.publish(b"nobody", b"m") == 1
    await client.close_subscription(b"nobody", S)
    assert (await client.request(b"nobody", Publish(Message(b"m")))).status is StatusCode.NO_SUCH_TOPIC
    assert await client.publish(b"durable", b"m") == 1


async def test_a_slow_subscriber_of_a_non_durable_topic_misses_messages_and_holds_no_memory(
    fleeting: Hub, connect: Connect
) -> None:
    client = await connect(fleeting)
    await client.subscribed(b"live.1", S, preferences=SubscriptionPreferences(message_window_size=1))
    await client.publish_many(b"live.1", *[b"x" * 1000] * 50)
    assert await client.delivered(1) == [1]
    assert fleeting.tails.bytes <= 10_000
    client.consume(b"live.1", S, 1)
    (following,) = await client.delivered(1)
    assert 40 < following <= 50
    client.consume(b"live.1", S, following)
    assert await client.delivered(1) == [following + 1]
