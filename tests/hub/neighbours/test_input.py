"""Prove that bytes that are no requests, and clients that read no answers, hold up no other client."""

import asyncio
import random
import struct
from collections import Counter
from contextlib import AsyncExitStack

from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import HUB_FRAME_BYTES_MAX, Answer, Message, Publish, Request, Subscribe, encode_frame, encode_request
from tests.hub.neighbours.support.clients import BOUNDLESS, KIB, open_channel
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel


async def test_random_bytes_end_their_own_connection_only(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    source = random.Random(4080)
    frame = encode_frame(
        encode_request(Request(topic=Topic(b"t"), txn_id=1, action=Publish(Message(bytes(100))))), HUB_FRAME_BYTES_MAX
    )
    ended = Counter[str]()
    for number in range(200):
        channel = await open_channel(opened, hub)
        kind = ("noise", "length", "garbage", "bent")[number % 4]
        data = source.randbytes(source.randrange(1, 5000))
        if kind == "length":  # The length is more than a frame may have.
            data = struct.pack(">I", source.randrange(HUB_FRAME_BYTES_MAX, 1 << 32)) + data
        elif kind == "garbage":  # The frame is whole, but no request.
            data = struct.pack(">I", len(data) + 1) + b"\xff" + data
        elif kind == "bent":
            bent = bytearray(frame)
            for _ in range(3):
                bent[source.randrange(4, len(bent))] = source.randrange(256)
            data = bytes(bent)
        try:
            await channel.send_bytes(data)
            channel.writer.write_eof()
            heard = await channel.receive()
        except OSError:
            ended[kind] += 1
        else:
            assert kind == "bent", f"an answer to {kind}: {heard}"
        if number % 20 == 0:
            await good.exchange(2)
    assert ended["length"] == ended["garbage"] == ended["noise"] == 50
    assert ended["bent"] > 0


async def test_client_that_never_reads_its_answers_is_not_read_either(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """The client sends until the hub stops reading. Then it reads, and receives exactly one answer to each request."""
    count, padding = 2000, bytes(32 * KIB)
    preferences = SubscriptionPreferences(options={"big": bytes(16 * KIB)})
    channel = await open_channel(opened, hub, receive_bytes=4 * KIB)
    first = Subscribe(subscriber=SubscriberId(b"s"), preferences=preferences)
    assert isinstance(answer := await _asked(channel, first), Answer)
    assert answer.preferences == preferences
    sent = 0

    async def send() -> None:
        nonlocal sent
        again = Subscribe(subscriber=SubscriberId(b"s"))
        for number in range(count):
            # The requests and their answers are large, so the kernel's buffers for both soon fill up.
            request = Request(topic=Topic(b"t"), txn_id=number + 1, action=again, tried=(padding,))
            channel.writer.write(encode_frame(encode_request(request), HUB_FRAME_BYTES_MAX))
            await channel.writer.drain()
            sent += 1

    sending = asyncio.create_task(send())
    before = -1
    while sent > before or not sent:
        before = sent
        await good.exchange(50)
    assert sent < count, "the hub takes requests without end"
    answered = {
        answer.txn_id for answer in [await channel.receive() for _ in range(count)] if isinstance(answer, Answer)
    }
    assert answered == set(range(1, count + 1))
    await sending


async def test_large_answers_wait_in_small_requests_for_clients_that_do_not_read(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """Each of ten clients asks for 64 MiB with 30 KiB, and reads nothing. Then two of them read all of it."""
    count = 1000
    preferences = SubscriptionPreferences(options={"big": bytes(64 * KIB)})
    assert 10 * count * 64 * KIB >= BOUNDLESS
    deaf = [await open_channel(opened, hub, receive_bytes=4 * KIB) for _ in range(10)]
    for number, channel in enumerate(deaf):
        subscriber = SubscriberId(b"s-%d" % number)
        await _asked(channel, Subscribe(subscriber=subscriber, preferences=preferences))
        again = Subscribe(subscriber=subscriber)
        frames = [
            encode_frame(encode_request(Request(topic=Topic(b"t"), txn_id=each, action=again)), HUB_FRAME_BYTES_MAX)
            for each in range(1, count + 1)
        ]
        await channel.send_bytes(b"".join(frames))
    await good.exchange(50)
    for channel in deaf[:2]:
        heard = [await channel.receive() for _ in range(count)]
        # The requests concern the same subscription, so the hub answers them in order.
        assert [each.txn_id for each in heard if isinstance(each, Answer)] == list(range(1, count + 1))


async def _asked(channel: WireChannel, action: Subscribe) -> Answer:
    return await channel.answer(await channel.send(b"t", action))
