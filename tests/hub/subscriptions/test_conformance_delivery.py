"""Delivery, over the wire: order, windows, bounds, filters, and subscribers that do not keep up."""

import asyncio
from collections.abc import Sequence

import pytest

from hedwig.hub.hub import Hub
from hedwig.hub.logs.log import TopicLog
from hedwig.model import (
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.status import StatusCode
from hedwig.versions import ANY
from hedwig.wire import Answer, Delivery, Message, Publish
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.wire_client import WireClient

T, S = Topic(b"T"), SubscriberId(b"s")


@pytest.fixture(params=["from memory", "from ledgers"])
async def hub(request: pytest.FixtureRequest, start_hub: StartHub) -> Hub:
    """A hub of small ledgers, with all messages in memory, or none."""
    return await start_hub(
        ledger_messages_max=3,
        cache_bytes=0 if request.param == "from ledgers" else 1 << 20,
        read_messages_max=2,
        filters={"org.example.Odd": "tests.hub.support.odd_filter:OddFilter"},
    )


def window(size: int) -> SubscriptionPreferences:
    return SubscriptionPreferences(message_window_size=size)


async def nothing_more(client: WireClient) -> None:
    """Assert that there is no further delivery. A publish and its answer pass through the hub meanwhile."""
    await client.publish(b"another topic", b"m")
    await client.barrier()
    assert client.undelivered == []


async def test_every_subscriber_gets_every_message_in_order(hub: Hub, client: WireClient, connect: Connect) -> None:
    subscribers = [await connect(hub) for _ in range(3)]
    for number, subscriber in enumerate(subscribers):
        await subscriber.subscribed(T, b"%d" % number)
    await client.publish_many(T, *(b"%d" % number for number in range(1, 51)))
    for subscriber in subscribers:
        got = await subscriber.deliveries(50)
        assert [each.message.body for each in got] == [b"%d" % number for number in range(1, 51)]
        assert [each.message.seq_id.local for each in got if each.message.seq_id] == list(range(1, 51))


async def test_the_answer_comes_before_the_first_delivery(client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * 10)
    await client.deliveries(10)
    for _ in range(5):
        position = len(client.received)
        await client.subscribed(T, S)
        await client.delivered(10)
        assert isinstance(client.received[position], Answer)


async def test_a_delivery_is_the_captured_frame(client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.publish_many(T, b"m0", b"m1")
    delivery = (await client.deliveries(2))[1]
    assert (delivery.topic, delivery.subscriber) == (T, S)
    assert delivery.message.body == b"m1"
    assert delivery.message.source_region == b"standalone"
    assert delivery.message.seq_id is not None
    assert (delivery.message.seq_id.local, delivery.message.seq_id.remote) == (2, ())


async def test_a_late_subscriber_catches_up_and_then_gets_what_is_new(client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.close_subscription(T, S)
    await client.publish_many(T, *[b"m"] * 20)
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * 10)
    assert await client.delivered(30) == list(range(1, 31))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_a_window_is_exactly_so_many_unconsumed_messages(client: WireClient, size: int) -> None:
    await client.subscribed(T, S, preferences=window(size))
    await client.publish_many(T, *[b"m"] * 20)
    got = await client.delivered(size)
    assert got == list(range(1, size + 1))
    await nothing_more(client)
    client.consume(T, S, 1)
    assert await client.delivered(1) == [size + 1]
    await nothing_more(client)
    client.consume(T, S, size + 1)
    assert await client.delivered(size) == list(range(size + 2, 2 * size + 2))
    await nothing_more(client)
    client.consume(T, S, size)  # A consume backward moves nothing.
    await nothing_more(client)


async def test_a_window_begins_anew_with_each_attachment(client: WireClient) -> None:
    await client.subscribed(T, S, preferences=window(2))
    await client.publish_many(T, *[b"m"] * 5)
    assert await client.delivered(2) == [1, 2]
    client.consume(T, S, 1)
    assert await client.delivered(1) == [3]
    await client.subscribed(T, S)
    assert await client.delivered(2) == [2, 3]
    await nothing_more(client)
    await client.subscribed(T, S, preferences=window(0))
    assert await client.delivered(4) == [2, 3, 4, 5], "0 is no window"


async def test_the_window_of_the_hub_is_for_those_who_say_nothing(start_hub: StartHub, connect: Connect) -> None:
    client = await connect(await start_hub(message_window=3))
    await client.subscribed(T, b"silent")
    await client.subscribed(T, b"unlimited", preferences=window(0))
    await client.subscribed(T, b"five", preferences=window(5))
    await client.publish_many(T, *[b"m"] * 9)
    got = [each.subscriber for each in await client.deliveries(3 + 9 + 5)]
    await nothing_more(client)
    assert {name: got.count(SubscriberId(name)) for name in (b"silent", b"unlimited", b"five")} == {
        b"silent": 3,
        b"unlimited": 9,
        b"five": 5,
    }


async def test_consuming_all_at_once_opens_the_window(client: WireClient) -> None:
    await client.subscribed(T, S, preferences=window(3))
    await client.publish_many(T, *[b"m"] * 6)
    assert await client.delivered(3) == [1, 2, 3]
    client.consume(T, S, 3)
    assert await client.delivered(3) == [4, 5, 6]


async def test_a_consume_ahead_of_the_deliveries_leaves_the_window_open(client: WireClient) -> None:
    """Later deliveries up to the pointer are consumed already. No later consume could take them out of the window."""
    await client.subscribed(T, S, preferences=window(2))
    await client.publish_many(T, *[b"m"] * 10)
    assert await client.delivered(2) == [1, 2]
    client.consume(T, S, 5)
    assert await client.delivered(5) == [3, 4, 5, 6, 7]
    await nothing_more(client)
    client.consume(T, S, 6)
    assert await client.delivered(1) == [8]
    await nothing_more(client)
    client.consume(T, S, 10)
    assert await client.delivered(2) == [9, 10]


async def test_a_late_consume_of_the_old_connection_leaves_the_window_open(
    start_hub: StartHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub reads it after the subscriber has attached again, and before it reads the first messages for it."""
    hub = await start_hub(cache_bytes=0)
    old, new = await connect(hub), await connect(hub)
    await old.subscribed(T, S, preferences=window(2))
    await old.publish_many(T, *[b"m"] * 10)
    assert await old.delivered(2) == [1, 2]
    read, may_read = hub.delivery.read, asyncio.Event()

    async def read_later(log: TopicLog, local: int, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        await may_read.wait()
        return await read(log, local, messages_max, bytes_max)

    monkeypatch.setattr(hub.delivery, "read", read_later)
    await new.subscribed(T, S, force=True)
    old.consume(T, S, 2)
    await old.barrier()
    may_read.set()
    assert await new.delivered(4) == [1, 2, 3, 4]
    await nothing_more(new)
    for local in range(1, 11):
        new.consume(T, S, local)
    assert await new.delivered(6) == [5, 6, 7, 8, 9, 10]


async def test_a_pointer_that_a_former_session_stored_late_leaves_the_window_open(
    start_hub: StartHub, connect: Connect
) -> None:
    """The hub learns of that pointer when it stores its own, which is behind it."""
    hub = await start_hub(consume_interval=1)
    client = await connect(hub)
    await client.subscribed(T, S, preferences=window(2))
    await client.publish_many(T, *[b"m"] * 10)
    assert await client.delivered(2) == [1, 2]
    state = SubscriptionData(state=SubscriptionState(MessageSeqId(6)))
    await hub.metadata.subscriptions.update(T, S, state, ANY)
    client.consume(T, S, 1)
    assert await client.delivered(6) == [3, 4, 5, 6, 7, 8]
    await nothing_more(client)
    for local in range(2, 11):
        client.consume(T, S, local)
    assert await client.delivered(2) == [9, 10]


async def test_a_bound_skips_all_but_the_newest(client: WireClient) -> None:
    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_bound=4))
    await client.close_subscription(T, S)
    await client.publish_many(T, *[b"m"] * 12)
    await client.subscribed(T, S)
    assert await client.delivered(4) == [9, 10, 11, 12]
    await client.publish_many(T, *[b"m"] * 3)
    assert await client.delivered(3) == [13, 14, 15]
    await nothing_more(client)


async def test_a_bound_does_not_bring_back_what_was_consumed(client: WireClient) -> None:
    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_bound=4))
    await client.publish_many(T, *[b"m"] * 5)
    await client.deliveries(5)
    client.consume(T, S, 4)
    await client.subscribed(T, S)
    assert await client.delivered(1) == [5]
    await nothing_more(client)


async def test_a_bound_is_for_its_own_subscription(client: WireClient) -> None:
    await client.subscribed(T, b"bound", preferences=SubscriptionPreferences(message_bound=2))
    await client.subscribed(T, b"all")
    for subscriber in (b"bound", b"all"):
        await client.close_subscription(T, subscriber)
    await client.publish_many(T, *[b"m"] * 6)
    await client.subscribed(T, b"bound")
    assert await client.delivered(2) == [5, 6]
    await client.subscribed(T, b"all")
    assert await client.delivered(6) == [1, 2, 3, 4, 5, 6]


async def test_a_full_window_and_a_bound_skip_together(client: WireClient) -> None:
    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_bound=2, message_window_size=1))
    await client.publish(T, b"m")
    assert await client.delivered(1) == [1]
    await client.publish_many(T, *[b"m"] * 9)
    client.consume(T, S, 1)
    assert await client.delivered(1) == [9]
    client.consume(T, S, 9)
    assert await client.delivered(1) == [10]


ODD = "org.example.Odd"


async def test_a_filter_lets_some_messages_through(client: WireClient) -> None:
    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_filter=ODD))
    await client.publish_many(T, *(b"%d" % number for number in range(1, 11)))
    assert await client.delivered(5) == [1, 3, 5, 7, 9]
    await nothing_more(client)
    await client.subscribed(T, S)
    assert await client.delivered(5) == [1, 3, 5, 7, 9]


async def test_filtered_messages_take_no_room_in_the_window(client: WireClient) -> None:
    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_filter=ODD, message_window_size=2))
    await client.publish_many(T, *(b"%d" % number for number in range(1, 11)))
    assert await client.delivered(2) == [1, 3]
    await nothing_more(client)
    client.consume(T, S, 1)
    assert await client.delivered(1) == [5]
    client.consume(T, S, 4)  # The client consumes a filtered-out message, and all before it.
    assert await client.delivered(1) == [7]
    await nothing_more(client)
    client.consume(T, S, 7)
    assert await client.delivered(1) == [9]


async def test_a_message_that_is_filtered_out_is_consumed_with_those_before_it(hub: Hub, client: WireClient) -> None:
    async def pointer() -> int:
        await client.close_subscription(T, S)
        record = await hub.metadata.subscriptions.read(T, S)
        assert record is not None
        await client.subscribed(T, S)
        return record.value.consumed

    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_filter=ODD))
    await client.publish_many(T, b"2", b"4", b"6")
    assert await pointer() == 3
    await client.publish_many(T, b"7", b"8", b"9", b"10")
    assert await client.delivered(2) == [4, 6]
    assert await pointer() == 3, "nothing behind a message that is not consumed"
    assert await client.delivered(2) == [4, 6]
    client.consume(T, S, 4)
    assert await pointer() == 4
    assert await client.delivered(1) == [6]
    client.consume(T, S, 6)
    assert await pointer() == 7


async def test_a_filter_reads_preferences_and_properties(client: WireClient) -> None:
    wants = SubscriptionPreferences(message_filter=ODD, options={"property": b"number"})
    await client.subscribed(T, S, preferences=wants)
    for number in (b"1", b"2", b"3"):
        await client.request(T, Publish(Message(b"8", properties={"number": number})))
    assert await client.delivered(2) == [1, 3]


async def test_a_filter_that_fails_lets_the_message_through(
    client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_filter=ODD))
    await client.publish_many(T, b"2", b"no number", b"3")
    assert await client.delivered(2) == [2, 3]
    (said,) = [record.getMessage() for record in caplog.records if "filter" in record.getMessage()]
    assert f"the message filter {ODD!r} of subscriber" in said
    assert "failed with ValueError" in said


async def test_a_filter_that_refuses_the_preferences_is_invalid(client: WireClient) -> None:
    wants = SubscriptionPreferences(message_filter=ODD, options={"fail": b""})
    answer = await client.subscribe(T, S, preferences=wants)
    assert answer.status is StatusCode.INVALID_MESSAGE_FILTER
    assert answer.text == f"the message filter {ODD!r} cannot be made: ValueError('the option fail was given')"
    await client.barrier()


async def test_properties_that_are_no_unicode_do_not_stop_a_filtered_delivery(client: WireClient) -> None:
    """Protobuf accepts such a name, and the filter receives the message."""
    wants = SubscriptionPreferences(message_filter=ODD, options={"property": b"number"})
    await client.subscribed(T, S, preferences=wants)
    request = pb.PubSubRequest(protocolVersion=pb.VERSION_ONE, type=pb.PUBLISH, txnId=77, topic=T)
    request.publishRequest.msg.MergeFromString(b"\x0a\x011\x22\x07\x0a\x05\x0a\x03\x0a\x01\xff")
    client.send_frame(request.SerializeToString())
    await client.answer(77)
    await client.request(T, Publish(Message(b"8", properties={"number": b"3"})))
    assert (await client.delivered(2))[-1] == 2


async def test_a_slow_reader_holds_up_nobody_else(hub: Hub, client: WireClient, connect: Connect) -> None:
    slow, quick = await connect(hub), await connect(hub)
    await slow.subscribed(T, b"slow")
    await quick.subscribed(T, b"quick")
    slow.stop_reading()
    count = 60
    for _ in range(count):
        await client.publish(T, b"x" * 100_000)
    assert await quick.delivered(count) == list(range(1, count + 1))
    buffered = hub.unsent.bytes
    assert buffered <= len(hub.channels) * (hub.options.channel_unsent_bytes + 200_000)
    slow.read_on()
    assert await slow.delivered(count) == list(range(1, count + 1))


async def test_a_slow_reader_on_a_shared_channel_loses_nothing(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(channel_unsent_bytes=20_000, ledger_messages_max=7)
    client, publisher = await connect(hub), await connect(hub)
    topics = [b"T%d" % number for number in range(5)]
    for topic in topics:
        await client.subscribed(topic, S)
    client.stop_reading()
    for _ in range(40):
        for topic in topics:
            publisher.send(topic, Publish(Message(b"x" * 10_000)))
    for topic in topics:
        await publisher.publish(topic, b"last")
    client.read_on()
    got = await client.deliveries(5 * 41)
    for topic in topics:
        ids = [each.message.seq_id.local for each in got if each.topic == topic and each.message.seq_id]
        assert ids == list(range(1, 42))


async def test_memory_of_recent_messages_is_bounded(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(cache_bytes=50_000)
    client = await connect(hub)
    topics = [b"T%d" % number for number in range(10)]
    for topic in topics:
        await client.subscribed(topic, S, preferences=window(1))
    for _ in range(10):
        for topic in topics:
            await client.publish(topic, b"x" * 1000)
        assert hub.tails.bytes <= 50_000
    for topic in topics:
        client.consume(topic, S, 10)
        await client.close_subscription(topic, S)
    await client.barrier()
    assert hub.tails.bytes <= 50_000


async def test_thousands_of_messages_behind_a_slow_start(client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.close_subscription(T, S)
    sent = [client.send(T, Publish(Message(b"%d" % number))) for number in range(600)]
    await client.answer(sent[-1])
    await client.subscribed(T, S)
    assert await client.delivered(600) == list(range(1, 601))
    assert [each for each in client.received if isinstance(each, Delivery)][-1].message.body == b"599"
