"""Prove over the wire that clients stand by: they wait in line for a subscription, and get it in order of arrival."""

import asyncio

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import PING_TOPIC, Answer, CloseSubscription, CreateOrAttach, EventKind, Ping, Subscribe
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.wire_client import WireClient, eventually

T, S = Topic(b"T"), SubscriberId(b"s")


def standby(client: WireClient, mode: CreateOrAttach = CreateOrAttach.CREATE_OR_ATTACH) -> int:
    """Ask for the subscription; return the number of the request."""
    return client.send(T, Subscribe(subscriber=S, mode=mode, synchronous=True, standby=True))


async def places(client: WireClient, txn_id: int, count: int) -> list[int | None]:
    """Return the places in the first N answers to a request, once they have come."""
    await eventually(lambda: len(client.answers.get(txn_id, ())) >= count, f"{count} answers")
    return [each.place for each in client.answers[txn_id]]


async def attached(client: WireClient, txn_id: int) -> Answer:
    """Return the answer that ends the wait of a client."""
    await eventually(lambda: any(each.place is None for each in client.answers.get(txn_id, ())), "the wait ends")
    return next(each for each in client.answers[txn_id] if each.place is None)


async def in_line(hub: Hub, connect: Connect, count: int) -> tuple[list[WireClient], list[int]]:
    """Let N clients ask one after the other; the first is attached, and the others wait."""
    clients = [await connect(hub) for _ in range(count)]
    asked = []
    for number, client in enumerate(clients):
        asked.append(standby(client))
        answer = await client.answer(asked[-1])
        assert answer.place == (number or None)
        assert answer.status is (StatusCode.TOPIC_BUSY if number else StatusCode.SUCCESS)
    return clients, asked


@pytest.mark.parametrize("leaves", ["it closes the subscription", "its connection ends", "it is aborted"])
async def test_the_next_in_line_is_attached(hub: Hub, connect: Connect, leaves: str) -> None:
    clients, asked = await in_line(hub, connect, 3)
    await clients[0].publish(T, b"m1")
    assert await clients[0].delivered(1) == [1]
    if leaves == "it closes the subscription":
        clients[0].consume(T, S, 1)
        await clients[0].close_subscription(T, S)
    elif leaves == "its connection ends":
        clients[0].consume(T, S, 1)
        clients[0].writer.close()
    else:
        await clients[0].close()
    assert (await attached(clients[1], asked[1])).status is StatusCode.SUCCESS
    assert await places(clients[2], asked[2], 2) == [2, 1]
    await clients[2].publish(T, b"m2")
    expected = [1, 2] if leaves == "it is aborted" else [2]
    assert await clients[1].delivered(len(expected)) == expected
    await clients[1].close()
    assert (await attached(clients[2], asked[2])).status is StatusCode.SUCCESS
    assert hub.subscribing.standbys.count == 0


async def test_a_client_that_waits_no_longer_gets_nothing(hub: Hub, connect: Connect) -> None:
    clients, asked = await in_line(hub, connect, 4)
    assert (await clients[1].close_subscription(T, S)).status is StatusCode.SUCCESS
    await clients[2].close()
    assert (await places(clients[3], asked[3], 3))[-1] == 1
    await clients[0].close_subscription(T, S)
    assert (await attached(clients[3], asked[3])).status is StatusCode.SUCCESS
    await clients[1].barrier()
    assert [each.place for each in clients[1].answers[asked[1]]] == [1]


async def test_a_close_on_the_heels_of_a_subscribe_ends_the_wait(hub: Hub, connect: Connect) -> None:
    first, second = await connect(hub), await connect(hub)
    await first.subscribed(T, S)
    standby(second)
    closed = await second.request(T, CloseSubscription(S))
    assert closed.status is StatusCode.SUCCESS
    await first.close_subscription(T, S)
    await first.subscribed(T, S)


async def test_nobody_overtakes_the_line(hub: Hub, connect: Connect) -> None:
    """A client that does not stand by is refused while others wait, also in the moment in which nobody is attached."""
    clients, asked = await in_line(hub, connect, 2)
    late = await connect(hub)
    assert (await late.subscribe(T, S)).status is StatusCode.TOPIC_BUSY
    closing = clients[0].send(T, CloseSubscription(S))
    tried = [await late.subscribe(T, S) for _ in range(20)]
    assert {each.status for each in tried} == {StatusCode.TOPIC_BUSY}
    await clients[0].answer(closing)
    assert (await attached(clients[1], asked[1])).status is StatusCode.SUCCESS


async def test_force_takes_over_at_once_and_the_line_stays(hub: Hub, connect: Connect) -> None:
    clients, asked = await in_line(hub, connect, 2)
    other = await connect(hub)
    await other.subscribed(T, S, force=True)
    await eventually(lambda: bool(clients[0].events), "the client is told")
    assert clients[0].events[0].kind is EventKind.SUBSCRIPTION_FORCED_CLOSED
    assert hub.subscribing.standbys.count == 1
    await other.close()
    assert (await attached(clients[1], asked[1])).status is StatusCode.SUCCESS


