"""Input that no client should send. It ends its channel or gets its answer, and no other client notices."""

import asyncio
import gc
import logging
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ServiceError
from hedwig.hub.connections.channel import Channel
from hedwig.hub.hub import Hub
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.model import MessageSeqId, RegionSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Action,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Message,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
    encode_request,
)
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.locked_metadata import locked
from tests.hub.support.wire_client import WireClient, eventually, raw_request

T, S = Topic(b"T"), SubscriberId(b"s")
N_MAX = HUB_FRAME_BYTES_MAX - 4
HTTP = {b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI "}


@pytest.fixture
async def neighbour(hub: Hub, connect: Connect) -> AsyncIterator[WireClient]:
    """A channel that works throughout. It receives the messages of its earlier subscription afterwards."""
    neighbour = await connect(hub)
    await neighbour.subscribed(b"neighbour", S)
    yield neighbour
    published = await neighbour.publish(b"neighbour", b"m")
    assert await neighbour.delivered(1) == [published]


def publish_of(size: int) -> bytes:
    """Return a request of exactly `size` bytes that publishes."""
    request = Request(topic=T, txn_id=1, action=Publish(Message(b"x" * (size - 100))))
    missing = size - len(encode_request(request))
    body = encode_request(Request(topic=T, txn_id=1, action=Publish(Message(b"x" * (size - 100 + missing)))))
    assert len(body) == size
    return body


async def test_the_largest_frame_is_taken(client: WireClient, neighbour: WireClient) -> None:
    assert N_MAX == 1258287
    await neighbour.subscribed(T, S)
    client.send_frame(publish_of(N_MAX))
    assert WireClient.published(await client.answer(1)) == 1
    assert len((await neighbour.delivery()).message.body) > N_MAX - 100


@pytest.mark.parametrize("length", [N_MAX + 1, 1 << 31, (1 << 32) - 1])
async def test_a_frame_beyond_the_limit_ends_the_channel(
    client: WireClient, neighbour: WireClient, length: int
) -> None:
    client.send_bytes(length.to_bytes(4, "big"))
    await client.closed_by_hub()


async def test_a_frame_one_byte_too_large_ends_the_channel_as_it_is_announced(
    client: WireClient, neighbour: WireClient
) -> None:
    client.send_frame(publish_of(N_MAX + 1))
    await client.closed_by_hub()
    assert await neighbour.publish(T, b"m") == 1, "nothing of it was stored"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xff" * 20, id="no protobuf"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
        pytest.param(b"", id="empty frame"),
        pytest.param(raw_request(type=pb.PUBLISH, txnId=1), id="no topic"),
        pytest.param(raw_request(topic=T, txnId=1), id="no type"),
        pytest.param(raw_request(topic=T, type=pb.PUBLISH), id="no txnId"),
        pytest.param(b"\x10\x00\x20\x01\x32\x01T", id="no protocolVersion"),
        pytest.param(b"\x08\x01\x10\x63\x20\x01\x32\x01T", id="unknown type"),
        pytest.param(b"\x08\x02\x10\x00\x20\x01\x32\x01T", id="unknown protocolVersion"),
        pytest.param(
            raw_request(topic=T, txnId=1, type=pb.PUBLISH, publishRequest=pb.PublishRequest()), id="no message"
        ),
        pytest.param(
            raw_request(topic=T, txnId=1, type=pb.PUBLISH, publishRequest=pb.PublishRequest(msg=pb.Message())),
            id="a message without body",
        ),
        pytest.param(
            raw_request(topic=T, txnId=1, type=pb.CONSUME, consumeRequest=pb.ConsumeRequest(subscriberId=S)),
            id="a consume without id",
        ),
        pytest.param(
            raw_request(topic=T, txnId=1, type=pb.SUBSCRIBE, subscribeRequest=pb.SubscribeRequest()),
            id="a subscribe without subscriber",
        ),
        pytest.param(
            raw_request(topic=T, txnId=1, type=pb.PUBLISH, unsubscribeRequest=pb.UnsubscribeRequest()),
            id="a part that lacks a field, though another was meant",
        ),
        pytest.param(b"\x0b" * 5000, id="groups without end"),
    ],
)
async def test_a_frame_that_is_no_request_ends_its_channel(
    client: WireClient, neighbour: WireClient, body: bytes
) -> None:
    client.send_frame(body)
    await client.closed_by_hub()
    assert client.received == []


