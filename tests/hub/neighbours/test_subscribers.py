"""Prove that subscribers that read slowly, never consume, or vanish hold up no other client."""

import asyncio
from contextlib import AsyncExitStack

from hedwig.model import SubscriberId
from hedwig.status import StatusCode
from hedwig.wire import Answer, Subscribe
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.neighbours.support.clients import BOUNDLESS, KIB, attach, flood, open_channel, received_ids
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel
from tests.hub.support.wire_client import raw_request


async def test_subscribers_that_read_slowly_hold_up_nobody_and_get_everything_in_the_end(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """Ten of them are owed 32 MiB each, which the hub must not keep for any of them."""
    count, size = 512, 64 * KIB
    assert 10 * count * size >= BOUNDLESS
    slow = [await open_channel(opened, hub, receive_bytes=4 * KIB) for _ in range(10)]
    for number, channel in enumerate(slow):
        await attach(channel, b"busy", b"slow-%d" % number)
    quick = await open_channel(opened, hub)
    await attach(quick, b"busy", b"quick")
    publisher = await open_channel(opened, hub)
    async with asyncio.TaskGroup() as group:
        group.create_task(flood(publisher, b"busy", size, count))
        got = group.create_task(received_ids(quick, count))
        for channel in slow:
            assert await received_ids(channel, 2) == [1, 2]
        await good.exchange(20)
    assert got.result() == list(range(1, count + 1))
    for channel in slow[:2]:
        assert await received_ids(channel, count - 2) == list(range(3, count + 1))


async def test_subscribers_that_never_consume_hold_up_nobody(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """With a window they receive that many messages, and without one all. A subscriber that returns begins again."""
    count, window = 200, 10
    with_window = [await open_channel(opened, hub) for _ in range(20)]
    without = [await open_channel(opened, hub) for _ in range(20)]
    for number, (one, other) in enumerate(zip(with_window, without, strict=True)):
        await attach(one, b"busy", b"window-%d" % number, window)
        await attach(other, b"busy", b"none-%d" % number)
    await flood(await open_channel(opened, hub), b"busy", 2 * KIB, count)
    await good.exchange(20)
    for channel in without:
        assert await received_ids(channel, count) == list(range(1, count + 1))
    for number, channel in enumerate(with_window):
        assert await received_ids(channel, window) == list(range(1, window + 1))
        # The answer to the close is the next response, and the last.
        await channel.close_subscription(b"busy", b"window-%d" % number)
        assert isinstance(await channel.receive(), Answer)
        await attach(channel, b"busy", b"window-%d" % number, 0)
        assert await received_ids(channel, count) == list(range(1, count + 1))


async def test_subscriber_that_vanishes_in_the_middle_of_deliveries_can_come_back_at_once(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    await attach(await open_channel(opened, hub), b"busy", b"s")
    await flood(await open_channel(opened, hub), b"busy", 16 * KIB, 200)
    for _ in range(20):
        channel = await WireChannel.open(hub.port, receive_bytes=4 * KIB)
        txn_id = await channel.send(b"busy", Subscribe(subscriber=SubscriberId(b"s"), force_attach=True))
        assert (await channel.answer(txn_id)).status is StatusCode.SUCCESS
        assert await received_ids(channel, 3) == [1, 2, 3]
        channel.abort()
    await good.exchange(10)


async def test_consumes_with_positions_in_any_number_of_regions_are_refused_and_not_kept(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """Each subscription in memory keeps the positions in other regions that its pointer has."""
    subscribers = [b"s-%d" % number for number in range(300)]
    channel = await open_channel(opened, hub)
    for subscriber in subscribers:
        await attach(channel, b"busy", subscriber)
    await flood(await open_channel(opened, hub), b"busy", 10, 1)
    for _ in subscribers:
        assert await received_ids(channel, 1) == [1]
    consume = pb.ConsumeRequest(subscriberId=b"s", msgId=pb.MessageSeqId(localComponent=1))
    for number in range(3_000):
        consume.msgId.remoteComponents.add(region=b"%0250d" % number, seqId=1)
    assert consume.ByteSize() > 600 * KIB
    for subscriber in subscribers:
        consume.subscriberId = subscriber
        body = raw_request(topic=b"busy", txnId=channel.next_txn_id(), type=pb.CONSUME, consumeRequest=consume)
        channel.write_frame(body)
        heard = await channel.receive()
        assert isinstance(heard, Answer)
        assert heard.status is StatusCode.MALFORMED_REQUEST
    await good.exchange(20)
