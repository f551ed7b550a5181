"""Publishing, over the wire: ids without gap, fields that the hub sets or keeps, and the order of answers."""

import itertools

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import LedgerRange, MessageSeqId, RegionSeqId, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Answer, CreateOrAttach, Message, Publish
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.wire_client import WireClient, eventually

T = Topic(b"T")


async def ranges_of(hub: Hub, topic: bytes) -> tuple[LedgerRange, ...]:
    """Return the ledger ranges on record."""
    record = await hub.metadata.persistence.read(Topic(topic))
    assert record is not None
    return record.value.ranges


async def test_ids_count_from_one_without_gap_across_ledgers(hub: Hub, client: WireClient) -> None:
    assert await client.publish_many(T, *(b"%d" % number for number in range(20))) == list(range(1, 21))
    assert [await client.publish(T, b"more") for _ in range(5)] == [21, 22, 23, 24, 25]
    ranges = await ranges_of(hub, T)
    assert [each.start for each in ranges] == [1, 4, 7, 10, 13, 16, 19, 22, 25]
    assert [each.end.local for each in ranges if each.end] == [3, 6, 9, 12, 15, 18, 21, 24]


async def test_topics_count_each_for_itself(client: WireClient) -> None:
    assert [await client.publish(topic, b"m") for topic in (b"A", b"B", b"A", b"B")] == [1, 1, 2, 2]


async def test_an_answer_has_the_id_that_is_delivered(client: WireClient) -> None:
    await client.subscribed(T, b"s")
    answer = await client.request(T, Publish(Message(b"body")))
    delivery = await client.delivery()
    assert answer.published == delivery.message.seq_id == MessageSeqId(1)
    assert (delivery.topic, delivery.subscriber, delivery.message.body) == (T, b"s", b"body")


async def test_the_answer_is_the_captured_frame(client: WireClient) -> None:
    """Compare with the protocol's test vectors, both ways, except for the request number."""
    client.send_frame(bytes.fromhex("0801100020012800320154a2030612040a026d30"))
    await client.answer(1)
    assert client.received == [Answer(txn_id=1, published=MessageSeqId(1))]


async def test_the_region_of_the_hub_overwrites_what_was_sent(client: WireClient) -> None:
    await client.subscribed(T, b"s")
    message = pb.Message(body=b"m", srcRegion=b"elsewhere", msgId=pb.MessageSeqId(localComponent=77))
    answer = await client.answer(
        client.send_raw(topic=T, type=pb.PUBLISH, publishRequest=pb.PublishRequest(msg=message))
    )
    assert answer.published == MessageSeqId(1)
    delivery = await client.delivery()
    assert delivery.message.source_region == b"standalone"
    assert delivery.message.seq_id == MessageSeqId(1)


async def test_header_and_unknown_fields_are_kept(client: WireClient) -> None:
    await client.subscribed(T, b"s")
    sent = pb.Message(body=b"m", header=pb.MessageHeader(messageType="kind"))
    sent.header.properties.entries.add(key="colour", value=b"red")
    unknown = bytes((99 << 3 & 0x7F | 0x80, 99 >> 4, 5)) + b"\xa2\x06\x03abc"  # Field 99 is a number, field 100 a text.
    body = sent.SerializeToString() + unknown
    expected = pb.Message.FromString(body)
    request = pb.PubSubRequest(protocolVersion=pb.VERSION_ONE, type=pb.PUBLISH, txnId=9, topic=T)
    request.publishRequest.msg.MergeFromString(body)
    client.send_frame(request.SerializeToString())
    await client.answer(9)
    message = (await client.delivery()).message
    assert (message.properties, message.message_type) == ({"colour": b"red"}, "kind")
    got = pb.Message.FromString(message.encode())
    got.ClearField("srcRegion")
    got.ClearField("msgId")
    assert got == expected


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
async def test_bodies_of_any_size(client: WireClient, size: int) -> None:
    await client.subscribed(T, b"s")
    await client.publish(T, b"x" * size)
    assert (await client.delivery()).message.body == b"x" * size


async def test_answers_of_one_topic_come_in_order(hub: Hub, client: WireClient) -> None:
    sent = [client.send(T, Publish(Message(b"%d" % number))) for number in range(500)]
    await client.answer(sent[-1])
    assert [answer.txn_id for answer in client.received if isinstance(answer, Answer)] == sent
    assert [WireClient.published(answer) for answer in client.received if isinstance(answer, Answer)] == sent


