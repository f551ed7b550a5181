"""Messages that are damaged on disk: only these are lost, and the log and the metrics report them."""

from pathlib import Path

import pytest

from hedwig.errors import ServiceDownError
from hedwig.hub.hub import Hub
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.model import MessageSeqId, RegionSeqId, Topic
from hedwig.wire import Message, Publish
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.conftest import Connect, StartHub
from tests.hub.logs.test_conformance_retention import make
from tests.hub.support.wire_client import WireClient, eventually

T = Topic(b"T")
READER = b"reader"


def damage(hub: Hub, body: bytes) -> None:
    """Change one bit of a message on disk."""
    for path in Path(hub.options.data_directory / "ledgers").glob("*.segment"):
        data = path.read_bytes()
        if body in data:
            with path.open("r+b") as file:
                file.seek(data.index(body))
                file.write(bytes([body[0] ^ 1]))
            return
    raise AssertionError(f"{body!r} is in no file")


def bodies(*ids: int) -> list[bytes]:
    return [b"the body of message %d" % each for each in ids]


def topic_of(hub: Hub) -> OwnedTopic:
    topic = hub.topics.get(T)
    assert topic is not None
    return topic


async def leave_open(hub: Hub) -> None:
    """Release the topic with its last ledger open, as a dying hub does."""
    topic = topic_of(hub)
    hub.topics.give_up(topic, ServiceDownError("the test"))
    await hub.topics.release(topic)


@pytest.fixture
async def hub(start_hub: StartHub) -> Hub:
    return await start_hub(damage_wait_s=0.2, read_retry_s=0.05)


@pytest.mark.parametrize("number", [1, 3, 5], ids=["first", "middle", "last"])
async def test_only_a_damaged_message_is_lost(
    hub: Hub, client: WireClient, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    await client.publish_many(T, *bodies(1, 2, 3, 4, 5))
    await make(hub, READER, 0)
    damage(hub, bodies(number)[0])
    await leave_open(hub)
    assert await client.publish_many(T, *bodies(6, 7)) == [6, 7]
    await client.subscribed(T, READER)
    assert await client.delivered(6) == [each for each in range(1, 8) if each != number]
    assert hub.counters()["lost_messages"] == 1
    assert f"subscriber 'reader' of topic 'T' goes on without message {number}, which is lost to it" in caplog.text
    assert "is damaged in" in caplog.text


async def test_a_topic_of_which_every_message_is_damaged_is_acquired(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *bodies(1, 2, 3))
    await make(hub, READER, 0)
    for body in bodies(1, 2, 3):
        damage(hub, body)
    await leave_open(hub)
    assert await client.publish_many(T, *bodies(4)) == [4]
    await client.subscribed(T, READER)
    assert await client.delivered(1) == [4]
    assert hub.counters()["lost_messages"] == 3


async def test_how_far_other_regions_had_come_is_what_the_last_sound_message_says(hub: Hub, client: WireClient) -> None:
    for position in (5, 7):
        message = pb.Message(body=b"at %d in the east" % position)
        message.msgId.remoteComponents.add(region=b"east", seqId=position)
        await client.answer(client.send_raw(topic=T, type=pb.PUBLISH, publishRequest=pb.PublishRequest(msg=message)))
    damage(hub, b"at 7 in the east")
    await leave_open(hub)
    answer = await client.request(T, Publish(Message(b"m")))
    assert answer.published == MessageSeqId(3, (RegionSeqId(b"east", 5),))


async def test_a_message_that_is_put_back_in_time_is_delivered(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(damage_wait_s=0.0, read_retry_s=0.05)
    client = await connect(hub)
    await client.publish_many(T, *bodies(1, 2))
    await make(hub, READER, 0)
    damage(hub, bodies(2)[0])
    await client.subscribed(T, READER)
    assert await client.delivered(1) == [1]

    async def is_met() -> bool:
        stats = await hub.ledgers.stats()
        return bool(stats.damage_count)

    await eventually(is_met, "the damage is met")
    damaged = bytes([bodies(2)[0][0] ^ 1]) + bodies(2)[0][1:]
    damage(hub, damaged)
    assert await client.delivered(1) == [2]
    assert hub.counters()["lost_messages"] == 0
