"""Prove that clients that do not behave harm nobody else: other topics go on, and the hub's memory stays bounded.

Progress is asserted, not speed; benchmarks/neighbours.py measures that.
"""

import asyncio
import random
import resource
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Answer,
    Delivery,
    Message,
    Publish,
    Request,
    Subscribe,
    encode_frame,
    encode_request,
)
from hedwig.wire import pubsub_pb2 as pb
from tests.faults.waiting import until
from tests.hub.good_topic import GoodTopic, memory_peak
from tests.hub.running import RunningHub
from tests.hub.wire_channel import WireChannel
from tests.hub.wire_client import raw_request

KIB: Final = 1 << 10
MIB: Final = 1 << 20
IDLE: Final = 5000

SETTINGS: Final = (
    f"cache_bytes={4 * MIB}",
    f"channel_unsent_bytes={64 * KIB}",
    f"channel_bytes_max={256 * KIB}",
    "channel_requests_max=1000",
    f"request_bytes_max={4 * MIB}",
    "topic_requests_max=2000",
    f"read_bytes_max={256 * KIB}",
)

MEMORY_MAX: Final = 224 * MIB
"""What a hub with these settings may take: 80 MiB for the interpreter with all modules; 8 MiB for the cache and the
publishes on their way; 64 MiB for the queue of the ledgers, which holds 32 MiB and is copied as it is written; and for
at most 100 connections that are not idle 0.7 MiB each (256 KiB of one read, as much of requests, 64 KiB unsent in two
places). Each test sends more than that, so a queue without bound shows."""