async def test_publishers_on_many_channels_share_the_ids(hub: Hub, connect: Connect) -> None:
    clients = [await connect(hub) for _ in range(4)]
    sent = [(each, each.send(T, Publish(Message(b"m")))) for _ in range(25) for each in clients]
    ids = [WireClient.published(await each.answer(txn_id)) for each, txn_id in sent]
    assert sorted(ids) == list(range(1, 101))
    for each in clients:
        own = [number for other, number in zip((other for other, _ in sent), ids, strict=True) if other is each]
        assert own == sorted(own)


async def test_publishing_needs_no_subscriber_and_no_claim_flag(client: WireClient) -> None:
    answer = await client.request(T, Publish(Message(b"m")), should_claim=False)
    assert WireClient.published(answer) == 1


async def test_remote_components_are_the_furthest_of_each_region(client: WireClient) -> None:
    await client.subscribed(T, b"s")

    async def publish(**positions: int) -> Answer:
        seq_id = pb.MessageSeqId(localComponent=1000)
        for region, position in positions.items():
            seq_id.remoteComponents.add(region=region.encode(), seqId=position)
        message = pb.Message(body=b"m", msgId=seq_id)
        return await client.answer(
            client.send_raw(topic=T, type=pb.PUBLISH, publishRequest=pb.PublishRequest(msg=message))
        )

    east, west = RegionSeqId(b"east", 5), RegionSeqId(b"west", 7)
    assert (await publish(east=5)).published == MessageSeqId(1, (east,))
    assert (await publish(east=3, west=7)).published == MessageSeqId(2, (east, west))
    assert (await publish()).published == MessageSeqId(3, (east, west))
    assert [each.message.seq_id for each in await client.deliveries(3)] == [
        MessageSeqId(1, (east,)),
        MessageSeqId(2, (east, west)),
        MessageSeqId(3, (east, west)),
    ]


async def test_an_answer_has_its_own_remote_components_and_not_those_of_later_publishes(client: WireClient) -> None:
    await client.subscribed(T, b"s")
    sent = []
    for position in (1, 2, 3):
        message = pb.Message(body=b"m")
        message.msgId.remoteComponents.add(region=b"east", seqId=position)
        sent.append(client.send_raw(topic=T, type=pb.PUBLISH, publishRequest=pb.PublishRequest(msg=message)))
    answered = [(await client.answer(txn_id)).published for txn_id in sent]
    assert answered == [each.message.seq_id for each in await client.deliveries(3)]
    assert answered == [MessageSeqId(position, (RegionSeqId(b"east", position),)) for position in (1, 2, 3)]


async def test_remote_components_survive_a_restart(start_hub: StartHub, connect: Connect) -> None:
    async with await start_hub() as hub:
        client = await connect(hub)
        message = pb.Message(body=b"m")
        message.msgId.remoteComponents.add(region=b"east", seqId=5)
        await client.answer(client.send_raw(topic=T, type=pb.PUBLISH, publishRequest=pb.PublishRequest(msg=message)))
    client = await connect(await start_hub())
    answer = await client.request(T, Publish(Message(b"m")))
    assert answer.published == MessageSeqId(2, (RegionSeqId(b"east", 5),))


async def test_one_message_cannot_fill_a_topic_with_remote_components(client: WireClient) -> None:
    """Each later message repeats them all. So a client without a limit could make a topic unusable for good."""
    message = pb.Message(body=b"m")
    for number in range(20_000):
        message.msgId.remoteComponents.add(region=b"%020d" % number, seqId=1)
    answer = await client.answer(
        client.send_raw(topic=T, type=pb.PUBLISH, publishRequest=pb.PublishRequest(msg=message))
    )
    assert answer.status is StatusCode.MALFORMED_REQUEST
    assert (await client.request(T, Publish(Message(b"next")))).published == MessageSeqId(1)


async def test_ids_go_on_after_a_restart(start_hub: StartHub, connect: Connect) -> None:
    expected = 1
    for count in (4, 3, 1, 0, 2):
        async with await start_hub(ledger_messages_max=3) as hub:
            client = await connect(hub)
            assert await client.publish_many(T, *[b"m"] * count) == list(range(expected, expected + count))
            expected += count
            await client.close()


