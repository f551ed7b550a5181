"""Subscribing, over the wire: the three modes, preferences, attachments, close and unsubscribe."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.versions import ANY, Versioned
from hedwig.wire import (
    Answer,
    CloseSubscription,
    CreateOrAttach,
    Delivery,
    EventKind,
    Message,
    Publish,
    Subscribe,
    Unsubscribe,
)
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.locked_metadata import locked
from tests.hub.support.wire_client import ChannelClosedError, WireClient, eventually

T, S = Topic(b"T"), SubscriberId(b"s")
CREATE, ATTACH = CreateOrAttach.CREATE, CreateOrAttach.ATTACH


async def record_of(hub: Hub, topic: bytes = T, subscriber: bytes = S) -> Versioned[SubscriptionData] | None:
    """Return the stored subscription."""
    return await hub.metadata.subscriptions.read(Topic(topic), SubscriberId(subscriber))


async def detached(hub: Hub, topic: bytes = T) -> None:
    """Wait until no subscriber is attached to the topic, and all consumes are stored."""
    await eventually(lambda: not (owned := hub.topics.get(Topic(topic))) or not owned.has_attached, "detached")


# ---------------------------------------------------------------------------------------------------- modes


async def test_only_later_messages_reach_a_new_subscription(client: WireClient) -> None:
    await client.publish_many(T, b"1", b"2")
    await client.subscribed(T, S)
    await client.publish(T, b"3")
    assert await client.delivered(1) == [3]


async def test_create_refuses_an_existing_subscription_and_leaves_the_channel_open(
    hub: Hub, client: WireClient, connect: Connect
) -> None:
    await client.subscribed(T, S, mode=CREATE)
    other = await connect(hub)
    for channel in (client, other):
        assert (await channel.subscribe(T, S, mode=CREATE)).status is StatusCode.CLIENT_ALREADY_SUBSCRIBED
    assert (await other.subscribe(T, S, mode=CREATE, force=True)).status is StatusCode.CLIENT_ALREADY_SUBSCRIBED
    assert await other.publish(T, b"m") == 1
    assert await client.delivered(1) == [1], "the refusals changed nothing"


async def test_create_refuses_a_stored_subscription_that_nobody_is_attached_to(client: WireClient, hub: Hub) -> None:
    await client.subscribed(T, S)
    await client.close_subscription(T, S)
    assert (await client.subscribe(T, S, mode=CREATE)).status is StatusCode.CLIENT_ALREADY_SUBSCRIBED
    await client.barrier()


async def test_attach_needs_a_subscription(hub: Hub, client: WireClient) -> None:
    assert (await client.subscribe(T, S, mode=ATTACH)).status is StatusCode.CLIENT_NOT_SUBSCRIBED
    assert await record_of(hub) is None
    await client.subscribed(T, S, mode=CREATE)
    await client.close_subscription(T, S)
    await client.subscribed(T, S, mode=ATTACH)


async def test_every_error_has_a_text_and_the_number_of_its_request(client: WireClient) -> None:
    txn_id = client.send(T, Subscribe(subscriber=S, mode=ATTACH))
    answer = await client.answer(txn_id)
    assert answer.text == "subscriber 's' is not subscribed to topic 'T'"
    assert client.received == [answer]


async def test_an_unknown_mode_is_the_default(client: WireClient) -> None:
    # An unknown enum value cannot be set, so write the field by hand.
    request = pb.PubSubRequest(protocolVersion=pb.VERSION_ONE, type=pb.SUBSCRIBE, txnId=1, topic=T)
    request.subscribeRequest.MergeFromString(b"\x12\x01s\x18\x09")
    client.send_frame(request.SerializeToString())
    assert (await client.answer(1)).status is StatusCode.SUCCESS


async def test_the_record_is_stored_before_the_answer(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, b"1", b"2")
    asked = SubscriptionPreferences(message_bound=9, options={"a": b"b"}, message_window_size=4)
    await client.subscribed(T, S, preferences=asked)
    record = await record_of(hub)
    assert record is not None
    assert record.value.preferences == asked
    assert record.value.state is not None
    assert record.value.state.consumed == MessageSeqId(2)


async def test_the_answer_has_preferences_even_if_none_is_set(client: WireClient) -> None:
    """As in the captured frame: without preferences, a Java client believes that the hub cannot filter."""
    client.send_frame(bytes.fromhex("0801100120022800320154aa030b1201731802200132003800"))
    assert await client.answer(2) == Answer(txn_id=2, preferences=SubscriptionPreferences())


# ---------------------------------------------------------------------------------------------- preferences


async def test_preferences_are_merged_field_by_field_and_option_by_option(hub: Hub, client: WireClient) -> None:
    first = SubscriptionPreferences(options={"a": b"1", "b": b"2"}, message_bound=10, message_window_size=5)
    assert await client.subscribed(T, S, preferences=first) == first
    changes = SubscriptionPreferences(options={"b": b"3", "c": b"4"}, message_window_size=6)
    merged = SubscriptionPreferences(options={"a": b"1", "b": b"3", "c": b"4"}, message_bound=10, message_window_size=6)
    await client.close_subscription(T, S)
    assert await client.subscribed(T, S, mode=ATTACH, preferences=changes) == merged
    record = await record_of(hub)
    assert record is not None
    assert record.value.preferences == merged
    assert await client.subscribed(T, S, mode=ATTACH) == merged, "what is absent changes nothing"
    assert await record_of(hub) == record, "nor is it written again"


async def test_large_preferences_are_merged_though_they_are_not_kept_in_memory(
    hub: Hub, client: WireClient, connect: Connect
) -> None:
    large = SubscriptionPreferences(options={"big": bytes(100_000)}, message_bound=7)
    assert await client.subscribed(T, S, preferences=large) == large
    owned = hub.topics.get(T)
    assert owned is not None
    subscription = owned.subscription(S)
    assert subscription is not None
    assert subscription.preferences is None
    other = await connect(hub)
    assert (await other.subscribe(T, S)).status is StatusCode.TOPIC_BUSY
    change = SubscriptionPreferences(options={"small": b"1"}, message_window_size=3)
    merged = replace(large, options={**large.options, **change.options}, message_window_size=3)
    for _ in range(2):
        assert await client.subscribed(T, S, preferences=change) == merged
    assert await other.subscribed(T, S, force=True) == merged
    shrunk = replace(merged, options={"big": b"", "small": b"1"})
    assert await other.subscribed(T, S, preferences=SubscriptionPreferences(options={"big": b""})) == shrunk
    await hub.metadata.subscriptions.delete(T, S, ANY)
    assert await other.subscribed(T, S) == shrunk, "small ones are in memory"


async def test_preferences_are_merged_on_the_channel_that_is_attached(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    asked = SubscriptionPreferences(message_window_size=1)
    assert await client.subscribed(T, S, preferences=asked) == asked
    await client.publish_many(T, b"1", b"2")
    assert await client.delivered(1) == [1]
    await client.barrier()
    assert client.undelivered == []


async def test_zero_is_a_value(client: WireClient) -> None:
    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_window_size=5, message_bound=5))
    zero = SubscriptionPreferences(message_window_size=0, message_bound=0)
    assert await client.subscribed(T, S, preferences=zero) == zero


async def test_the_old_field_of_the_bound_wins(client: WireClient) -> None:
    subscribe = pb.SubscribeRequest(subscriberId=S, messageBound=7)
    subscribe.preferences.messageBound = 3
    answer = await client.answer(client.send_raw(topic=T, type=pb.SUBSCRIBE, subscribeRequest=subscribe))
    assert answer.preferences == SubscriptionPreferences(message_bound=7)


async def test_the_first_of_equal_options_counts(client: WireClient) -> None:
    subscribe = pb.SubscribeRequest(subscriberId=S)
    for value in (b"first", b"second"):
        subscribe.preferences.options.entries.add(key="k", value=value)
    answer = await client.answer(client.send_raw(topic=T, type=pb.SUBSCRIBE, subscribeRequest=subscribe))
    assert answer.preferences == SubscriptionPreferences(options={"k": b"first"})


async def test_an_unknown_filter_is_refused_and_the_channel_serves_on(client: WireClient) -> None:
    await client.subscribed(T, b"other")
    answer = await client.subscribe(T, S, preferences=SubscriptionPreferences(message_filter="org.example.Filter"))
    assert answer.status is StatusCode.INVALID_MESSAGE_FILTER
    assert answer.text is not None
    assert "org.example.Filter" in answer.text
    await client.publish(T, b"m")
    assert [each.subscriber for each in await client.deliveries(1)] == [b"other"]
    await client.barrier()
    assert client.undelivered == []


async def test_text_that_is_no_unicode_is_malformed(client: WireClient) -> None:
    """Protobuf accepts such text in messages of its second version, so it reaches the hub."""
    for preferences in (b"\x1a\x02\xff\xfe", b"\x0a\x05\x0a\x03\x0a\x01\xff"):
        request = pb.PubSubRequest(protocolVersion=pb.VERSION_ONE, type=pb.SUBSCRIBE, txnId=preferences[0], topic=T)
        request.subscribeRequest.subscriberId = S
        request.subscribeRequest.preferences.MergeFromString(preferences)
        client.send_frame(request.SerializeToString())
        assert (await client.answer(preferences[0])).status is StatusCode.MALFORMED_REQUEST


# ----------------------------------------------------------------------------------------- who is attached


async def test_a_subscription_served_elsewhere_is_busy(hub: Hub, client: WireClient, connect: Connect) -> None:
    await client.subscribed(T, S)
    other = await connect(hub)
    assert (await other.subscribe(T, S)).status is StatusCode.TOPIC_BUSY
    await other.publish(T, b"m")
    assert await client.delivered(1) == [1]
    assert other.undelivered == []
    await other.subscribed(T, b"another")


async def test_the_same_channel_subscribes_again_from_the_pointer(client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * 5)
    assert await client.delivered(5) == [1, 2, 3, 4, 5]
    client.consume(T, S, 2)
    await client.subscribed(T, S)
    assert await client.delivered(3) == [3, 4, 5]
    await client.publish(T, b"m")
    assert await client.delivered(1) == [6], "one delivery each, not two"
    assert client.events == []


async def test_a_forced_attach_takes_the_subscription_over_with_one_event(
    hub: Hub, client: WireClient, connect: Connect
) -> None:
    await client.subscribed(T, S)
    await client.subscribed(T, b"stays")
    await client.publish(T, b"1")
    await client.deliveries(2)
    other = await connect(hub)
    await other.subscribed(T, S, force=True)
    assert await other.delivered(1) == [1], "from the pointer"
    event = await client.event()
    assert (event.topic, event.subscriber, event.kind) == (T, S, EventKind.SUBSCRIPTION_FORCED_CLOSED)
    await other.publish(T, b"2")
    assert await other.delivered(1) == [2]
    assert [(each.subscriber, each.message.body) for each in await client.deliveries(1)] == [(b"stays", b"2")]
    await client.barrier()
    assert len(client.events) == 1
    assert client.undelivered == []


async def test_the_loser_of_a_forced_attach_that_subscribes_again_is_closed(
    hub: Hub, client: WireClient, connect: Connect
) -> None:
    """A Java client that receives a SUCCESS here closes the channel that it uses, and dies silently."""
    await client.subscribed(T, S)
    other = await connect(hub)
    await other.subscribed(T, S, force=True)
    await client.event()
    with pytest.raises(ChannelClosedError):
        await client.subscribe(T, S, force=True)
    await other.publish(T, b"m")
    assert await other.delivered(1) == [1], "the winner keeps it"
    third = await connect(hub)
    await third.subscribed(T, S, force=True)
    assert await third.delivered(1) == [1]


async def test_a_channel_whose_subscriptions_others_take_over_without_end_is_closed(
    hub: Hub, client: WireClient, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The channel must know all of them as long as it lives, so their number is bounded."""
    monkeypatch.setattr("hedwig.hub.connections.channel._FORCED_CLOSED_MAX", 3)
    other = await connect(hub)
    for number in range(4):
        await client.subscribed(T, b"taken-%d" % number)
    await client.subscribed(T, b"stays")
    for _ in range(3):  # The same subscriptions again and again add no more to know.
        for number in range(3):
            await other.subscribed(T, b"taken-%d" % number, force=True)
    await client.barrier()
    assert len(client.events) == 3
    await other.subscribed(T, b"taken-3", force=True)
    await client.closed_by_hub()
    assert len(client.events) == 4, "it is told all the same"
    again = await connect(hub)
    await again.subscribed(T, b"stays")
    await other.publish(T, b"m")
    assert await again.delivered(1) == [1]
    assert await other.delivered(4) == [1] * 4


