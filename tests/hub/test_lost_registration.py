"""A hub without a registration sends nothing more for its topics, not even bytes that a connection already has."""

from hedwig.model import SubscriberId, Topic
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.wire_client import eventually

T, S = Topic(b"T"), SubscriberId(b"s")
_BODY = b"x" * (64 << 10)
_COUNT = 400
"""These are 25 MiB in all, more than the kernel's buffers hold."""


async def test_what_a_client_has_not_taken_by_then_is_not_sent_any_more(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub()
    client, publisher = await connect(hub), await connect(hub)
    await client.subscribed(T, S)
    client.stop_reading()
    for _ in range(_COUNT // 50):
        await publisher.publish_many(T, *[_BODY] * 50)
    (channel,) = [each for each in hub.channels if each.subscriptions]
    transport = channel._transport
    assert transport is not None
    await eventually(lambda: transport.get_write_buffer_size() > 0, "the kernel takes no more of it")
    (subscription,) = channel.subscriptions.values()
    assert subscription.cursor is not None
    handed_over = subscription.cursor.next_id - 1
    await hub.lost("the test says so")
    client.read_on()
    await client.closed_by_hub()
    assert 0 < len(client.undelivered) < handed_over