@pytest.mark.parametrize(
    "kind",
    [
        pb.PUBLISH,
        pb.SUBSCRIBE,
        pb.CONSUME,
        pb.UNSUBSCRIBE,
        pb.START_DELIVERY,
        pb.STOP_DELIVERY,
        pb.CLOSESUBSCRIPTION,
    ],
)
async def test_a_request_without_its_part_is_answered(client: WireClient, neighbour: WireClient, kind: int) -> None:
    answer = await client.answer(client.send_raw(topic=T, type=kind))
    assert answer.status is StatusCode.MALFORMED_REQUEST
    assert answer.text
    await client.publish(T, b"m")


async def test_the_number_of_a_request_is_echoed_whatever_it_is(client: WireClient) -> None:
    for number in (0, 1 << 32, (1 << 64) - 1):
        client.send_raw(topic=T, type=pb.START_DELIVERY, txnId=number)
        assert (await client.answer(number)).status is StatusCode.MALFORMED_REQUEST
        message = pb.PublishRequest(msg=pb.Message(body=b"m"))
        client.send_raw(topic=T, type=pb.PUBLISH, txnId=number, publishRequest=message)
        await eventually(partial(_has_answers, client, number, 2), "the second answer")
        assert client.answers[number][1].status is StatusCode.SUCCESS


def _holds(hub: Hub, size: int) -> bool:
    return hub.frames.bytes == size


def _has_answers(client: WireClient, number: int, count: int) -> bool:
    return len(client.answers[number]) == count


async def test_good_requests_before_a_bad_frame_are_carried_out(
    hub: Hub, client: WireClient, neighbour: WireClient
) -> None:
    """This also holds if they arrive in one piece."""
    good = encode_request(Request(topic=T, txn_id=1, action=Publish(Message(b"good"))))
    framed = len(good).to_bytes(4, "big") + good
    await neighbour.subscribed(T, S)
    client.send_bytes(framed + framed + (N_MAX + 1).to_bytes(4, "big"))
    await client.closed_by_hub()
    assert await neighbour.delivered(2) == [1, 2]


async def test_frames_in_single_bytes(client: WireClient, neighbour: WireClient) -> None:
    body = encode_request(Request(topic=T, txn_id=5, action=Publish(Message(b"m"))))
    for byte in len(body).to_bytes(4, "big") + body:
        client.send_bytes(bytes((byte,)))
        await client.writer.drain()
        await neighbour.barrier()
    assert WireClient.published(await client.answer(5)) == 1


@pytest.mark.parametrize("sent", [b"", b"\0", b"\0\0\0\x14", b"\0\0\0\x14\x08\x01"])
async def test_a_channel_that_ends_inside_a_frame(
    hub: Hub, client: WireClient, neighbour: WireClient, sent: bytes
) -> None:
    await client.barrier()
    client.send_bytes(sent)
    client.writer.write_eof()
    await client.closed_by_hub()
    await eventually(lambda: len(hub.channels) == 1, "the hub let the channel go")


async def test_channels_without_a_byte(hub: Hub, connect: Connect, neighbour: WireClient) -> None:
    """The Java client opens and closes some channels, each time that it already has another connection."""
    for _ in range(50):
        client = await connect(hub)
        await client.close()
    await eventually(lambda: len(hub.channels) == 1, "the hub let them go")


async def test_a_channel_that_is_reset(hub: Hub, connect: Connect, neighbour: WireClient) -> None:
    client = await connect(hub)
    await client.subscribed(T, S)
    client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await client.close()
    await eventually(lambda: len(hub.channels) == 1, "the hub let the channel go")
    await neighbour.subscribed(T, S, mode=CreateOrAttach.ATTACH)


