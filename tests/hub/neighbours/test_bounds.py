"""Prove that publishes, requests and topics beyond the bounds are refused, and the others are served."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import HUB_FRAME_BYTES_MAX, Answer, Message, Publish, Request, encode_frame, encode_request
from tests.hub.neighbours.support.clients import KIB, MEMORY_MAX, MIB, SETTINGS, before_hub, open_channel
from tests.hub.neighbours.support.good_topic import GoodTopic, memory_peak
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel

SLOW_DISK: Final = """
import time
from hedwig.hub.ledgers.local.segments.disk import Disk

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
    environment = before_hub(tmp_path, SLOW_DISK)
    with RunningHub(tmp_path, *settings, f"request_bytes_max={MIB}", environment=environment) as hub:
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(2)
            fast = [await open_channel(opened, hub) for _ in range(16)]
            statuses = Counter[StatusCode]()
            async with asyncio.TaskGroup() as group:
                for number, channel in enumerate(fast):
                    group.create_task(_hurry(channel, b"fast-%d" % (number % 4), 16 * KIB, 400, statuses))
                # The modest client shares the disk, so it is slow too. But it gets its turn whenever the disk does.
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
    """Publish until `count` messages are accepted, and try again when the hub is overloaded, as clients do."""
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
            # The requests arrive together, so only the first ten can wait.
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