async def test_all_end_with_a_deleted_subscription(hub: Hub, connect: Connect) -> None:
    clients, asked = await in_line(hub, connect, 3)
    await (await connect(hub)).unsubscribe(T, S)
    for client, txn_id in zip(clients[1:], asked[1:], strict=True):
        assert (await attached(client, txn_id)).status is StatusCode.CLIENT_NOT_SUBSCRIBED
    assert hub.subscribing.standbys.count == 0


async def test_all_queue_anew_after_a_release(hub: Hub, connect: Connect) -> None:
    clients, asked = await in_line(hub, connect, 3)
    topic = hub.topics.get(T)
    assert topic is not None
    await hub.topics.release(topic)
    for client, txn_id in zip(clients[1:], asked[1:], strict=True):
        assert (await attached(client, txn_id)).status is StatusCode.SERVICE_DOWN
    assert hub.subscribing.standbys.count == 0
    again = standby(clients[2]), standby(clients[1])
    assert (await clients[2].answer(again[0])).status is StatusCode.SUCCESS
    assert (await clients[1].answer(again[1])).place == 1


async def test_a_line_has_a_bound(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(standbys_max=2)
    await in_line(hub, connect, 3)
    answer = await (late := await connect(hub)).answer(standby(late))
    assert (answer.status, answer.place) == (StatusCode.TOPIC_BUSY, None)
    assert "2 others wait" in str(answer.text)


async def test_a_hub_without_lines_refuses_at_once(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(standbys_max=0)
    first, second = await connect(hub), await connect(hub)
    await first.subscribed(T, S)
    for _ in range(2):
        answer = await second.answer(standby(second))
        assert (answer.status, answer.place) == (StatusCode.TOPIC_BUSY, None)
    await first.close_subscription(T, S)
    await second.subscribed(T, S)


async def test_a_client_that_asks_again_keeps_its_place(hub: Hub, connect: Connect) -> None:
    clients, _ = await in_line(hub, connect, 3)
    again = standby(clients[1])
    assert (await clients[1].answer(again)).place == 1
    assert hub.subscribing.standbys.count == 2
    await clients[0].close()
    assert (await attached(clients[1], again)).status is StatusCode.SUCCESS


async def test_a_refused_client_makes_way(hub: Hub, connect: Connect) -> None:
    """Its filter is unknown, so its turn ends with that answer."""
    (first,), _ = await in_line(hub, connect, 1)
    bad, good = await connect(hub), await connect(hub)
    preferences = SubscriptionPreferences(message_filter="unknown")
    refused = bad.send(T, Subscribe(subscriber=S, synchronous=True, standby=True, preferences=preferences))
    assert (await bad.answer(refused)).place == 1
    waits = standby(good)
    assert (await good.answer(waits)).place == 2
    await first.close()
    assert (await attached(bad, refused)).status is StatusCode.INVALID_MESSAGE_FILTER
    assert (await attached(good, waits)).status is StatusCode.SUCCESS


async def test_a_silent_client_loses_its_subscription_to_those_that_wait(hub: Hub, connect: Connect) -> None:
    silent, waiting = await connect(hub), await connect(hub)
    await silent.request(T, Subscribe(subscriber=S, synchronous=True, silence_ms=1000))
    await asyncio.sleep(1.6)
    assert not silent.is_closed, "nobody waits"
    asked = standby(waiting)
    assert (await attached(waiting, asked)).status is StatusCode.SUCCESS
    await eventually(lambda: silent.is_closed, "its connection is closed")


async def test_a_client_that_is_heard_of_or_has_promised_nothing_keeps_its_subscription(
    hub: Hub, connect: Connect
) -> None:
    original, ours, waiting = await connect(hub), await connect(hub), await connect(hub)
    await original.subscribed(T, S)
    asked = standby(waiting)
    await ours.request(b"U", Subscribe(subscriber=S, synchronous=True, silence_ms=4000))
    other = await connect(hub)
    also = other.send(b"U", Subscribe(subscriber=S, synchronous=True, standby=True))
    for _ in range(60):
        await asyncio.sleep(0.1)
        ours.send(PING_TOPIC, Ping())
    assert not original.is_closed
    assert not ours.is_closed
    assert await places(waiting, asked, 1) == [1]
    assert await places(other, also, 1) == [1]


async def test_a_line_of_a_non_durable_topic(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(non_durable_topics=("T",))
    clients, asked = await in_line(hub, connect, 2)
    await clients[0].close()
    assert (await attached(clients[1], asked[1])).status is StatusCode.SUCCESS


async def test_a_close_that_crosses_its_own_turn_ends_the_wait(hub: Hub, connect: Connect) -> None:
    """The subscription becomes free while the CLOSESUBSCRIPTION of the next client waits behind its SUBSCRIBE."""
    first, second = await connect(hub), await connect(hub)
    for number in range(40):
        await first.subscribed(T, S)
        closing = [first.send(T, CloseSubscription(S))] if number % 2 else []
        standby(second)
        closed = second.send(T, CloseSubscription(S))
        closing += [] if closing else [first.send(T, CloseSubscription(S))]
        for client, txn_id in ((first, closing[0]), (second, closed)):
            assert (await client.answer(txn_id)).status is StatusCode.SUCCESS
    await first.subscribed(T, S)
    assert hub.subscribing.standbys.count == 0