async def test_more_channels_than_the_hub_serves(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(channels_max=3)
    served = [await connect(hub) for _ in range(3)]
    for client in served:
        await client.barrier()
    refused = await connect(hub)
    await refused.closed_by_hub()
    await served[0].close()
    await eventually(lambda: len(hub.channels) == 2, "the hub let the channel go")
    await (await connect(hub)).publish(T, b"m")


async def test_many_unfinished_frames_do_not_fill_the_memory(start_hub: StartHub, connect: Connect) -> None:
    """Each frame is within the limit of one channel. Together they exceed the limit of the hub."""
    hub = await start_hub(receive_bytes_max=1_000_000)
    held = [await connect(hub) for _ in range(3)]
    for number, client in enumerate(held, 1):
        await client.barrier()
        client.send_bytes((400_000).to_bytes(4, "big") + bytes(299_996))
        await eventually(partial(_holds, hub, number * 300_000), "the hub holds the frame")
    small, straw = await connect(hub), await connect(hub)
    await small.barrier()
    straw.send_bytes((400_000).to_bytes(4, "big") + bytes(299_996))
    await held[0].closed_by_hub()
    await eventually(lambda: hub.frames.bytes == 900_000, "the hub let go of what stood still for longest")
    straw.send_bytes(bytes(1))
    await eventually(lambda: hub.frames.bytes == 900_001, "the hub reads the newcomer on")
    await small.publish(T, b"m")
    for client in (*held, straw):
        await client.close()
    await eventually(lambda: hub.frames.bytes == 0, "the hub let go of all")
    await small.publish(T, b"x" * 500_000)
    assert hub.frames.bytes == 0


async def test_a_client_that_never_reads_its_answers_is_not_read(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(channel_unsent_bytes=10_000)
    client, neighbour = await connect(hub), await connect(hub)
    await client.barrier()
    client.stop_reading()
    frame = raw_request(topic=b"x" * 100, type=pb.START_DELIVERY, txnId=1)
    framed = len(frame).to_bytes(4, "big") + frame
    for _ in range(200):
        client.send_bytes(framed * 1000)
        await neighbour.barrier()
    (channel,) = [each for each in hub.channels if each._is_paused]
    assert channel._transport is not None
    assert channel._transport.get_write_buffer_size() < 1_000_000
    await neighbour.publish(T, b"m")


async def test_unanswered_requests_stop_the_reading(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(channel_requests_max=20)
    client, neighbour = await connect(hub), await connect(hub)
    with locked(hub):
        sent = [client.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(20)]
        await neighbour.barrier()
        later = client.send(T, Publish(Message(b"m")))
        malformed = client.send_raw(topic=T, type=pb.START_DELIVERY)
        for _ in range(20):
            await neighbour.barrier()
        assert malformed not in client.answers, "it is not even read"
    assert {(await client.answer(txn_id)).status for txn_id in (*sent, later)} == {StatusCode.SUCCESS}
    await client.answer(malformed)


async def test_requests_behind_answers_that_nobody_reads_do_not_outlive_their_channel(
    start_hub: StartHub, connect: Connect
) -> None:
    """Otherwise a shutdown would wait for them until the connection is cut."""
    hub = await start_hub(channel_unsent_bytes=10_000)
    client, publisher = await connect(hub), await connect(hub)
    await client.subscribed(T, S)
    (served,) = [each for each in hub.channels if each.subscriptions]
    client.stop_reading()
    await publisher.publish_many(T, *[b"x" * 100_000] * 100)
    for number in range(20):
        client.send(b"T%d" % number, Subscribe(subscriber=S))
    await eventually(lambda: len(hub.requests.tasks) > 0, "requests wait")
    served.close()
    await eventually(lambda: not hub.requests.tasks, "they are over")
    assert served in hub.slots, "long before the peer is cut off"


# -------------------------------------------------------------------------------------------------- at random

SEQ_IDS = st.builds(
    MessageSeqId,
    st.integers(0, 2**64 - 1),
    st.lists(st.builds(RegionSeqId, st.binary(max_size=3), st.integers(0, 2**64 - 1)), max_size=2).map(tuple),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PREFERENCES = st.builds(
    SubscriptionPreferences,
    options=st.dictionaries(TEXTS, st.binary(max_size=4), max_size=2),
    message_bound=st.none() | st.integers(0, 2**32 - 1),
    message_filter=st.none() | TEXTS,
    message_window_size=st.none() | st.integers(0, 3),
)
SUBSCRIBERS = st.sampled_from([b"s", b"t", b"", b"__r"]).map(SubscriberId)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Publish, st.builds(Message, st.binary(max_size=40), properties=st.dictionaries(TEXTS, st.binary()))),
    st.builds(
        Subscribe,
        subscriber=SUBSCRIBERS,
        mode=st.sampled_from(CreateOrAttach),
        preferences=PREFERENCES,
        force_attach=st.booleans(),
    ),
    st.builds(Consume, subscriber=SUBSCRIBERS, seq_id=SEQ_IDS),
    st.builds(Unsubscribe, SUBSCRIBERS),
    st.builds(CloseSubscription, SUBSCRIBERS),
)
BODIES = st.builds(
    Request,
    topic=st.sampled_from([b"T", b"U", b"live.T"]).map(Topic),
    txn_id=st.integers(0, 2**64 - 1),
    action=ACTIONS,
    should_claim=st.booleans(),
).map(encode_request)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a request that was cut, changed, or added to."""
    body = bytearray(draw(BODIES))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, max(0, len(body) - 1)))
        match draw(st.sampled_from(["change", "insert", "cut", "repeat"])):
            case "change" if body:
                body[position] = draw(st.integers(0, 255))
            case "insert":
                body[position:position] = draw(st.binary(max_size=5))
            case "cut":
                del body[position : position + draw(st.integers(1, 5))]
            case _:
                body += body[position:]
    return bytes(body)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


STREAMS = st.lists(
    st.one_of(BODIES.map(framed), damaged().map(framed), st.binary(max_size=30)), min_size=1, max_size=8
).map(b"".join)


def test_whatever_arrives_a_neighbour_is_served(hub_options: HubOptions, caplog: pytest.LogCaptureFixture) -> None:
    """Streams of good and damaged requests against one living hub: no crash, no hang, no growth without bound."""
    caplog.set_level(
        logging.ERROR, "hedwig.hub.connections.channel"
    )  # The captured log records hold errors, and with them channels, in memory.
    options = replace(hub_options, non_durable_topics=("live.*",), ledger_messages_max=5)
    with asyncio.Runner() as runner:
        errors: list[dict[str, object]] = []
        runner.get_loop().set_exception_handler(lambda _, context: errors.append(context))
        hub = runner.run(start_hub(Configuration(options)))
        neighbour = runner.run(_neighbour(hub))

        @settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(STREAMS)
        def feed(stream: bytes) -> None:
            assume(stream[:4] not in HTTP)  # The hub answers such a stream with something that is no frame.
            runner.run(_feed(hub, neighbour, stream))
            assert errors == []

        try:
            feed()
            # The disk writes of the last requests may still be under way.
            runner.run(eventually(lambda: _held(hub) == 0, "nothing is left of the channels that ended"))
        finally:
            runner.run(neighbour.close())
            runner.run(hub.close())
        assert errors == []


def _held(hub: Hub) -> int:
    """Return what ended channels left in memory. Only the neighbour's channel is open."""
    (channel,) = hub.channels
    gc.collect()
    left = sum(isinstance(each, Channel) and each is not channel for each in gc.get_objects())
    attached = sum(len(topic.subscriptions or ()) for topic in hub.topics)
    return left + hub.requests.unanswered_bytes + (attached - 1)


async def _neighbour(hub: Hub) -> WireClient:
    neighbour = await WireClient.connect(hub.port)
    await neighbour.subscribed(b"neighbour", S)
    return neighbour


async def _feed(hub: Hub, neighbour: WireClient, stream: bytes) -> None:
    async with await WireClient.connect(hub.port) as client:
        client.send_bytes(stream)
        client.writer.write_eof()
        await client.closed_by_hub()
    published = await neighbour.publish(b"neighbour", b"m")
    assert await neighbour.delivered(1) == [published]
    await eventually(lambda: len(hub.channels) == 1, "the hub let the channel go")
    neighbour.received.clear()
    neighbour.answers.clear()


# --------------------------------------------------------------------------------------------------- the wrong port


async def test_http_client_is_told_where_http_is_spoken(hub: Hub, neighbour: WireClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: hub\r\n\r\n")
    async with asyncio.timeout(20):
        answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith("HTTP/1.1 400 Bad Request\r\n")
    assert "admin_port" in answer


async def test_client_at_an_http_port_is_told_what_it_met(start_hub: StartHub) -> None:
    hub = await start_hub(admin_port=0)
    address = HubAddress.parse(f"127.0.0.1:{hub.admin_port}")
    async with HedwigClient(ClientOptions(hub=address)) as client:
        with pytest.raises(ServiceError, match="this is an HTTP server's port, such as that of a hub's admin endpoint"):
            await client.publish(T, b"m")
