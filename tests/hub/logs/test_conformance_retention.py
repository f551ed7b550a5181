"""Retention: the hub deletes whole ledgers once all subscribers have consumed them, and ids continue after that."""

import asyncio

from hedwig.hub.hub import Hub
from hedwig.model import (
    LedgerRange,
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.versions import ANY
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.wire_client import WireClient, eventually

T, S = Topic(b"T"), SubscriberId(b"s")


async def ranges_of(hub: Hub) -> tuple[LedgerRange, ...]:
    record = await hub.metadata.persistence.read(T)
    assert record is not None
    return record.value.ranges


async def held(hub: Hub) -> list[tuple[int, int | None]]:
    """Return the first and last ids of the ledgers that hold messages, None for one that is open."""
    return [
        (each.start or 0, each.end.local if each.end else None)
        for each in await ranges_of(hub)
        if each.end is None or each.end.local >= (each.start or 0)
    ]


async def ledger_ids(hub: Hub) -> list[int]:
    return [ledger_id async for ledger_id in hub.ledgers.ledgers()]


async def settled(hub: Hub) -> None:
    """Wait until the log of the topic makes no ledger."""
    await eventually(lambda: (topic := hub.topics.get(T)) is None or topic.log.is_idle, "the log is idle")


async def sweep(hub: Hub) -> None:
    await settled(hub)
    await hub.retention.sweep()


async def make(hub: Hub, subscriber: bytes, consumed: int, bound: int | None = None) -> None:
    """Create a subscription, as another client would."""
    data = SubscriptionData(
        preferences=SubscriptionPreferences(message_bound=bound), state=SubscriptionState(MessageSeqId(consumed))
    )
    await hub.metadata.subscriptions.create(T, SubscriberId(subscriber), data)


async def consume(client: WireClient, hub: Hub, local: int) -> None:
    """Consume, and wait until the pointer is stored."""
    client.consume(T, S, local)
    await client.close_subscription(T, S)
    await client.subscribed(T, S)


async def release(hub: Hub) -> None:
    topic = hub.topics.get(T)
    assert topic is not None
    await hub.topics.release(topic)


async def test_only_whole_consumed_ledgers_go(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * 10)
    for consumed, first in ((0, 1), (2, 1), (3, 4), (5, 4), (8, 7), (10, 10)):
        await consume(client, hub, consumed)
        await sweep(hub)
        assert (await held(hub))[0][0] == first
        assert await ledger_ids(hub) == [each.ledger_id for each in await ranges_of(hub)]
    await client.subscribed(T, S)
    await client.publish(T, b"m")
    assert await client.deliveries(1)


async def test_the_slowest_subscription_counts_attached_or_not(hub: Hub, client: WireClient, connect: Connect) -> None:
    await client.subscribed(T, S)
    other = await connect(hub)
    await other.subscribed(T, b"slow")
    await client.publish_many(T, *[b"m"] * 10)
    await other.deliveries(10)
    other.consume(T, b"slow", 4)
    await other.close_subscription(T, b"slow")
    await consume(client, hub, 10)
    await sweep(hub)
    assert (await held(hub))[0] == (4, 6)
    await other.subscribed(T, b"slow")
    assert await other.delivered(6) == [5, 6, 7, 8, 9, 10]


async def test_unstored_consumes_do_not_count(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(ledger_messages_max=3, consume_interval=1000, consume_flush_s=3600.0)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * 7)
    client.consume(T, S, 7)
    await client.barrier()
    await sweep(hub)
    assert (await held(hub))[0] == (1, 3)


async def test_without_subscribers_every_closed_ledger_goes_each_time(hub: Hub, client: WireClient) -> None:
    """The original collects such a topic only once. A hub that forgets to check again fills its disk."""
    for round_ in range(1, 5):
        await client.publish_many(T, *[b"m"] * 6)
        await sweep(hub)
        assert await held(hub) == [(6 * round_ + 1, None)]
        assert len(await ledger_ids(hub)) == 1


async def test_a_ledger_that_closes_after_its_messages_were_consumed_goes_too(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * 5)
    await consume(client, hub, 5)
    await sweep(hub)
    assert await held(hub) == [(4, None)]
    await client.publish(T, b"m")
    await sweep(hub)
    await consume(client, hub, 6)
    await sweep(hub)
    assert await held(hub) == [(7, None)]


async def test_an_unsubscribe_lets_ledgers_go(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * 7)
    await sweep(hub)
    assert (await held(hub))[0] == (1, 3)
    await client.unsubscribe(T, S)
    await sweep(hub)
    assert await held(hub) == [(7, None)]


async def test_subscriptions_that_others_made_count(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *[b"m"] * 7)
    await make(hub, b"theirs", 4)
    await make(hub, b"other", 6)
    await sweep(hub)
    assert (await held(hub))[0] == (4, 6)
    await client.subscribed(T, b"theirs")
    assert await client.delivered(3) == [5, 6, 7]


async def test_a_subscription_without_a_pointer_has_consumed_nothing(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *[b"m"] * 7)
    await hub.metadata.subscriptions.create(T, S, SubscriptionData(preferences=SubscriptionPreferences()))
    await sweep(hub)
    assert (await held(hub))[0] == (1, 3)


async def test_bounds_let_ledgers_go_that_nobody_gets(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *[b"m"] * 13)
    await make(hub, b"two", 0, bound=2)
    await make(hub, b"five", 0, bound=5)
    await sweep(hub)
    assert (await held(hub))[0] == (7, 9), "13 - 5 = 8 is the last that nobody gets"
    await client.subscribed(T, b"five")
    assert await client.delivered(5) == [9, 10, 11, 12, 13]


async def test_one_subscription_without_a_bound_keeps_everything(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *[b"m"] * 13)
    await make(hub, b"two", 0, bound=2)
    await make(hub, b"all", 1)
    await make(hub, b"none", 1, bound=0)
    await sweep(hub)
    assert (await held(hub))[0] == (1, 3)


async def test_ids_go_on_when_all_ledgers_are_gone(start_hub: StartHub, connect: Connect) -> None:
    next_id = 1
    for count in (4, 0, 3, 1, 7):
        async with await start_hub(ledger_messages_max=3) as hub:
            client = await connect(hub)
            await client.subscribed(T, S)
            await client.unsubscribe(T, S)
            assert await client.publish_many(T, *[b"m"] * count) == list(range(next_id, next_id + count))
            next_id += count
            await settled(hub)
            await release(hub)
            assert await ledger_ids(hub) == []
            assert await held(hub) == []
            await client.close()


async def test_an_emptied_topic_serves_on(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *[b"m"] * 4)
    await settled(hub)
    await release(hub)
    assert await ledger_ids(hub) == []
    await client.subscribed(T, S)
    assert await client.publish_many(T, *[b"m"] * 4) == [5, 6, 7, 8]
    assert await client.delivered(4) == [5, 6, 7, 8]
    await consume(client, hub, 7)
    await sweep(hub)
    assert await held(hub) == [(8, None)]


async def test_a_subscription_behind_what_was_deleted_gets_the_rest(hub: Hub, client: WireClient) -> None:
    """Another client made it with an old pointer. The hub must not wait for messages that are deleted."""
    await client.publish_many(T, *[b"m"] * 4)
    await settled(hub)
    await release(hub)
    assert await ledger_ids(hub) == []
    await make(hub, S, 0)
    await client.publish_many(T, b"5", b"6")
    await client.subscribed(T, S)
    assert await client.delivered(2) == [5, 6]
    await client.publish(T, b"7")
    assert await client.delivered(1) == [7]


async def test_a_subscription_behind_an_emptied_topic_gets_what_follows(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *[b"m"] * 4)
    await settled(hub)
    await release(hub)
    await make(hub, S, 0)
    await client.subscribed(T, S)
    await client.publish(T, b"m")
    assert await client.delivered(1) == [5]


async def test_retention_and_publishing_do_not_get_in_each_others_way(hub: Hub, client: WireClient) -> None:
    await client.subscribed(T, S)
    for round_ in range(10):
        ids = asyncio.create_task(client.publish_many(T, *[b"m"] * 7))
        client.consume(T, S, 7 * round_)
        while not ids.done():
            topic = hub.topics.get(T)
            assert topic is not None
            topic.is_to_collect = True
            await hub.retention.sweep()
            await client.barrier()
        assert await ids == list(range(7 * round_ + 1, 7 * round_ + 8))
    assert await client.delivered(70) == list(range(1, 71))
    assert hub.topics.released == 0, "the topic was never given up"


async def test_deleted_messages_give_their_space_back(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *[b"x" * 100_000] * 40)

    async def stored_bytes() -> int:
        size = (await hub.ledgers.stats()).stored_bytes
        assert size is not None
        return size

    before = await stored_bytes()
    await sweep(hub)

    async def is_smaller() -> bool:
        return await stored_bytes() < before // 2

    await eventually(is_smaller, "the space is given back")


async def test_a_moved_pointer_counts_when_the_topic_is_released(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, *[b"m"] * 7)
    await make(hub, S, 0)
    await sweep(hub)
    state = SubscriptionData(state=SubscriptionState(MessageSeqId(6)))
    await hub.metadata.subscriptions.update(T, S, state, ANY)
    await release(hub)
    assert await held(hub) == [(7, 7)]


async def test_retention_runs_by_itself(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(ledger_messages_max=3, retention_interval_s=0.05)
    client = await connect(hub)
    await client.publish_many(T, *[b"m"] * 7)

    async def is_gone() -> bool:
        return await held(hub) == [(7, None)]

    await eventually(is_gone, "consumed ledgers are deleted")


async def test_nothing_goes_that_a_subscription_in_the_making_starts_at(hub: Hub, client: WireClient) -> None:
    """Retention may read the records just before the new one is there."""
    await client.publish_many(T, *[b"m"] * 10)
    await settled(hub)
    topic = hub.topics.get(T)
    assert topic is not None
    with hub.subscribing.starts.at(topic.name, 5):
        assert await hub.retention.collect(topic) == 3
        assert await held(hub) == [(4, 6), (7, 9), (10, None)]
    assert await hub.retention.collect(topic) == 6


async def test_small_ledgers_that_must_stay_are_merged_when_the_topic_is_released(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub()
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.close_subscription(T, S)
    for number in range(1, 21):
        assert await client.publish(T, b"%d" % number) == number
        await settled(hub)
        await release(hub)
    assert await held(hub) == [(1, 16), (17, 17), (18, 18), (19, 19), (20, 20)]
    assert await ledger_ids(hub) == [each.ledger_id for each in sorted(await ranges_of(hub), key=lambda r: r.ledger_id)]
    await client.subscribed(T, S)
    assert await client.delivered(20) == list(range(1, 21))
