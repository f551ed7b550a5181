"""Prove that a publish is tried again while its refusal passes, in order, until its deadline, and nothing else is."""

import asyncio
import logging
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from hedwig.client import BlockingClient, ClientOptions, HedwigClient, HubAddress
from hedwig.client.connections.routes import Routes
from hedwig.errors import (
    ClientClosedError,
    LocalProtocolError,
    MalformedRequestError,
    NotResponsibleForTopicError,
    RemoteProtocolError,
    ServiceDownError,
    UncertainAnswerError,
)
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import HUB_FRAME_BYTES_MAX, Answer, Publish, RefusalKind, Request
from tests.client.support.wire import Wire

ANN = SubscriberId(b"ann")
PATIENCE_S = 60.0
PASSING = [StatusCode.SERVICE_DOWN, StatusCode.NOT_RESPONSIBLE_FOR_TOPIC, StatusCode.COMPOSITE]


@pytest.fixture
async def client(wire: Wire) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=wire.address)) as made:
        yield made


class Refusing:
    """Answers publishes in place of the hub, while `status` is set; counts those that it has refused."""

    def __init__(self, wire: Wire, status: StatusCode, retry_after_ms: int | None = None) -> None:
        """With `retry_after_ms`, the publishes are over a limit of the user."""
        self.status: StatusCode | None = status
        self._more: dict[str, Any] = {}
        if retry_after_ms is not None:
            self._more = {"refusal": RefusalKind.QUOTA_EXCEEDED, "retry_after_ms": retry_after_ms}
        self.times = 0
        self.topics: set[Topic] = set()
        """Which topics it refuses; all if empty."""
        wire.intercept = self._intercept

    def _intercept(self, request: Request) -> Answer | None:
        is_meant = isinstance(request.action, Publish) and (not self.topics or request.topic in self.topics)
        if self.status is None or not is_meant:
            return None
        self.times += 1
        return Answer(txn_id=request.txn_id, status=self.status, **self._more)


def bodies(count: int) -> list[bytes]:
    return [b"message %d" % number for number in range(count)]


async def stored(client: HedwigClient, topic: Topic, *, until: bytes) -> list[bytes]:
    """Return the messages that subscriber ann has to receive, up to one."""
    found: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S), client.subscribe(topic, ANN) as subscription:
        async for message in subscription:
            found.append(message.body)
            if message.body == until:
                break
    return found


