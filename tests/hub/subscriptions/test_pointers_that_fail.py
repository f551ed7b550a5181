"""A consume pointer that cannot be stored, for any reason, keeps no other subscriber from its detachment and answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hedwig.errors import InvalidArgumentError, MetadataUnavailableError, RecordTooLargeError
from hedwig.hub.hub import Hub
from hedwig.metadata import Operation, Outcome
from hedwig.model import MessageSeqId, RegionSeqId, SubscriberId, SubscriptionData, Topic
from hedwig.status import StatusCode
from hedwig.wire import Consume
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.locked_metadata import locked
from tests.hub.support.wire_client import DEADLINE_S, WireClient, eventually

T = Topic(b"T")
ORDER = (b"before", b"bad", b"behind")

FAILURES: list[type[Exception]] = [RecordTooLargeError, MetadataUnavailableError, RuntimeError]


async def pointer(hub: Hub, subscriber: bytes) -> MessageSeqId:
    record = await hub.metadata.subscriptions.read(T, SubscriberId(subscriber))
    assert record is not None
    assert record.value.state is not None
    return record.value.state.consumed


def fail_for_bad(hub: Hub, error: type[Exception]) -> Callable[[], None]:
    """Make writes of the subscription `bad` fail with `error`; return a function that ends that."""
    pointers: Any = hub.subscribing.pointers
    apply = pointers._manager.apply

    async def failing(operations: Sequence[Operation[SubscriptionData]]) -> list[Outcome[SubscriptionData]]:
        if any(each.key.subscriber == b"bad" for each in operations):
            raise error("it cannot be stored")
        outcomes: list[Outcome[SubscriptionData]] = await apply(operations)
        return outcomes

    pointers._manager.apply = failing

    def end() -> None:
        pointers._manager.apply = apply

    return end


async def consumed_by_each(hub: Hub, connect: Connect, *, together: bool = False) -> list[WireClient]:
    """Attach `ORDER`, on one channel or on one each, and have each consume the second of three messages."""
    clients = [await connect(hub)]
    while not together and len(clients) < len(ORDER):
        clients.append(await connect(hub))
    for number, subscriber in enumerate(ORDER):
        await clients[number % len(clients)].subscribed(T, subscriber)
    await clients[0].publish_many(T, b"1", b"2", b"3")
    for client in clients:
        await client.delivered(3 * len(ORDER) // len(clients))
    for number, subscriber in enumerate(ORDER):
        clients[number % len(clients)].consume(T, subscriber, 2)
    for client in clients:
        await client.barrier()
    return clients


@pytest.fixture
async def lazy(start_hub: StartHub) -> Hub:
    """A hub that stores no consume pointer by itself."""
    return await start_hub(consume_interval=1000, consume_flush_s=3600.0)


@pytest.mark.parametrize("error", FAILURES)
async def test_a_release_detaches_and_tells_everybody(lazy: Hub, connect: Connect, error: type[Exception]) -> None:
    clients = await consumed_by_each(lazy, connect)
    topic = lazy.topics.get(T)
    assert topic is not None
    end = fail_for_bad(lazy, error)
    await lazy.topics.release(topic)
    end()
    for client in clients:
        await client.closed_by_hub()
    assert not topic.has_attached
    assert [(await pointer(lazy, each)).local for each in ORDER] == [2, 0, 2]
    assert await lazy.metadata.ownership.read(T) is None
    ranges = await lazy.metadata.persistence.read(T)
    assert ranges is not None
    assert ranges.value.ranges[-1].end is not None, "the log was closed in order"


@pytest.mark.parametrize("error", FAILURES)
async def test_a_lost_connection_leaves_nothing_attached(lazy: Hub, connect: Connect, error: type[Exception]) -> None:
    (client,) = await consumed_by_each(lazy, connect, together=True)
    topic = lazy.topics.get(T)
    assert topic is not None
    end = fail_for_bad(lazy, error)
    await client.close()
    await eventually(lambda: not topic.has_attached, "nothing is attached")
    end()
    assert [(await pointer(lazy, each)).local for each in ORDER] == [2, 0, 2]
    again = await connect(lazy)
    for subscriber, expected in zip(ORDER, ([3], [1, 2, 3], [3]), strict=True):
        await again.subscribed(T, subscriber)
        assert await again.delivered(len(expected)) == expected


@pytest.mark.parametrize("error", FAILURES)
async def test_a_flush_stores_the_others_later_and_all_in_the_end(
    start_hub: StartHub, connect: Connect, error: type[Exception]
) -> None:
    hub = await start_hub(consume_flush_s=0.05)
    topic_clients = await consumed_by_each(hub, connect)
    end = fail_for_bad(hub, error)
    for client, subscriber in zip(topic_clients, ORDER, strict=True):
        client.consume(T, subscriber, 3)
        await client.barrier()
    end()

    async def are_stored() -> bool:
        return [(await pointer(hub, each)).local for each in ORDER] == [3, 3, 3]

    await eventually(are_stored, "all pointers are stored")


async def test_many_are_detached_in_little_time_while_the_store_answers_nobody(
    start_hub: StartHub, connect: Connect
) -> None:
    """One after the other, each would wait for its own deadline."""
    hub = await start_hub(consume_interval=1000, consume_flush_s=3600.0, operation_timeout_s=0.5)
    subscribers = [b"%d" % number for number in range(200)]
    client = await connect(hub)
    for subscriber in subscribers:
        await client.subscribed(T, subscriber)
    await client.publish(T, b"m")
    await client.deliveries(len(subscribers))
    for subscriber in subscribers:
        client.consume(T, subscriber, 1)
    await client.barrier()
    topic = hub.topics.get(T)
    assert topic is not None
    with locked(hub):
        async with asyncio.timeout(DEADLINE_S):
            await hub.topics.release(topic)
        await client.closed_by_hub()


async def test_a_log_is_closed_though_its_subscribers_cannot_be_detached(
    lazy: Hub, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    await consumed_by_each(lazy, connect)
    topic = lazy.topics.get(T)
    assert topic is not None
    caretaker: Any = lazy.topics._caretaker

    async def fail(_: object) -> None:
        raise RuntimeError("a defect")

    caretaker.detach_all = fail
    await lazy.topics.release(topic)
    assert "a defect" in caplog.text
    ranges = await lazy.metadata.persistence.read(T)
    assert ranges is not None
    assert ranges.value.ranges[-1].end is not None


def consume(number: int, size: int = 1) -> Consume:
    """Return a consume of message 2 with positions in `number` other regions."""
    remote = tuple(RegionSeqId(b"%020d" % each, size) for each in range(number))
    return Consume(subscriber=SubscriberId(b"s"), seq_id=MessageSeqId(2, remote))


@pytest.mark.parametrize("is_attached", [True, False])
async def test_a_consume_with_too_many_remote_components_changes_nothing(
    lazy: Hub, connect: Connect, is_attached: bool
) -> None:
    client = await connect(lazy)
    await client.subscribed(T, b"s")
    await client.publish_many(T, b"1", b"2", b"3")
    await client.delivered(3)
    if not is_attached:
        await client.close_subscription(T, b"s")
    answer = await client.answer(client.send(T, consume(20_000), should_claim=False))
    assert answer.status is StatusCode.MALFORMED_REQUEST
    await client.close_subscription(T, b"s")
    assert await pointer(lazy, b"s") == MessageSeqId(0)
    client.send(T, consume(50), should_claim=False)
    await client.close_subscription(T, b"s")
    assert await pointer(lazy, b"s") == consume(50).seq_id


async def test_a_consume_that_is_refused_is_told(lazy: Hub, connect: Connect) -> None:
    """A consume has no other answer, and its client would take the messages for consumed."""
    client = await connect(lazy)
    action = Consume(subscriber=SubscriberId(b"s" * 8193), seq_id=MessageSeqId(2))
    assert (await client.answer(client.send(T, action))).status is InvalidArgumentError("").status
