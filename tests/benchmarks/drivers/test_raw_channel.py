"""Prove that the raw driver sends what the codec would, and parses the stream however it is cut."""

import asyncio

import pytest

from hedwig.benchmarks.drivers.hub.raw_channel import RawChannel
from hedwig.benchmarks.drivers.hub.raw_frames import (
    MARK,
    NUMBER,
    SLOT_BASE,
    PublishFrames,
    close_frame,
    slot_bytes,
    slot_of,
    subscribe_frame,
)
from hedwig.benchmarks.load.workloads import Workload, subscriber_name, topic_name
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Answer,
    CloseSubscription,
    Consume,
    Delivery,
    FrameDecoder,
    Message,
    Publish,
    Request,
    Response,
    Subscribe,
    decode_request,
    encode_frame,
    encode_response,
)


class Noted:
    """Records what a channel reports."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str | None]] = []
        self.deliveries: list[int] = []
        self.is_lost = False

    def answered(self, number: int, error: str | None) -> None:
        self.answers.append((number, error))

    def delivered(self, number: int) -> None:
        self.deliveries.append(number)

    def refused(self, number: int) -> None:
        raise AssertionError(f"a channel tries nothing again, but did {number}")

    def lost(self) -> None:
        self.is_lost = True


class Written(asyncio.Transport):
    """Keeps the bytes written."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += bytes(data)

    def close(self) -> None:
        self.data = b""

    def requests(self) -> list[Request]:
        bodies = FrameDecoder(HUB_FRAME_BYTES_MAX).receive(self.data)
        self.data = b""
        return [decode_request(body) for body in bodies]


def _frames(*responses: Response) -> bytes:
    return b"".join(encode_frame(encode_response(response), 1 << 20) for response in responses)


async def _channel(consume_every: int = 0) -> tuple[RawChannel, Noted, Written]:
    noted, written = Noted(), Written()
    channel = RawChannel(asyncio.get_running_loop(), noted, consume_every=consume_every)
    channel.connection_made(written)
    return channel, noted, written


async def _turn() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("slot", [0, 1, 127, 128, 16_383, 16_384, 2_000_000])
def test_a_slot_is_found_again(slot: int) -> None:
    data = b"\0" + slot_bytes(slot) + b"\0"
    assert slot_of(data, 1) == slot


@pytest.mark.parametrize("size", [16, 100, 1024, 100_000])
async def test_published_frames_are_what_the_codec_makes(size: int) -> None:
    channel, _, written = await _channel()
    frames = PublishFrames(Workload(name="publish", message_bytes=size))
    channel.publish(70_000, *frames.parts(7))
    channel.publish(70_001, *frames.parts(8))
    await _turn()
    first, second = written.requests()
    assert (first.topic, second.topic) == (topic_name("bench", 7), topic_name("bench", 8))
    assert (first.txn_id, second.txn_id) == (SLOT_BASE, SLOT_BASE + 1)
    assert isinstance(first.action, Publish)
    assert isinstance(second.action, Publish)
    assert len(first.action.message.body) == size
    assert first.action.message.body.startswith(MARK + NUMBER.pack(70_000))
    assert second.action.message.body.startswith(MARK + NUMBER.pack(70_001))
    assert MARK not in first.action.message.body[len(MARK) :]


async def test_subscriptions_are_what_the_codec_makes() -> None:
    channel, noted, written = await _channel()
    channel.request(5, subscribe_frame(b"topic", 3), then=close_frame(b"topic", 3))
    await _turn()
    (request,) = written.requests()
    assert request.topic == b"topic"
    assert isinstance(request.action, Subscribe)
    assert request.action.subscriber == subscriber_name(3)
    channel.data_received(_frames(Answer(txn_id=request.txn_id, preferences=SubscriptionPreferences())))
    assert noted.answers == []
    await _turn()
    (request,) = written.requests()
    assert request.action == CloseSubscription(SubscriberId(subscriber_name(3)))
    channel.data_received(_frames(Answer(txn_id=request.txn_id)))
    assert noted.answers == [(5, None)]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50, 1_000_000])
async def test_answers_and_deliveries_are_read_however_they_arrive(step: int) -> None:
    channel, noted, _ = await _channel()
    frames = PublishFrames(Workload(name="publish"))
    for number in range(300):
        channel.publish(number, *frames.parts(0))
    await _turn()
    stream = b""
    for number in range(300):
        if number % 3 == 2:
            refused = Answer(txn_id=SLOT_BASE + number, status=StatusCode.SERVICE_DOWN, text="later")
            stream += _frames(refused)
        else:
            stream += _frames(Answer(txn_id=SLOT_BASE + number, published=MessageSeqId(number + 1)))
        stream += _frames(_delivery(number))
    for start in range(0, len(stream), step):
        channel.data_received(stream[start : start + step])
    assert noted.answers == [(number, "SERVICE_DOWN" if number % 3 == 2 else None) for number in range(300)]
    assert noted.deliveries == list(range(300))


def _delivery(number: int, subscriber: int = 1, size: int = 100) -> Delivery:
    body = MARK + NUMBER.pack(number) + bytes(size - 16)
    message = Message(body).accepted(MessageSeqId(number + 1), b"region")
    return Delivery(topic=Topic(b"topic"), subscriber=SubscriberId(subscriber_name(subscriber)), message=message)


@pytest.mark.parametrize("size", [16, 120, 130, 1024, 20_000])
async def test_the_number_of_a_message_is_found_in_messages_of_all_sizes(size: int) -> None:
    channel, noted, _ = await _channel()
    # Ids of one to five bytes give frames of all lengths. Some frames are equally long with parts of other lengths.
    numbers = [0, 126, 127, 128, 16_382, 16_384, 1 << 21, 1 << 28]
    channel.data_received(_frames(*(_delivery(number, size=size) for number in numbers)))
    assert noted.deliveries == numbers


async def test_each_subscription_is_consumed_after_its_own_deliveries() -> None:
    channel, _, written = await _channel(consume_every=3)
    for number in range(7):
        channel.data_received(_frames(_delivery(number, subscriber=1), _delivery(number, subscriber=2)))
    await _turn()
    consumed = [(request.topic, request.action) for request in written.requests()]
    assert consumed == [
        (b"topic", Consume(subscriber=SubscriberId(subscriber_name(subscriber)), seq_id=MessageSeqId(local)))
        for local in (3, 6)
        for subscriber in (1, 2)
    ]


async def test_slots_are_used_again() -> None:
    channel, noted, written = await _channel()
    frames = PublishFrames(Workload(name="publish"))
    for number in range(1000):
        channel.publish(number, *frames.parts(0))
        await _turn()
        (request,) = written.requests()
        assert request.txn_id == SLOT_BASE
        channel.data_received(_frames(Answer(txn_id=request.txn_id, published=MessageSeqId(number + 1))))
    assert noted.answers == [(number, None) for number in range(1000)]


async def test_a_lost_connection_fails_what_was_in_flight_and_ends_the_load() -> None:
    channel, noted, _ = await _channel()
    frames = PublishFrames(Workload(name="publish"))
    for number in range(3):
        channel.publish(number, *frames.parts(0))
    channel.connection_lost(None)
    assert noted.answers == [(number, "connection lost") for number in range(3)]
    assert noted.is_lost


async def test_closing_is_no_loss() -> None:
    channel, noted, _ = await _channel()
    channel.close()
    channel.connection_lost(None)
    assert not noted.is_lost
    assert channel.closed.is_set()
