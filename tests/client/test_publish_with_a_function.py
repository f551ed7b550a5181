"""Prove that `begin_publish` calls its function once for each message, whatever happens, and waits only for room."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hedwig.client import ClientOptions, HedwigClient
from hedwig.errors import (
    ClientClosedError,
    HedwigError,
    LocalProtocolError,
    MalformedRequestError,
    NameLimitError,
    UncertainAnswerError,
)
from hedwig.model import MessageSeqId, Topic
from hedwig.status import StatusCode
from hedwig.wire import HUB_FRAME_BYTES_MAX
from tests.client.support.wire import Wire
from tests.client.test_publishing import ANN, PATIENCE_S, Refusing, stored
from tests.faults.support.waiting import until

ROOM = 4


@pytest.fixture
async def client(wire: Wire) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=wire.address, publishes_in_flight_max=ROOM)) as made:
        yield made


class Outcomes:
    """What the functions of messages were called with, by the number of the message."""

    def __init__(self) -> None:
        self.of: dict[int, MessageSeqId | HedwigError] = {}

    def take(self, number: int) -> Any:
        def on_outcome(outcome: MessageSeqId | HedwigError) -> None:
            assert number not in self.of, "each is called once"
            self.of[number] = outcome

        return on_outcome

    async def have(self, count: int) -> None:
        await until(lambda: len(self.of) == count, f"{count} messages have an outcome")


async def test_each_message_has_its_position(client: HedwigClient, topic: Topic) -> None:
    outcomes = Outcomes()
    async with asyncio.timeout(PATIENCE_S):
        for number in range(50):
            await client.begin_publish(topic, b"%d" % number, outcomes.take(number))
            assert len(client._publishing._pending) <= ROOM
        await outcomes.have(50)
    assert [outcomes.of[number] for number in range(50)] == [MessageSeqId(number + 1) for number in range(50)]
    assert list(outcomes.of) == list(range(50)), "they are told in order"


async def test_who_is_cancelled_while_it_waits_for_room_publishes_nothing(
    wire: Wire, client: HedwigClient, topic: Topic
) -> None:
    await (await client.subscribe(topic, ANN)).close()
    refusing, outcomes = Refusing(wire, StatusCode.SERVICE_DOWN), Outcomes()
    for number in range(ROOM):
        await client.begin_publish(topic, b"%d" % number, outcomes.take(number))
    for _ in range(10):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.begin_publish(topic, b"given up", outcomes.take(-1)), 0.01)
    refusing.status = None
    await client.begin_publish(topic, b"last", outcomes.take(ROOM))
    await outcomes.have(ROOM + 1)
    assert list(outcomes.of.values()) == [MessageSeqId(number + 1) for number in range(ROOM + 1)]
    assert await stored(client, topic, until=b"last") == [b"0", b"1", b"2", b"3", b"last"]


async def test_an_error_is_told_as_publish_raises_it(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    outcomes = Outcomes()
    await client.begin_publish(topic, bytes(HUB_FRAME_BYTES_MAX), outcomes.take(0))
    await client.begin_publish(topic, b"first", outcomes.take(1))
    await outcomes.have(2)
    refusing = Refusing(wire, StatusCode.MALFORMED_REQUEST)
    await client.begin_publish(topic, b"second", outcomes.take(2))
    await outcomes.have(3)
    assert [type(outcomes.of[number]) for number in range(3)] == [
        LocalProtocolError,
        MessageSeqId,
        MalformedRequestError,
    ]
    refusing.status = None
    with pytest.raises(NameLimitError):
        await client.begin_publish("", b"third", outcomes.take(3))
    assert len(outcomes.of) == 3


async def test_a_function_that_fails_is_reported_and_holds_up_nobody(client: HedwigClient, topic: Topic) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about))

    def fail(_: object) -> None:
        raise ValueError("a defect of the application")

    async with asyncio.timeout(PATIENCE_S):
        for number in range(5 * ROOM):
            await client.begin_publish(topic, b"%d" % number, fail)
        assert (await client.publish(topic, b"last")).local == 5 * ROOM + 1
    assert [str(about["exception"]) for about in reported] == ["a defect of the application"] * 5 * ROOM
    assert not client._publishing._lines


async def test_when_the_client_is_closed_each_has_its_outcome(wire: Wire, topic: Topic) -> None:
    client, outcomes = HedwigClient(ClientOptions(hub=wire.address)), Outcomes()
    await client.publish(topic, b"first")
    wire.flow.clear()
    for number in range(3):
        await client.begin_publish(topic, b"in flight", outcomes.take(number))
    refusing = Refusing(wire, StatusCode.SERVICE_DOWN)
    refusing.topics = {Topic(b"held")}
    await client.begin_publish("held", b"waits", outcomes.take(3))
    async with asyncio.timeout(PATIENCE_S):
        await client.close()
    assert sorted(outcomes.of) == [0, 1, 2, 3]
    assert all(isinstance(each, ClientClosedError | UncertainAnswerError) for each in outcomes.of.values())
    with pytest.raises(ClientClosedError):
        await client.begin_publish(topic, b"too late", outcomes.take(4))
    assert 4 not in outcomes.of
