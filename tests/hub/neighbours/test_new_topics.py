"""Prove that requests for very many topics delay no other client, and that those for missing topics make none."""

import asyncio
import sqlite3
import time
from collections import Counter
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Final

from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Action,
    Answer,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Message,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
    encode_frame,
    encode_request,
)
from tests.hub.neighbours.support.clients import BOUNDLESS, KIB, SETTINGS, open_channel
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel
from tests.support.endings import end_all

NOBODY: Final = SubscriberId(b"nobody")
CONSUME: Final = Consume(subscriber=NOBODY, seq_id=MessageSeqId(1))
NUMBER: Final = 1 << 32
"""The id of requests whose answers the test does not tell apart."""
NEWCOMER_S: Final = 8.0
"""The limit for a first publish to a new topic. On an idle machine it takes less than a second."""


def _frame(topic: bytes, action: Action, padding: bytes = b"") -> bytes:
    request = Request(topic=Topic(topic), txn_id=NUMBER, action=action, tried=(padding,) if padding else ())
    return encode_frame(encode_request(request), HUB_FRAME_BYTES_MAX)


async def _first_publish(stack: AsyncExitStack, hub: RunningHub, topic: bytes) -> float:
    """Publish to a new topic over a new connection; return the time that it took."""
    began = time.monotonic()
    channel = await open_channel(stack, hub)
    assert (await channel.answer(await channel.publish(topic, b"first"))).status is StatusCode.SUCCESS
    return time.monotonic() - began


async def _count(channel: WireChannel, answers: Counter[StatusCode]) -> None:
    """Count the answers until the task is cancelled."""
    while True:
        heard = await channel.receive()
        assert isinstance(heard, Answer)
        answers[heard.status] += 1


async def test_consumes_of_topics_that_are_not_here_are_read_no_faster_than_they_are_carried_out(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """Consumes have no answer. They wait with all their bytes while the hub looks for their topics."""
    senders, each = 10, BOUNDLESS // (10 * 64 * KIB)
    assert senders * each * 64 * KIB == BOUNDLESS

    async def send(number: int) -> None:
        channel = await open_channel(opened, hub)
        for count in range(each):
            await channel.send_bytes(_frame(b"%d of %d" % (count, number), CONSUME, bytes(64 * KIB)))
        # The hub reads this publish once most of the consumes are over.
        answer = await channel.answer(await channel.publish(b"after", b"m"))
        assert answer.status in (StatusCode.SUCCESS, StatusCode.SERVICE_DOWN)

    sending = [asyncio.create_task(send(number)) for number in range(senders)]
    try:
        while not all(task.done() for task in sending):
            assert await _first_publish(opened, hub, b"newcomer %d" % time.monotonic_ns()) < NEWCOMER_S
            await good.exchange(1)
        await asyncio.gather(*sending)
    finally:
        await end_all(sending)


async def test_first_publish_of_a_client_does_not_wait_for_the_topics_of_another(
    tmp_path: Path, opened: AsyncExitStack
) -> None:
    """Together, ten other clients have ten thousand topics to be acquired."""
    with RunningHub(tmp_path) as hub:
        greedy = [await open_channel(opened, hub) for _ in range(10)]
        answers = Counter[StatusCode]()
        async with await GoodTopic.open(hub.port) as good:
            for number, channel in enumerate(greedy):
                frames = (_frame(b"%d of %d" % (count, number), Publish(Message(b"m"))) for count in range(1000))
                channel.writer.write(b"".join(frames))
            counting = [asyncio.create_task(_count(channel, answers)) for channel in greedy]
            try:
                assert await _first_publish(opened, hub, b"newcomer") < NEWCOMER_S
                assert answers.total() < 5000, "the others have theirs behind it"
                assert set(answers) <= {StatusCode.SUCCESS}
                await good.exchange(5)
            finally:
                await end_all(counting)
        hub.stop()


async def test_asking_for_topics_that_do_not_exist_makes_none(tmp_path: Path, opened: AsyncExitStack) -> None:
    count = 500
    asked: dict[bytes, tuple[Action, StatusCode]] = {
        b"unsubscribe": (Unsubscribe(NOBODY), StatusCode.CLIENT_NOT_SUBSCRIBED),
        b"close": (CloseSubscription(NOBODY), StatusCode.SUCCESS),
        b"attach": (Subscribe(subscriber=NOBODY, mode=CreateOrAttach.ATTACH), StatusCode.CLIENT_NOT_SUBSCRIBED),
    }
    with RunningHub(tmp_path, *SETTINGS) as hub:

        async def ask(name: bytes, action: Action, expected: StatusCode) -> None:
            channel = await open_channel(opened, hub)
            channel.writer.write(b"".join(_frame(b"%s-%d" % (name, number), action) for number in range(count)))
            for _ in range(count):
                heard = await channel.receive()
                assert isinstance(heard, Answer)
                assert heard.status is expected

        async def consume() -> None:
            channel = await open_channel(opened, hub)
            channel.writer.write(b"".join(_frame(b"consume-%d" % number, CONSUME) for number in range(count)))
            assert (await channel.answer(await channel.publish(b"made", b"m"))).status is StatusCode.SUCCESS

        async with await GoodTopic.open(hub.port) as good:
            async with asyncio.TaskGroup() as group:
                group.create_task(consume())
                for name, (action, expected) in asked.items():
                    group.create_task(ask(name, action, expected))
            await good.exchange(20)
        hub.stop()
        # Read the records directly, so that no request can make a topic.
        with closing(sqlite3.connect(hub.data / "metadata.db")) as records:
            topics = {bytes(topic) for (topic,) in records.execute("SELECT topic FROM persistence")}
        assert topics == {b"made", good.topic}
