"""Consuming, over the wire: the position of the pointer, and when it is stored."""

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.status import StatusCode
from hedwig.versions import ANY
from hedwig.wire import CreateOrAttach, Subscribe
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.locked_metadata import locked
from tests.hub.support.wire_client import WireClient, eventually

T, S = Topic(b"T"), SubscriberId(b"s")


async def pointer(hub: Hub, topic: bytes = T, subscriber: bytes = S) -> int:
    """Return the stored consume pointer."""
    record = await hub.metadata.subscriptions.read(Topic(topic), SubscriberId(subscriber))
    assert record is not None
    assert record.value.state is not None
    return record.value.state.consumed.local


async def stored(hub: Hub, expected: int) -> None:
    async def is_stored() -> bool:
        return await pointer(hub) == expected

    await eventually(is_stored, f"the stored consume pointer is {expected}")


async def move(hub: Hub, local: int) -> None:
    """Move the stored consume pointer, as another client would."""
    state = SubscriptionData(state=SubscriptionState(MessageSeqId(local)))
    await hub.metadata.subscriptions.update(T, S, state, ANY)


async def attached(hub: Hub, connect: Connect, count: int) -> WireClient:
    """Return a channel to which `count` messages were delivered."""
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * count)
    assert await client.delivered(count) == list(range(1, count + 1))
    return client


async def test_consume_is_cumulative_and_never_goes_back(hub: Hub, connect: Connect) -> None:
    client = await attached(hub, connect, 6)
    client.consume(T, S, 4)
    client.consume(T, S, 2)
    await client.subscribed(T, S)
    assert await client.delivered(2) == [5, 6]


async def test_consume_beyond_the_end_is_the_end(hub: Hub, connect: Connect) -> None:
    client = await attached(hub, connect, 3)
    for beyond in (4, 1 << 40, (1 << 64) - 1):
        client.consume(T, S, beyond)
    await client.publish(T, b"m")
    assert await client.delivered(1) == [4]
    await client.subscribed(T, S)
    assert await client.delivered(1) == [4], "what was not published then was not consumed"


async def test_consume_of_nothing_and_of_nobody_is_no_answer(hub: Hub, connect: Connect) -> None:
    client = await attached(hub, connect, 3)
    client.consume(T, S, 0)
    client.consume(T, b"unknown", 2)
    client.consume(b"unknown topic", S, 2)
    await client.close_subscription(T, S)
    received = len(client.received)
    await client.barrier()
    assert len(client.received) == received + 1
    assert await pointer(hub) == 0


async def test_consume_of_a_detached_subscription(hub: Hub, connect: Connect) -> None:
    client = await attached(hub, connect, 5)
    await client.close_subscription(T, S)
    client.consume(T, S, 3)
    client.consume(T, S, 1)
    await stored(hub, 3)
    await client.subscribed(T, S)
    assert await client.delivered(2) == [4, 5]


async def test_consume_on_another_channel(hub: Hub, connect: Connect) -> None:
    client = await attached(hub, connect, 5)
    other = await connect(hub)
    other.consume(T, S, 3)
    await other.barrier()
    await client.subscribed(T, S)
    assert await client.delivered(2) == [4, 5]


async def test_consume_right_behind_subscribe(hub: Hub, connect: Connect) -> None:
    client = await attached(hub, connect, 5)
    await client.close_subscription(T, S)
    answer = client.send(T, Subscribe(subscriber=S))
    client.consume(T, S, 4)
    await client.answer(answer)
    await client.close_subscription(T, S)
    assert await pointer(hub) == 4