async def test_ids_go_on_after_a_release(hub: Hub, client: WireClient) -> None:
    for expected in range(1, 9):
        assert await client.publish(T, b"m") == expected
        topic = hub.topics.get(T)
        assert topic is not None
        await hub.topics.release(topic)
        assert await hub.metadata.ownership.read(T) is None


async def test_publishes_that_wait_for_ledgers_survive_a_release(start_hub: StartHub, connect: Connect) -> None:
    """A topic rolls ledgers while it is released. Acknowledged messages stay, and the others get an error."""
    hub = await start_hub(ledger_messages_max=2)
    client = await connect(hub)
    total = 0
    for _ in range(5):
        sent = [client.send(T, Publish(Message(b"m"))) for _ in range(30)]
        await client.barrier()
        topic = hub.topics.get(T)
        if topic is not None:
            await hub.topics.release(topic)
        answers = [await client.answer(txn_id) for txn_id in sent]
        ids = [each.published.local for each in answers if each.published is not None]
        assert ids == list(range(total + 1, total + len(ids) + 1))
        total += len(ids)
        refused = [each for each in answers if each.published is None]
        assert {each.status for each in refused} <= {StatusCode.SERVICE_DOWN}
    ranges = await ranges_of(hub, T)
    for one, following in itertools.pairwise(ranges):
        assert one.end is not None
        assert following.start == one.end.local + 1
    assert await client.publish(T, b"last") == total + 1


async def test_a_ledger_is_made_at_the_first_publish_and_not_before(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, b"s")
    assert await ranges_of(hub, T) == ()
    assert (await hub.ledgers.stats()).ledgers == 0
    await client.publish(T, b"m")
    assert len(await ranges_of(hub, T)) == 1


async def test_ledgers_are_rolled_by_bytes_too(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(ledger_bytes_max=1000)
    client = await connect(hub)
    await client.publish_many(T, *[b"x" * 400] * 9)
    await eventually(lambda: hub.topics.get(T) is not None and hub.topics.get(T).log.is_idle, "the next ledger is made")  # type: ignore[union-attr]
    assert [each.start for each in await ranges_of(hub, T)] == [1, 4, 7, 10]


async def test_a_publish_answers_before_or_after_close_but_once(hub: Hub, client: WireClient) -> None:
    sent = [client.send(T, Publish(Message(b"m"))) for _ in range(50)]
    await client.barrier()
    await hub.close()
    await client.closed_by_hub()
    for txn_id in sent:
        assert len(client.answers[txn_id]) == 1, "finish what was begun, and say so"


async def test_too_many_bytes_on_their_way_are_refused(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(request_bytes_max=10_000)
    client = await connect(hub)
    sent = [client.send(T, Publish(Message(b"x" * 4000))) for _ in range(50)]
    answers = [await client.answer(txn_id) for txn_id in sent]
    statuses = {each.status for each in answers}
    assert statuses == {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN}
    stored = [each.published.local for each in answers if each.published is not None]
    assert stored == list(range(1, len(stored) + 1))
    assert hub.requests.unanswered_bytes == 0
    assert await client.publish(T, b"m") == len(stored) + 1


async def test_too_many_requests_of_one_topic_are_refused(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(topic_requests_max=10)
    client = await connect(hub)
    sent = [client.send(T, Publish(Message(b"m"))) for _ in range(40)]
    answers = [await client.answer(txn_id) for txn_id in sent]
    assert {each.status for each in answers} <= {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN}
    stored = [each.published.local for each in answers if each.published is not None]
    assert stored == list(range(1, len(stored) + 1))
    assert len(stored) >= 10


async def test_read_only_refuses_publishes_and_serves_the_rest(start_hub: StartHub, connect: Connect) -> None:
    async with await start_hub() as hub:
        client = await connect(hub)
        await client.subscribed(T, b"s")
        await client.publish(T, b"m")
        await client.close()
    hub = await start_hub(read_only=True)
    client = await connect(hub)
    assert (await client.request(T, Publish(Message(b"m")))).status is StatusCode.SERVICE_DOWN
    await client.subscribed(T, SubscriberId(b"s"), mode=CreateOrAttach.ATTACH)
    assert await client.delivered(1) == [1]