BOUNDLESS: Final = 320 * MIB
"""What a test for a bound of memory sends, or has delivered, at the least."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    """A hub with small bounds, whose memory is looked at when all is over."""
    with RunningHub(tmp_path, *SETTINGS) as running:
        yield running
        assert memory_peak(running.pid) < MEMORY_MAX
        running.stop()
        assert "Traceback" not in running.log


@pytest.fixture
async def good(hub: RunningHub) -> AsyncIterator[GoodTopic]:
    """A topic beside the bad ones; it has worked already."""
    async with await GoodTopic.open(hub.port) as topic:
        await topic.exchange(5)
        yield topic
        await topic.exchange(20)


@pytest.fixture
async def opened() -> AsyncIterator[AsyncExitStack]:
    """What ends the connections of this test."""
    async with AsyncExitStack() as stack:
        yield stack


async def _open(stack: AsyncExitStack, hub: RunningHub, *, receive_bytes: int | None = None) -> WireChannel:
    return await stack.enter_async_context(await WireChannel.open(hub.port, receive_bytes=receive_bytes))


async def _attach(channel: WireChannel, topic: bytes, subscriber: bytes, window: int | None = None) -> None:
    answer = await channel.answer(await channel.subscribe(topic, subscriber, window=window))
    assert answer.status is StatusCode.SUCCESS


async def _flood(channel: WireChannel, topic: bytes, size: int, count: int, in_flight: int = 50) -> None:
    """Publish `count` messages of `size` bytes, some at a time; all must be accepted."""
    body, waiting = bytes(size), 0
    for number in range(count):
        await channel.publish(topic, body)
        waiting += 1
        while waiting >= in_flight or (number == count - 1 and waiting):
            heard = await channel.receive()
            assert isinstance(heard, Answer)
            assert heard.status is StatusCode.SUCCESS
            waiting -= 1


async def _ids(channel: WireChannel, count: int) -> list[int]:
    ids: list[int] = []
    while len(ids) < count:
        heard = await channel.receive()
        assert isinstance(heard, Delivery)
        assert heard.message.seq_id is not None
        ids.append(heard.message.seq_id.local)
    return ids


# --------------------------------------------------------------------------------------------------------- subscribers


async def test_subscribers_that_read_slowly_hold_up_nobody_and_get_everything_in_the_end(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """Ten of them times 32 MiB, which the hub must not keep for any."""
    count, size = 512, 64 * KIB
    assert 10 * count * size >= BOUNDLESS
    slow = [await _open(opened, hub, receive_bytes=4 * KIB) for _ in range(10)]
    for number, channel in enumerate(slow):
        await _attach(channel, b"busy", b"slow-%d" % number)
    quick = await _open(opened, hub)
    await _attach(quick, b"busy", b"quick")
    publisher = await _open(opened, hub)
    async with asyncio.TaskGroup() as group:
        group.create_task(_flood(publisher, b"busy", size, count))
        got = group.create_task(_ids(quick, count))
        for channel in slow:
            assert await _ids(channel, 2) == [1, 2]
        await good.exchange(20)
    assert got.result() == list(range(1, count + 1))
    for channel in slow[:2]:
        assert await _ids(channel, count - 2) == list(range(3, count + 1))


async def test_subscribers_that_never_consume_hold_up_nobody(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """With a window they get that many messages, and without one all; whoever comes back begins again."""
    count, window = 200, 10
    with_window = [await _open(opened, hub) for _ in range(20)]
    without = [await _open(opened, hub) for _ in range(20)]
    for number, (one, other) in enumerate(zip(with_window, without, strict=True)):
        await _attach(one, b"busy", b"window-%d" % number, window)
        await _attach(other, b"busy", b"none-%d" % number)
    await _flood(await _open(opened, hub), b"busy", 2 * KIB, count)
    await good.exchange(20)
    for channel in without:
        assert await _ids(channel, count) == list(range(1, count + 1))
    for number, channel in enumerate(with_window):
        assert await _ids(channel, window) == list(range(1, window + 1))
        # Nothing comes before the answer to the close, and nothing after it.
        await channel.close_subscription(b"busy", b"window-%d" % number)
        assert isinstance(await channel.receive(), Answer)
        await _attach(channel, b"busy", b"window-%d" % number, 0)
        assert await _ids(channel, count) == list(range(1, count + 1))


async def test_subscriber_that_vanishes_in_the_middle_of_deliveries_can_come_back_at_once(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    await _attach(await _open(opened, hub), b"busy", b"s")
    await _flood(await _open(opened, hub), b"busy", 16 * KIB, 200)
    for _ in range(20):
        channel = await WireChannel.open(hub.port, receive_bytes=4 * KIB)
        txn_id = await channel.send(b"busy", Subscribe(subscriber=SubscriberId(b"s"), force_attach=True))
        assert (await channel.answer(txn_id)).status is StatusCode.SUCCESS
        assert await _ids(channel, 3) == [1, 2, 3]
        channel.abort()
    await good.exchange(10)


async def test_consumes_with_positions_in_any_number_of_regions_are_refused_and_not_kept(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """Each subscription in memory keeps what its pointer says of other regions."""
    subscribers = [b"s-%d" % number for number in range(300)]
    channel = await _open(opened, hub)
    for subscriber in subscribers:
        await _attach(channel, b"busy", subscriber)
    await _flood(await _open(opened, hub), b"busy", 10, 1)
    for _ in subscribers:
        assert await _ids(channel, 1) == [1]
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


# --------------------------------------------------------------------------------------------------------- connections


@contextmanager
def _files(count: int) -> Iterator[None]:
    """Have this process, and those that it starts, open so many files at least."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= count, f"at most {hard} open files; do: ulimit -Hn {count}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (count if soft != resource.RLIM_INFINITY else soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def test_thousands_of_idle_connections_cost_little_and_hold_up_nobody(tmp_path: Path) -> None:
    with _files(2 * IDLE), RunningHub(tmp_path, *SETTINGS) as hub:
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(5)
            before = memory_peak(hub.pid)
            idle = []
            try:
                for _ in range(IDLE):
                    idle.append(socket.create_connection(("127.0.0.1", hub.port), timeout=30))
                await until(lambda: _open_files(hub.pid) >= IDLE, "all connections are accepted")
                await good.exchange(50)
                # A transport, a channel with its decoder, and what the allocator takes for both: about 5 KiB.
                assert memory_peak(hub.pid) - before < IDLE * 16 * KIB
            finally:
                for each in idle:
                    each.close()
            await until(lambda: _open_files(hub.pid) < 100, "all connections are closed")
            await good.exchange(20)


async def test_connections_beyond_the_bound_are_closed_and_the_others_stay(tmp_path: Path) -> None:
    with RunningHub(tmp_path, *SETTINGS, "channels_max=50") as hub:
        async with await GoodTopic.open(hub.port) as good, AsyncExitStack() as opened:
            kept = [await _open(opened, hub) for _ in range(48)]
            for number, channel in enumerate(kept):
                await _attach(channel, b"t", b"s-%d" % number)
            for _ in range(20):
                with pytest.raises(OSError, match=r"closed|reset"):
                    await (await _open(opened, hub)).receive()
            await good.exchange(20)
            kept[0].abort()
            await _attach_when_free(opened, hub, b"t", b"s-0")


async def _attach_when_free(opened: AsyncExitStack, hub: RunningHub, topic: bytes, subscriber: bytes) -> None:
    for _ in range(100):
        try:
            channel = await _open(opened, hub)
            answer = await channel.answer(await channel.subscribe(topic, subscriber))
        except OSError:
            continue
        if answer.status is StatusCode.SUCCESS:
            return
    raise AssertionError("there is no place for a connection, though one has ended")


FEW_FILES: Final = """
import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 256))
"""


async def test_hub_that_may_open_few_files_refuses_connections_and_stores_messages(tmp_path: Path) -> None:
    """Connections take descriptors that the ledgers need too."""
    settings = (*SETTINGS, "ledgers.segment_bytes=65536", "ledger_messages_max=5")
    with RunningHub(tmp_path, *settings, environment=_before_hub(tmp_path, FEW_FILES)) as hub:
        async with await GoodTopic.open(hub.port) as good:
            idle: list[socket.socket] = []
            try:
                while len(idle) < 400:
                    idle.append(socket.create_connection(("127.0.0.1", hub.port), timeout=30))
                await good.exchange(100)
                assert 60 < _open_files(hub.pid) < 250
            finally:
                for each in idle:
                    each.close()
            await good.exchange(20)
        assert "at most 96 connections are served, not 20000" in hub.log


def _before_hub(directory: Path, program: str) -> dict[str, str]:
    """Return an environment in which the interpreter runs `program` before the hub."""
    (directory / "sitecustomize.py").write_text(program)
    return {"PYTHONPATH": f"{directory}:{Path(__file__).parents[2]}"}


async def test_half_closed_and_half_sent_requests_hold_up_nobody(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    request = Request(topic=Topic(b"t"), txn_id=1, action=Publish(Message(bytes(1000))))
    frame = encode_frame(encode_request(request), HUB_FRAME_BYTES_MAX)
    for cut in (1, 3, 4, 5, 500, len(frame) - 1):
        stalled = await _open(opened, hub)
        await stalled.send_bytes(frame[:cut])
        ended = await _open(opened, hub)
        await ended.send_bytes(frame[:cut])
        ended.writer.write_eof()
        with pytest.raises(ConnectionResetError):
            await ended.receive()
    # A subscriber that ended its half is detached, also if it reads on.
    for _ in range(5):
        half = await _open(opened, hub)
        await _attach(half, b"t", b"s")
        half.writer.write_eof()
        with pytest.raises(ConnectionResetError):
            await half.receive()
    await good.exchange(20)


async def test_connections_whose_peer_is_silent_are_probed(hub: RunningHub, opened: AsyncExitStack) -> None:
    """Else a subscriber whose machine has vanished would keep its subscription for ever."""
    channel = await _open(opened, hub)
    await _attach(channel, b"t", b"s")
    port = channel.writer.get_extra_info("sockname")[1]
    assert _is_probed(hub.port, port)


def _is_probed(local: int, remote: int) -> bool:
    """Say whether the kernel has a keepalive timer for a connection of this machine."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = tuple(int(each.rpartition(":")[2], 16) for each in fields[1:3])
        if ports == (local, remote):
            return fields[5].startswith("02:")
    raise AssertionError("there is no such connection")


# --------------------------------------------------------------------------------------------------------------- input


async def test_random_bytes_end_their_own_connection_only(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    source = random.Random(4080)
    frame = encode_frame(
        encode_request(Request(topic=Topic(b"t"), txn_id=1, action=Publish(Message(bytes(100))))), HUB_FRAME_BYTES_MAX
    )
    ended = Counter[str]()
    for number in range(200):
        channel = await _open(opened, hub)
        kind = ("noise", "length", "garbage", "bent")[number % 4]
        data = source.randbytes(source.randrange(1, 5000))
        if kind == "length":  # More than a frame may have.
            data = struct.pack(">I", source.randrange(HUB_FRAME_BYTES_MAX, 1 << 32)) + data
        elif kind == "garbage":  # A whole frame, which is no request.
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
    """It sends until the hub takes no more; then it reads, and has exactly one answer to each."""
    count, padding = 2000, bytes(32 * KIB)
    preferences = SubscriptionPreferences(options={"big": bytes(16 * KIB)})
    channel = await _open(opened, hub, receive_bytes=4 * KIB)
    first = Subscribe(subscriber=SubscriberId(b"s"), preferences=preferences)
    assert isinstance(answer := await _asked(channel, first), Answer)
    assert answer.preferences == preferences
    sent = 0

    async def send() -> None:
        nonlocal sent
        again = Subscribe(subscriber=SubscriberId(b"s"))
        for number in range(count):
            # Large requests with large answers, so that what the kernel keeps of both is soon full.
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
    """Each of ten clients asks for 64 MiB with 30 KiB, and reads nothing; then two read all of it."""
    count = 1000
    preferences = SubscriptionPreferences(options={"big": bytes(64 * KIB)})
    assert 10 * count * 64 * KIB >= BOUNDLESS
    deaf = [await _open(opened, hub, receive_bytes=4 * KIB) for _ in range(10)]
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
        # They concern the same subscription, so they are answered in order.
        assert [each.txn_id for each in heard if isinstance(each, Answer)] == list(range(1, count + 1))


async def _asked(channel: WireChannel, action: Subscribe) -> Answer:
    return await channel.answer(await channel.send(b"t", action))


# ---------------------------------------------------------------------------------------------------------- the bounds

SLOW_DISK: Final = """
import time
from hub.ledgers.local.disk import Disk

sync = Disk.sync


def slow(self, descriptor):
    time.sleep(0.1)
    sync(self, descriptor)


Disk.sync = slow
"""
"""A disk that takes a tenth of a second to sync."""


async def test_publishers_that_are_faster_than_the_disk_are_held_back_or_refused(
    tmp_path: Path, opened: AsyncExitStack
) -> None:
    settings = (each for each in SETTINGS if not each.startswith("request_bytes_max"))
    environment = _before_hub(tmp_path, SLOW_DISK)
    with RunningHub(tmp_path, *settings, f"request_bytes_max={MIB}", environment=environment) as hub:
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(2)
            fast = [await _open(opened, hub) for _ in range(16)]
            statuses = Counter[StatusCode]()
            async with asyncio.TaskGroup() as group:
                for number, channel in enumerate(fast):
                    group.create_task(_hurry(channel, b"fast-%d" % (number % 4), 16 * KIB, 400, statuses))
                # It shares the disk, so it is slow too; but it gets its turn whenever the disk does.
                accepted = await _accepted(hub, b"modest", 5)
            assert accepted == 5
            assert statuses.total() == 16 * 400
            assert set(statuses) == {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN}, statuses
            assert memory_peak(hub.pid) < MEMORY_MAX
            await good.exchange(3)
        hub.stop()


async def _hurry(channel: WireChannel, topic: bytes, size: int, count: int, statuses: Counter[StatusCode]) -> None:
    """Publish as fast as the hub reads, and count the answers, one to each."""

    async def send() -> None:
        for _ in range(count):
            await channel.publish(topic, bytes(size))

    sending = asyncio.create_task(send())
    for _ in range(count):
        heard = await channel.receive()
        assert isinstance(heard, Answer)
        statuses[heard.status] += 1
    await sending


async def _accepted(hub: RunningHub, topic: bytes, count: int) -> int:
    """Publish until so many were accepted, as a client does that tries again when the hub is overloaded."""
    accepted = 0
    async with asyncio.timeout(60), await WireChannel.open(hub.port) as channel:
        while accepted < count:
            answer = await channel.answer(await channel.publish(topic, b"modest"))
            assert answer.status in (StatusCode.SUCCESS, StatusCode.SERVICE_DOWN)
            accepted += answer.status is StatusCode.SUCCESS
    return accepted


async def test_more_requests_than_may_wait_for_a_topic_are_refused(tmp_path: Path) -> None:
    with RunningHub(tmp_path, "topic_requests_max=10") as hub:
        async with await GoodTopic.open(hub.port) as good, await WireChannel.open(hub.port) as channel:
            statuses = await _all_at_once(channel, [b"new"] * 100)
            # They arrive together, so none but the first ten can have found a place.
            assert [*statuses] == [StatusCode.SUCCESS] * 10 + [StatusCode.SERVICE_DOWN] * 90
            await good.exchange(10)


async def test_more_topics_than_may_wait_to_be_acquired_are_refused(tmp_path: Path) -> None:
    with RunningHub(tmp_path, "acquisitions_max=1", "acquisitions_waiting_max=10") as hub:
        async with await GoodTopic.open(hub.port) as good, await WireChannel.open(hub.port) as channel:
            statuses = await _all_at_once(channel, [b"new-%d" % number for number in range(100)])
            assert statuses.count(StatusCode.SUCCESS) >= 10
            assert statuses.count(StatusCode.SERVICE_DOWN) > 50
            assert set(statuses) == {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN}
            await good.exchange(10)


async def _all_at_once(channel: WireChannel, topics: list[bytes]) -> list[StatusCode]:
    """Publish to all topics in one packet; return the statuses in the order of the requests."""
    frames = [
        encode_frame(
            encode_request(Request(topic=Topic(topic), txn_id=number, action=Publish(Message(b"m")))),
            HUB_FRAME_BYTES_MAX,
        )
        for number, topic in enumerate(topics)
    ]
    await channel.send_bytes(b"".join(frames))
    statuses: dict[int, StatusCode] = {}
    while len(statuses) < len(topics):
        heard = await channel.receive()
        assert isinstance(heard, Answer)
        assert heard.txn_id not in statuses
        statuses[heard.txn_id] = heard.status
    return [statuses[number] for number in range(len(topics))]
