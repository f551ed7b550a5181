"""Retention deletes nothing that concurrent work needs: a seek back, and a session that is behind."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hedwig.errors import ServiceDownError
from hedwig.hub.hub import Hub
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.subscriptions.operator_actions import Edge, OperatorActions, Sought
from hedwig.hub.topics.topic import AttachedCursor, OwnedTopic
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.versions import Versioned
from tests.hub.conftest import Connect, StartHub
from tests.hub.logs.test_conformance_retention import S, T, held, settled
from tests.hub.subscriptions.test_conformance_subscribe import detached, record_of
from tests.hub.support.locked_metadata import locked
from tests.hub.support.wire_client import WireClient, eventually

_SubscriptionsOf = AsyncIterator[tuple[SubscriberId, Versioned[SubscriptionData]]]


class _HeldReading:
    """Has the next retention pass read all subscriptions, and then wait until `go_on` is set."""

    def __init__(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_read = asyncio.Event()
        self.go_on = asyncio.Event()
        self._read = hub.incarnation.subscriptions.read_subscriptions
        monkeypatch.setattr(hub.incarnation.subscriptions, "read_subscriptions", self._read_and_wait)

    async def _read_and_wait(self, topic: Topic) -> _SubscriptionsOf:
        async for each in self._read(topic):
            yield each
        self.has_read.set()
        await self.go_on.wait()


async def _owned(hub: Hub, client: WireClient, messages: int, consumed: int) -> OwnedTopic:
    """Publish messages, of which a detached subscriber has consumed some."""
    await client.subscribed(T, S)
    ids = await client.publish_many(T, *[b"m"] * messages)
    assert await client.delivered(messages) == ids
    client.consume(T, S, consumed)
    assert (await client.close_subscription(T, S)).status is StatusCode.SUCCESS
    await settled(hub)
    topic = hub.topics.get(T)
    assert topic is not None
    return topic


async def _seek(hub: Hub, topic: OwnedTopic, to: int | Edge) -> Sought:
    interventions = OperatorActions(hub.incarnation.subscriptions, hub.subscribing, hub.incarnation.backlogs)
    return await interventions.seek(topic, S, to, force=True, expected=None)


# -------------------------------------------------------------------------------------------------------- a seek back


async def test_a_seek_back_beside_a_pass_that_reads_keeps_what_it_was_told(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await _owned(hub, client, 10, 9)
    reading = _HeldReading(hub, monkeypatch)
    collecting = asyncio.create_task(hub.retention.collect(topic))
    await reading.has_read.wait()
    sought = await _seek(hub, topic, 4)
    assert (sought.consumed, sought.next_id, sought.first_id) == (4, 5, 1)
    reading.go_on.set()
    assert await collecting == 3, "only what is before the new position"
    await client.subscribed(T, S)
    assert await client.delivered(6) == [5, 6, 7, 8, 9, 10]
    client.consume(T, S, 9)
    await client.close_subscription(T, S)
    assert await hub.retention.collect(topic) == 6, "it is looked at again"


async def test_a_seek_back_waits_for_a_pass_that_deletes(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass has decided what to delete, and waits for its turn to change the ranges."""
    topic = await _owned(hub, client, 10, 9)
    has_decided, go_on = asyncio.Event(), asyncio.Event()
    delete_consumed = DurableLog.delete_consumed

    async def delete_later(log: DurableLog, consumed: int) -> int:
        has_decided.set()
        await go_on.wait()
        return await delete_consumed(log, consumed)

    monkeypatch.setattr(DurableLog, "delete_consumed", delete_later)
    collecting = asyncio.create_task(hub.retention.collect(topic))
    await has_decided.wait()
    seeking = asyncio.create_task(_seek(hub, topic, Edge.START))
    for _ in range(5):
        await record_of(hub)  # A seek that did not wait would write meanwhile.
    go_on.set()
    assert await collecting == 9
    sought = await seeking
    assert (sought.consumed, sought.next_id, sought.first_id) == (9, 10, 10)
    await client.subscribed(T, S)
    assert await client.delivered(1) == [10]


async def test_a_seek_that_waits_for_a_deletion_has_a_deadline(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(ledger_messages_max=3, operation_timeout_s=1.0)
    topic = await _owned(hub, await connect(hub), 10, 9)
    before = await record_of(hub)
    async with hub.subscribing.starts.deletion(T):
        with pytest.raises(ServiceDownError, match="being deleted"):
            await _seek(hub, topic, Edge.START)
    assert await record_of(hub) == before
    assert (await _seek(hub, topic, Edge.START)).consumed == 0


# ------------------------------------------------------------------------------------------------ an attached session


async def test_a_session_that_consumed_ahead_gets_all_that_it_was_not_sent(
    start_hub: StartHub, connect: Connect
) -> None:
    """It does not read, and consumes messages that are still unsent, as a client may after it attaches again."""
    hub = await start_hub(ledger_messages_max=3, cache_bytes=0, channel_unsent_bytes=1 << 16)
    publisher, slow = await connect(hub), await connect(hub)
    await slow.subscribed(T, S)
    slow.stop_reading()
    count = 0
    while (cursor := _cursor(hub)).next_id == count + 1:
        count = (await publisher.publish_many(T, *[b"x" * 100_000] * 10))[-1]
        await settled(hub)
        assert count < 1000, "the channel fills"
    slow.consume(T, S, count)
    await eventually(lambda: _is_stored(hub, count), "the pointer is stored")
    topic = hub.topics.get(T)
    assert topic is not None
    await hub.retention.sweep()
    assert (await held(hub))[0][0] <= cursor.next_id
    slow.read_on()
    assert await slow.delivered(count) == list(range(1, count + 1))
    await hub.retention.sweep()
    assert (await held(hub))[0][0] > count - 3, "it is looked at again once the session has it all"


def _cursor(hub: Hub) -> AttachedCursor:
    topic = hub.topics.get(T)
    assert topic is not None
    (cursor,) = topic.cursors()
    return cursor


async def _is_stored(hub: Hub, count: int) -> bool:
    record = await record_of(hub)
    return record is not None and record.value.state is not None and record.value.state.consumed.local == count


async def test_a_session_with_a_bound_keeps_no_more_than_that(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(ledger_messages_max=3)
    client = await connect(hub)
    bounded = SubscriptionPreferences(message_bound=4, message_window_size=1)
    await client.subscribed(T, S, preferences=bounded)
    await client.publish_many(T, *[b"m"] * 13)
    await settled(hub)
    await hub.retention.sweep()
    assert (await held(hub))[0] == (10, 12), "13 - 4 = 9 is the last that it does not get"


# ------------------------------------------------------------------------------------------------------------ a close


async def test_a_close_whose_pointer_is_not_stored_is_refused_and_changes_nothing(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub(operation_timeout_s=1.0, consume_flush_s=3600.0)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.publish_many(T, b"1", b"2")
    assert await client.delivered(2) == [1, 2]
    client.consume(T, S, 1)
    with locked(hub):
        answer = await client.close_subscription(T, S)
    assert answer.status in (StatusCode.SERVICE_DOWN, StatusCode.UNCERTAIN_STATE)
    await client.publish(T, b"3")
    assert await client.delivered(1) == [3], "it is attached as it was"
    assert (await client.close_subscription(T, S)).status is StatusCode.SUCCESS
    await detached(hub)
    record = await record_of(hub)
    assert record is not None
    assert record.value.state is not None
    assert record.value.state.consumed == MessageSeqId(1)