async def refused(wire: Wire, refusing: Refusing, times: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await wire.has(lambda: refusing.times >= times)


# ------------------------------------------------------------------------------------------------- tried again


@pytest.mark.parametrize("status", PASSING)
async def test_a_refusal_that_passes_is_none_for_the_caller(
    wire: Wire, client: HedwigClient, topic: Topic, status: StatusCode
) -> None:
    refusing = Refusing(wire, status)
    publishing = asyncio.create_task(client.publish(topic, b"body"))
    await refused(wire, refusing, 3)
    assert not publishing.done()
    refusing.status = None
    async with asyncio.timeout(PATIENCE_S):
        assert (await publishing).local == 1


@pytest.mark.parametrize(
    ("status", "retry_after_ms"), [*((status, None) for status in PASSING), (StatusCode.SERVICE_DOWN, 20)]
)
async def test_messages_keep_their_order_through_refusals(
    wire: Wire, client: HedwigClient, topic: Topic, status: StatusCode, retry_after_ms: int | None
) -> None:
    """Some are refused in flight, some are published meanwhile, and some after the first was stored."""
    await (await client.subscribe(topic, ANN)).close()
    refusing = Refusing(wire, status, retry_after_ms)
    given = bodies(60)
    running = [asyncio.create_task(client.publish(topic, body)) for body in given[:20]]
    await refused(wire, refusing, 21)
    running += [asyncio.create_task(client.publish(topic, body)) for body in given[20:40]]
    await refused(wire, refusing, 23)
    refusing.status = None
    async with asyncio.timeout(PATIENCE_S):
        await running[0]
        running += [asyncio.create_task(client.publish(topic, body)) for body in given[40:]]
        positions = [(await each).local for each in running]
    assert positions == list(range(1, 61))
    assert await stored(client, topic, until=given[-1]) == given


async def test_over_a_limit_the_client_waits_for_as_long_as_the_hub_says_and_asks_no_other(
    wire: Wire, client: HedwigClient, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    avoided: list[Topic] = []
    monkeypatch.setattr(Routes, "avoid", lambda _, topic, __: avoided.append(topic))
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN, 400)
    began = asyncio.get_running_loop().time()
    publishing = asyncio.create_task(client.publish(topic, b"body"))
    await refused(wire, refusing, 3)
    assert asyncio.get_running_loop().time() - began >= 2 * 0.4
    refusing.status = None
    async with asyncio.timeout(PATIENCE_S):
        assert (await publishing).local == 1
    assert avoided == []


async def test_a_limit_that_is_lifted_is_noticed_though_the_hub_has_said_to_wait_for_days(
    wire: Wire, client: HedwigClient, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedwig.client.publishing.publishing._RETRY_AFTER_MAX_S", 0.05)
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN, (1 << 32) - 1)
    publishing = asyncio.create_task(client.publish(topic, b"body"))
    await refused(wire, refusing, 2)
    refusing.status = None
    async with asyncio.timeout(PATIENCE_S):
        assert (await publishing).local == 1


async def test_while_a_topic_is_refused_one_message_tries_and_the_others_wait(
    wire: Wire, client: HedwigClient, topic: Topic
) -> None:
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
    running = [asyncio.create_task(client.publish(topic, body)) for body in bodies(50)]
    await refused(wire, refusing, 55)
    sent = [request.action.message.body for request in wire.requests if isinstance(request.action, Publish)]
    assert sent == [*bodies(50), *[b"message 0"] * (len(sent) - 50)]
    refusing.status = None
    async with asyncio.timeout(PATIENCE_S):
        assert [(await each).local for each in running] == list(range(1, 51))


async def test_a_topic_that_is_refused_holds_up_no_other(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
    refusing.topics.add(topic)
    waits = asyncio.create_task(client.publish(topic, b"body"))
    await refused(wire, refusing, 2)
    async with asyncio.timeout(PATIENCE_S):
        for number in range(20):
            await client.publish(Topic(topic + b"/%d" % number), b"body")
        assert not waits.done()
        refusing.status = None
        await waits


async def test_a_hub_that_comes_later_gets_the_message(own_hub: HubAddress, topic: Topic) -> None:
    async with Wire(own_hub) as wire:
        address = wire.address
    async with HedwigClient(ClientOptions(hub=address)) as client:
        running = [asyncio.create_task(client.publish(topic, body)) for body in bodies(10)]
        await asyncio.wait(running, timeout=0.3)
        assert not any(each.done() for each in running)
        async with Wire(own_hub, address.port), asyncio.timeout(PATIENCE_S):
            assert [(await each).local for each in running] == list(range(1, 11))


async def test_another_hub_is_asked(own_hub: HubAddress, wire: Wire, topic: Topic) -> None:
    async with Wire(own_hub) as other, HedwigClient(ClientOptions(hub=wire.address)) as client:
        text = f"127.0.0.1:{other.address.port}:-1"
        wire.intercept = lambda request: Answer(
            txn_id=request.txn_id, status=StatusCode.NOT_RESPONSIBLE_FOR_TOPIC, text=text
        )
        await client.publish(topic, b"by the way, there is another hub")
        refusing = Refusing(other, StatusCode.SERVICE_DOWN)
        wire.intercept = lambda _: None
        asked = len(wire.requests)
        async with asyncio.timeout(PATIENCE_S):
            assert (await client.publish(topic, b"body")).local == 2
        assert refusing.times == 1
        assert len(wire.requests) == asked + 1


async def test_a_message_for_another_hub_does_not_overtake_those_in_flight(
    own_hub: HubAddress, wire: Wire, client: HedwigClient, topic: Topic
) -> None:
    async with Wire(own_hub) as other, asyncio.timeout(PATIENCE_S):
        await client.publish(topic, b"opens the channel")
        await client._channels.channel(other.address)
        wire.flow.clear()
        first = asyncio.create_task(client.publish(topic, b"first"))
        await wire.has(lambda: wire.unanswered == 1)
        client._routes.remember(topic, other.address)  # As another request does that is redirected.
        second = asyncio.create_task(client.publish(topic, b"second"))
        await asyncio.wait([second], timeout=0.2)
        assert not other.requests
        wire.flow.set()
        assert [(await first).local, (await second).local] == [2, 3]


async def test_many_at_once_and_the_blocking_client_try_again_too(wire: Wire, topic: Topic) -> None:
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
    options = ClientOptions(hub=wire.address)

    def publish() -> list[int]:
        with BlockingClient(options) as blocking:
            first = blocking.publish(topic, b"first")
            return [first.local, *(each.local for each in blocking.publish_many(topic, bodies(50)))]

    working = asyncio.create_task(asyncio.to_thread(publish))
    await refused(wire, refusing, 2)
    refusing.status = None
    async with asyncio.timeout(PATIENCE_S):
        assert await working == list(range(1, 52))
        refusing.status = StatusCode.SERVICE_DOWN
        async with HedwigClient(options) as client:
            more = asyncio.create_task(_positions(client, topic, bodies(50)))
            await refused(wire, refusing, refusing.times + 2)
            refusing.status = None
            assert await more == list(range(52, 102))


async def _positions(client: HedwigClient, topic: Topic, messages: list[bytes]) -> list[int]:
    return [seq_id.local async for seq_id in client.publish_many(topic, messages)]


# --------------------------------------------------------------------------------------------- not tried again


class Longest(Random):
    """Chooses the longest pauses."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


async def test_the_deadline_ends_it_with_the_last_refusal(wire: Wire, topic: Topic) -> None:
    # Attempts come after pauses of a second, and the deadline in the midst of one: of an attempt on its way it is not
    # known whether it was stored.
    options = ClientOptions(hub=wire.address, answer_timeout_s=1.5, reconnect_pause_s=1.0, random=Longest())
    async with HedwigClient(options) as client:
        refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
        first, second = (asyncio.create_task(client.publish(topic, body)) for body in bodies(2))
        with pytest.raises(
            ServiceDownError, match=r"^not published within 1\.5 s: the hub answers SERVICE_DOWN"
        ) as caught:
            await first
        assert caught.value.happened == "no"
        assert refusing.times == 3, "both at first, and then the first alone"
        with pytest.raises(ServiceDownError, match="not published within"):
            await second
        refusing.status = StatusCode.NOT_RESPONSIBLE_FOR_TOPIC
        with pytest.raises(NotResponsibleForTopicError, match="not published within"):
            await client.publish(topic, b"body")
        refusing.status = None
        assert (await client.publish(topic, b"body")).local == 1


async def test_what_will_not_pass_fails_at_once(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    refusing = Refusing(wire, StatusCode.MALFORMED_REQUEST)
    with pytest.raises(MalformedRequestError):
        await client.publish(topic, b"body")
    refusing.status = StatusCode.UNEXPECTED_CONDITION
    with pytest.raises(ServiceDownError):
        await client.publish(topic, b"body")
    assert refusing.times == 2
    with pytest.raises(LocalProtocolError):
        await client.publish(topic, bytes(HUB_FRAME_BYTES_MAX))
    refusing.status = None
    assert (await client.publish(topic, b"body")).local == 1


async def test_a_redirect_to_no_address_fails_at_once(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    wire.intercept = lambda request: Answer(
        txn_id=request.txn_id, status=StatusCode.NOT_RESPONSIBLE_FOR_TOPIC, text="nowhere:at:all:really"
    )
    with pytest.raises(ServiceDownError, match="invalid address: 'nowhere:at:all:really'"):
        await client.publish(topic, b"body")
    assert len(wire.requests) == 1


async def test_a_message_that_was_stored_under_no_id_is_published(
    wire: Wire, client: HedwigClient, topic: Topic
) -> None:
    wire.intercept = lambda request: Answer(txn_id=request.txn_id) if isinstance(request.action, Publish) else None
    with pytest.raises(RemoteProtocolError, match="did not return its id") as caught:
        await client.publish(topic, b"body")
    assert caught.value.happened == "yes"


@pytest.mark.parametrize("status", [StatusCode.SERVICE_DOWN, StatusCode.COMPOSITE, StatusCode.UNEXPECTED_CONDITION])
async def test_a_hub_that_promises_nothing_may_have_stored_what_it_refuses(
    wire: Wire, client: HedwigClient, topic: Topic, status: StatusCode
) -> None:
    wire.promises = False
    refusing = Refusing(wire, status)
    with pytest.raises(UncertainAnswerError, match=rf"{status.name}.*perhaps after it was stored") as caught:
        await client.publish(topic, b"body")
    assert (caught.value.happened, caught.value.code, refusing.times) == ("unknown", status, 1)
    refusing.status = None
    assert (await client.publish(topic, b"body")).local == 1


# --------------------------------------------------------------------------------------- given up by the caller


async def test_a_publish_that_is_cancelled_while_it_waits_is_not_published(
    wire: Wire, client: HedwigClient, topic: Topic
) -> None:
    await (await client.subscribe(topic, ANN)).close()
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
    running = [asyncio.create_task(client.publish(topic, body)) for body in bodies(10)]
    await refused(wire, refusing, 12)
    cancelled = [running[number] for number in (0, 4, 9)]
    for each in cancelled:
        each.cancel()
    await asyncio.wait(cancelled)
    assert all(each.cancelled() for each in cancelled)
    refusing.status = None
    left = [body for number, body in enumerate(bodies(10)) if number not in (0, 4, 9)]
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait(running)
        assert [(await each).local for each in running if each not in cancelled] == list(range(1, 8))
    assert await stored(client, topic, until=left[-1]) == left


async def test_cancelled_publishes_leave_nothing(wire: Wire, topic: Topic) -> None:
    options = ClientOptions(hub=wire.address, publishes_in_flight_max=4)
    async with HedwigClient(options) as client, asyncio.timeout(PATIENCE_S):
        refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
        for number in range(50):  # More than there is room for, so that a place that is not given back would be missed.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.publish(topic, b"given up %d" % number), 0.01)
        wire.flow.clear()
        refusing.status = None
        for _ in range(50):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.publish(Topic(topic + b"/held"), b"given up in flight"), 0.01)
        wire.flow.set()
        assert await _positions(client, topic, bodies(20)) == list(range(1, 21))
        assert not client._publishing._pending
        assert not client._publishing._lines


async def test_publishes_of_a_client_that_is_closed_fail_at_once(wire: Wire, topic: Topic) -> None:
    client = HedwigClient(ClientOptions(hub=wire.address))
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
    waits = [asyncio.create_task(client.publish(topic, body)) for body in bodies(3)]
    await refused(wire, refusing, 5)
    async with asyncio.timeout(PATIENCE_S / 4):
        await client.close()
        for each in waits:
            with pytest.raises((ClientClosedError, UncertainAnswerError)):
                await each


async def test_many_topics_that_are_refused_are_two_lines_in_the_log(
    wire: Wire, client: HedwigClient, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
    with caplog.at_level(logging.INFO, logger="hedwig.client"):
        running = [asyncio.create_task(client.publish(Topic(topic + b"/%d" % each), b"body")) for each in range(100)]
        await refused(wire, refusing, 300)
        refusing.status = None
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait(running)
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("a publish is tried again until its deadline: the hub answers SERVICE_DOWN")
    assert last == "no publish is tried again any more"