async def test_a_forced_attach_of_ones_own_subscription_is_no_event(client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.subscribed(T, S, force=True)
    await client.publish(T, b"m")
    assert await client.delivered(1) == [1]
    assert client.events == []


async def test_a_channel_that_ends_frees_its_subscriptions_at_once(hub: Hub, connect: Connect) -> None:
    """Java clients attach again within milliseconds, even while the hub still stores the consume pointers."""
    first = await connect(hub)
    subscribers = [b"s%03d" % number for number in range(20)]
    for subscriber in subscribers:
        await first.subscribed(T, subscriber)
    await first.publish_many(T, b"1", b"2")
    await first.deliveries(40)
    second = await connect(hub)
    with locked(hub):
        for subscriber in subscribers:
            first.consume(T, subscriber, 1)
        await first.barrier()
        first.writer.close()
        await eventually(lambda: len(hub.channels) == 1, "the hub saw the end of the channel")
        sent = [second.send(T, Subscribe(subscriber=SubscriberId(each))) for each in subscribers]
        await second.barrier()
    statuses = {(await second.answer(txn_id)).status for txn_id in sent}
    assert statuses == {StatusCode.SUCCESS}
    got = await second.deliveries(20)
    assert [each.message.seq_id for each in got] == [MessageSeqId(2)] * 20, "no consume was lost on the way"
    assert second.undelivered == []


async def test_a_client_that_ends_its_half_and_does_not_read_frees_its_subscriptions(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub(channel_unsent_bytes=10_000)
    slow = await connect(hub)
    await slow.subscribed(T, S)
    slow.stop_reading()
    publisher = await connect(hub)
    await publisher.publish_many(T, *[b"x" * 100_000] * 100)
    slow.writer.write_eof()
    await eventually(lambda: len(hub.channels) == 1, "the hub saw the end of the channel")
    await publisher.subscribed(T, S)
    assert await publisher.delivered(1) == [1]


async def test_two_channels_that_ask_at_once_do_not_both_get_it(hub: Hub, connect: Connect) -> None:
    channels = [await connect(hub) for _ in range(5)]
    sent = [(each, each.send(T, Subscribe(subscriber=S))) for each in channels]
    statuses = [(await each.answer(txn_id)).status for each, txn_id in sent]
    assert sorted(statuses) == [StatusCode.SUCCESS] + [StatusCode.TOPIC_BUSY] * 4


async def test_one_channel_serves_many_subscriptions_of_many_topics(client: WireClient) -> None:
    pairs = [(b"T%d" % topic, b"s%d" % number) for topic in range(4) for number in range(4)]
    for topic, subscriber in pairs:
        await client.subscribed(topic, subscriber)
    for topic in (b"T0", b"T1", b"T2", b"T3"):
        await client.publish(topic, topic)
    got = await client.deliveries(16)
    assert sorted((each.topic, each.subscriber) for each in got) == pairs
    assert all(each.message.body == each.topic for each in got)


# --------------------------------------------------------------------------------------- close, unsubscribe


async def test_after_the_answer_to_a_close_nothing_is_delivered(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    for _ in range(10):
        txn_ids = [client.send(T, Publish(Message(b"m"))) for _ in range(5)]
        await client.close_subscription(T, S)
        position = len(client.received)
        for txn_id in txn_ids:
            await client.answer(txn_id)
        await client.publish(T, b"after")
        await client.barrier()
        assert not [each for each in client.received[position:] if isinstance(each, Delivery)]
        await client.subscribed(T, S)
    assert await record_of(hub) is not None


async def test_close_then_subscribe_at_once(client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.publish_many(T, b"1", b"2")
    await client.deliveries(2)
    client.consume(T, S, 1)
    closed = client.send(T, CloseSubscription(S))
    again = client.send(T, Subscribe(subscriber=S, mode=ATTACH))
    assert (await client.answer(closed)).status is StatusCode.SUCCESS
    assert (await client.answer(again)).status is StatusCode.SUCCESS
    assert await client.delivered(1) == [2]


async def test_close_of_what_is_not_there_is_fine(hub: Hub, client: WireClient, connect: Connect) -> None:
    assert (await client.close_subscription(T, S)).status is StatusCode.SUCCESS
    other = await connect(hub)
    await other.subscribed(T, S)
    assert (await client.close_subscription(T, S)).status is StatusCode.SUCCESS
    await client.publish(T, b"m")
    assert await other.delivered(1) == [1], "only the channel that it is attached to closes it"


async def test_a_close_is_confirmed_once_no_subscribe_before_it_can_attach(
    hub: Hub, client: WireClient, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub releases the topic while it handles a SUBSCRIBE, so it begins the SUBSCRIBE again."""
    manager = hub.incarnation.subscriptions
    create = manager.create
    closed: list[int] = []
    releases: list[asyncio.Task[None]] = []

    async def create_and_release(*args: Any) -> Any:
        version = await create(*args)
        owned = hub.topics.get(T)
        assert owned is not None
        releases.append(asyncio.create_task(hub.topics.release(owned)))
        await eventually(lambda: not owned.is_serving, "the topic is on its way out")
        closed.append(client.send(T, CloseSubscription(S)))
        await client.barrier()
        return version

    monkeypatch.setattr(manager, "create", create_and_release)
    assert (await client.subscribe(T, S)).status is StatusCode.SUCCESS
    assert (await client.answer(closed[0])).status is StatusCode.SUCCESS
    await asyncio.gather(*releases)
    other = await connect(hub)
    await other.subscribed(T, S)
    await client.publish(T, b"m")
    assert await other.delivered(1) == [1]
    assert client.undelivered == []


async def test_many_requests_about_one_subscription_without_waiting(client: WireClient) -> None:
    sent = [client.send(T, action(subscriber=S)) for _ in range(300) for action in (Subscribe, CloseSubscription)]
    sent.append(client.send(T, Subscribe(subscriber=S)))
    for txn_id in sent:
        assert (await client.answer(txn_id)).status is StatusCode.SUCCESS
    await client.publish(T, b"m")
    assert await client.delivered(1) == [1]


async def test_close_frees_the_subscription_for_another_channel(hub: Hub, client: WireClient, connect: Connect) -> None:
    await client.subscribed(T, S)
    await client.close_subscription(T, S)
    other = await connect(hub)
    await other.subscribed(T, S, mode=ATTACH)
    assert client.events == []


async def test_unsubscribe_on_another_channel(hub: Hub, client: WireClient, connect: Connect) -> None:
    await client.subscribed(T, S)
    await client.publish(T, b"1")
    await client.deliveries(1)
    other = await connect(hub)
    assert (await other.unsubscribe(T, S)).status is StatusCode.SUCCESS
    assert await record_of(hub) is None
    await other.publish(T, b"2")
    await client.barrier()
    assert client.undelivered == []
    await other.subscribed(T, S, mode=CREATE)
    await other.publish(T, b"3")
    assert await other.delivered(1) == [3], "a new subscription, not the old one"
    assert client.events == []


async def test_unsubscribe_of_an_unknown_subscriber(client: WireClient) -> None:
    assert (await client.unsubscribe(T, S)).status is StatusCode.CLIENT_NOT_SUBSCRIBED
    await client.subscribed(T, S)
    assert (await client.unsubscribe(T, S)).status is StatusCode.SUCCESS
    assert (await client.unsubscribe(T, S)).status is StatusCode.CLIENT_NOT_SUBSCRIBED
    await client.barrier()


async def test_unsubscribe_of_a_detached_subscription(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.close_subscription(T, S)
    assert (await client.unsubscribe(T, S)).status is StatusCode.SUCCESS
    assert await record_of(hub) is None


async def test_subscribe_and_unsubscribe_one_after_the_other_without_waiting(client: WireClient) -> None:
    sent = []
    for _ in range(20):
        sent.append(client.send(T, Subscribe(subscriber=S, mode=CREATE)))
        sent.append(client.send(T, Unsubscribe(S)))
    assert {(await client.answer(txn_id)).status for txn_id in sent} == {StatusCode.SUCCESS}


# ---------------------------------------------------------------------------------- changed by another client


async def test_a_subscription_that_somebody_else_made(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, b"1", b"2")
    await hub.metadata.subscriptions.create(
        T, S, SubscriptionData(preferences=SubscriptionPreferences(message_bound=50))
    )
    assert await client.subscribed(T, S, mode=ATTACH) == SubscriptionPreferences(message_bound=50)
    assert await client.delivered(2) == [1, 2], "a record without a pointer begins at the beginning"


async def test_a_subscription_deleted_behind_the_hub_ends_with_its_channel(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.publish(T, b"1")
    await client.deliveries(1)
    await hub.metadata.subscriptions.delete(T, S, ANY)
    client.consume(T, S, 1)
    await client.close_subscription(T, S)
    await detached(hub)
    assert (await record_of(hub)) is None, "a late write must not bring it back"


async def test_an_unsubscribe_is_tried_again_only_while_the_topic_is_served(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub refuses it as the topic goes. The next owner may have acknowledged the subscription since."""
    await client.subscribed(T, S)
    await client.close_subscription(T, S)
    manager = hub.incarnation.subscriptions
    delete = manager.delete
    served: list[bool] = []

    async def delete_too_late(*args: Any) -> None:
        owned = hub.topics.get(T)
        served.append(owned is not None)
        if len(served) == 1:
            assert owned is not None
            await hub.topics.release(owned)
            changed = SubscriptionData(preferences=SubscriptionPreferences(message_bound=7))
            await hub.metadata.subscriptions.update(T, S, changed, ANY)
        await delete(*args)

    monkeypatch.setattr(manager, "delete", delete_too_late)
    assert (await client.unsubscribe(T, S)).status is StatusCode.SUCCESS
    assert served == [True, True], "it is carried out anew once the topic is claimed again"
    assert await record_of(hub) is None


async def test_unsubscribe_of_what_somebody_else_deleted_ends_the_delivery(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    await hub.metadata.subscriptions.delete(T, S, ANY)
    assert (await client.unsubscribe(T, S)).status is StatusCode.CLIENT_NOT_SUBSCRIBED
    await client.publish(T, b"m")
    await client.barrier()
    assert client.undelivered == []
    await client.subscribed(T, S, mode=CREATE)


async def test_subscribe_of_what_somebody_else_deleted_makes_it_anew(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    await hub.metadata.subscriptions.delete(T, S, ANY)
    asked = SubscriptionPreferences(message_window_size=3)
    assert await client.subscribed(T, S, preferences=asked) == asked
    assert await record_of(hub) is not None


async def test_preferences_that_somebody_else_changed_are_merged_into(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    theirs = SubscriptionData(preferences=SubscriptionPreferences(message_bound=7))
    await hub.metadata.subscriptions.update(T, S, theirs, ANY)
    asked = SubscriptionPreferences(message_window_size=3)
    merged = SubscriptionPreferences(message_window_size=3, message_bound=7)
    assert await client.subscribed(T, S, preferences=asked) == merged


async def test_unsubscribe_wins_over_a_record_that_changed(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    theirs = SubscriptionData(preferences=SubscriptionPreferences(message_bound=7))
    await hub.metadata.subscriptions.update(T, S, theirs, ANY)
    assert (await client.unsubscribe(T, S)).status is StatusCode.SUCCESS
    assert await record_of(hub) is None


async def test_a_subscription_survives_a_restart_and_a_release(start_hub: StartHub, connect: Connect) -> None:
    async with await start_hub() as hub:
        client = await connect(hub)
        await client.subscribed(T, S)
        await client.publish_many(T, b"1", b"2")
        await client.close_subscription(T, S)
        topic = hub.topics.get(T)
        assert topic is not None
        await hub.topics.release(topic)
        await client.publish(T, b"3")
        await client.close()
    client = await connect(await start_hub())
    await client.subscribed(T, S, mode=ATTACH)
    assert await client.delivered(3) == [1, 2, 3]


async def test_thousand_subscriptions_at_once(hub: Hub, client: WireClient) -> None:
    sent = [client.send(T, Subscribe(subscriber=SubscriberId(b"%d" % number))) for number in range(1000)]
    assert {(await client.answer(txn_id)).status for txn_id in sent} == {StatusCode.SUCCESS}
    await client.publish(T, b"m")
    assert len({each.subscriber for each in await client.deliveries(1000)}) == 1000
    async with asyncio.timeout(20):
        stored = [subscriber async for subscriber, _ in hub.metadata.subscriptions.read_subscriptions(T)]
    assert len(stored) == 1000