async def test_the_pointer_is_stored_at_the_interval_and_not_before(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(consume_interval=5, consume_flush_s=3600.0)
    client = await attached(hub, connect, 20)
    for local in range(1, 5):
        client.consume(T, S, local)
    await client.barrier()
    assert await pointer(hub) == 0
    client.consume(T, S, 5)
    await stored(hub, 5)
    client.consume(T, S, 9)
    await client.barrier()
    assert await pointer(hub) == 5
    client.consume(T, S, 17)
    await stored(hub, 17)


async def test_the_pointer_is_stored_after_the_time(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(consume_flush_s=0.05)
    client = await attached(hub, connect, 3)
    client.consume(T, S, 2)
    await stored(hub, 2)
    client.consume(T, S, 3)
    await stored(hub, 3)


@pytest.fixture
async def lazy(start_hub: StartHub) -> Hub:
    """A hub that stores no consume pointer by itself."""
    return await start_hub(consume_interval=1000, consume_flush_s=3600.0, ledger_messages_max=3)


async def test_the_pointer_is_stored_at_close(lazy: Hub, connect: Connect) -> None:
    client = await attached(lazy, connect, 3)
    client.consume(T, S, 2)
    await client.close_subscription(T, S)
    assert await pointer(lazy) == 2


async def test_the_pointer_is_stored_when_the_channel_ends(lazy: Hub, connect: Connect) -> None:
    client = await attached(lazy, connect, 3)
    client.consume(T, S, 2)
    await client.barrier()
    await client.close()
    await stored(lazy, 2)


async def test_the_pointer_is_stored_at_release(lazy: Hub, connect: Connect) -> None:
    client = await attached(lazy, connect, 3)
    client.consume(T, S, 2)
    await client.barrier()
    topic = lazy.topics.get(T)
    assert topic is not None
    await lazy.topics.release(topic)
    assert await pointer(lazy) == 2


async def test_the_pointer_is_stored_at_shutdown(lazy: Hub, start_hub: StartHub, connect: Connect) -> None:
    client = await attached(lazy, connect, 3)
    client.consume(T, S, 2)
    await client.barrier()
    await lazy.close()
    hub = await start_hub()
    assert await pointer(hub) == 2
    client = await connect(hub)
    await client.subscribed(T, S, mode=CreateOrAttach.ATTACH)
    assert await client.delivered(1) == [3]


async def test_a_pointer_that_somebody_else_moved_is_not_lost(lazy: Hub, connect: Connect) -> None:
    client = await attached(lazy, connect, 5)
    await move(lazy, 4)
    client.consume(T, S, 2)
    await client.close_subscription(T, S)
    assert await pointer(lazy) == 4, "the further one counts"
    await move(lazy, 1)
    await client.subscribed(T, S)
    assert await client.delivered(4) == [2, 3, 4, 5], "who moves it back wants to see it again"


async def test_a_pointer_stands_beyond_the_topic(lazy: Hub, connect: Connect) -> None:
    """This happens after a restore of a part of the metadata. Messages with consumed ids are not delivered."""
    other = await connect(lazy)
    await other.subscribed(T, S)
    await other.close_subscription(T, S)
    await move(lazy, 3)
    await other.subscribed(T, S)
    await other.publish_many(T, *[b"m"] * 5)
    assert await other.delivered(2) == [4, 5]


async def test_pointers_are_stored_once_the_metadata_answer_again(
    start_hub: StartHub, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    hub = await start_hub(consume_flush_s=0.05, operation_timeout_s=0.2)
    client = await attached(hub, connect, 5)
    with locked(hub):
        client.consume(T, S, 2)
        await eventually(lambda: "is not stored yet" in caplog.text, "a write failed")
        client.consume(T, S, 3)
        await client.publish(T, b"m")
    await stored(hub, 3)
    assert (await client.unsubscribe(T, S)).status is StatusCode.SUCCESS


async def test_consumes_without_end_stop_the_reading_of_their_channel(start_hub: StartHub, connect: Connect) -> None:
    """Consumes have no answer. So nothing else slows a client that sends them faster than the metadata store them."""
    hub = await start_hub(channel_requests_max=50)
    client, other = await connect(hub), await connect(hub)
    await client.subscribed(T, S)
    await client.publish_many(T, *[b"m"] * 5)
    await client.close_subscription(T, S)
    with locked(hub):
        for _ in range(20):
            for _ in range(200):
                client.consume(T, S, 5)
            await other.barrier()
        assert any(channel._is_paused for channel in hub.channels)
    await stored(hub, 5)
    await client.barrier()


async def test_a_consume_that_waits_while_its_topic_is_released_is_carried_out(lazy: Hub, connect: Connect) -> None:
    client = await attached(lazy, connect, 6)
    await client.close_subscription(T, S)
    topic = lazy.topics.get(T)
    assert topic is not None
    async with lazy.subscribing._turns.turn((T, S)):
        client.consume(T, S, 4)
        await eventually(lambda: lazy.requests.unanswered_bytes > 0, "the consume waits for its turn")
        await lazy.topics.release(topic)
    await client.subscribed(T, S)
    assert await client.delivered(2) == [5, 6]
    assert await pointer(lazy) == 4


async def test_a_pointer_that_moves_while_it_is_stored_is_stored_all_the_same(lazy: Hub, connect: Connect) -> None:
    """This holds however often the pointer moves: the hub gives up only after refusals."""
    client = await attached(lazy, connect, 30)
    topic = lazy.topics.get(T)
    assert topic is not None
    subscription = topic.subscription(S)
    assert subscription is not None
    apply = lazy.subscribing.pointers._manager.apply
    rounds = 0

    async def apply_while_it_moves(operations):  # type: ignore[no-untyped-def]
        nonlocal rounds
        rounds += 1
        subscription.consume(MessageSeqId(min(30, subscription.consumed + 1)))
        return await apply(operations)

    subscription.consume(MessageSeqId(10))
    lazy.subscribing.pointers._manager.apply = apply_while_it_moves  # type: ignore[method-assign]
    await client.close_subscription(T, S)
    assert rounds > 10
    assert await pointer(lazy) == 30
