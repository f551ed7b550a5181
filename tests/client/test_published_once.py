"""Prove that a message is stored once, however often its answer is lost and it is sent again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hedwig.client import BlockingClient, ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ClientClosedError, InvalidArgumentError, MalformedRequestError, UncertainAnswerError
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Answer, Publish, Request
from tests.client.support.wire import Wire
from tests.faults.support.waiting import until

ANN = SubscriberId(b"ann")
PATIENCE_S = 60.0


@pytest.fixture
async def wire(own_hub: HubAddress) -> AsyncIterator[Wire]:
    async with Wire(own_hub) as made:
        made.asks_hub = True
        yield made


@pytest.fixture
async def client(wire: Wire) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=wire.address, publish_once=True)) as made:
        yield made


def attempts(wire: Wire) -> int:
    return sum(isinstance(request.action, Publish) for request in wire.requests)


async def stored(address: HubAddress, topic: Topic) -> list[bytes]:
    """Return all messages that subscriber ann has to receive, who must be subscribed before the first."""
    found: list[bytes] = []
    async with HedwigClient(ClientOptions(hub=address)) as reader:
        await reader.publish(topic, b"the end")
        async with asyncio.timeout(PATIENCE_S), reader.subscribe(topic, ANN) as subscription:
            async for message in subscription:
                if message.body == b"the end":
                    break
                found.append(message.body)
    return found


async def subscribed(client: HedwigClient, topic: Topic) -> None:
    await (await client.subscribe(topic, ANN)).close()


async def test_lost_answers_are_no_outcome(own_hub: HubAddress, wire: Wire, client: HedwigClient, topic: Topic) -> None:
    await subscribed(client, topic)
    for number in range(1, 4):
        wire.cuts_before_answer = 3
        assert (await client.publish(topic, b"message %d" % number)).local == number
    assert attempts(wire) >= 12  # One more if the hub still makes the ledger for the first.
    assert await stored(own_hub, topic) == [b"message 1", b"message 2", b"message 3"]


async def test_many_in_flight_keep_their_order_through_broken_connections(
    own_hub: HubAddress, wire: Wire, client: HedwigClient, topic: Topic
) -> None:
    await subscribed(client, topic)
    given = [b"message %d" % number for number in range(300)]
    running = []
    for number, body in enumerate(given):
        if number % 50 == 25:
            wire.cuts_before_answer += 1
        running.append(asyncio.create_task(client.publish(topic, body)))
        if number % 10 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        positions = [(await each).local for each in running]
    assert positions == list(range(1, 301))
    assert wire.cuts_before_answer == 0
    assert await stored(own_hub, topic) == given


async def test_publish_many_goes_on_too(own_hub: HubAddress, wire: Wire, client: HedwigClient, topic: Topic) -> None:
    await subscribed(client, topic)
    given = [b"message %d" % number for number in range(200)]
    wire.cuts_before_answer = 2
    assert [each.local async for each in client.publish_many(topic, given)] == list(range(1, 201))
    assert await stored(own_hub, topic) == given


async def test_a_connection_that_is_silent_is_given_up_and_the_message_sent_again(
    own_hub: HubAddress, wire: Wire, topic: Topic
) -> None:
    async with HedwigClient(ClientOptions(hub=wire.address, publish_once=True, silence_s=0.3)) as client:
        await subscribed(client, topic)
        assert (await client.publish(topic, b"first")).local == 1
        wire.flow.clear()
        connections = wire.connections
        publishing = asyncio.create_task(client.publish(topic, b"second"))
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: wire.connections > connections, "another connection")
            wire.flow.set()
            assert (await publishing).local == 2
    assert await stored(own_hub, topic) == [b"first", b"second"]


async def test_only_the_deadline_makes_the_outcome_uncertain(own_hub: HubAddress, wire: Wire, topic: Topic) -> None:
    options = ClientOptions(hub=wire.address, publish_once=True, answer_timeout_s=1.0)
    async with HedwigClient(options) as client:
        await subscribed(client, topic)
        await client.publish(topic, b"first")
        wire.cuts_before_answer = 1_000_000
        before, begun_at = attempts(wire), asyncio.get_running_loop().time()
        publishing = [asyncio.create_task(client.publish(topic, body)) for body in (b"second", b"third")]
        done, _ = await asyncio.wait(publishing)
        assert asyncio.get_running_loop().time() - begun_at >= 0.9
        assert attempts(wire) > before + 2
        assert all(isinstance(each.exception(), UncertainAnswerError) for each in done)
        wire.cuts_before_answer = 0
        await client.publish(topic, b"fourth")
    found = await stored(own_hub, topic)
    assert found in ([b"first", b"second", b"fourth"], [b"first", b"second", b"third", b"fourth"])


async def test_without_the_option_a_lost_answer_is_told_at_once(own_hub: HubAddress, wire: Wire, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=wire.address)) as client:
        await subscribed(client, topic)
        await client.publish(topic, b"first")
        before = attempts(wire)
        wire.cuts_before_answer = 1
        with pytest.raises(UncertainAnswerError, match=r"ended before the answer.*publish_once"):
            await client.publish(topic, b"second")
        assert attempts(wire) == before + 1
        assert (await client.publish(topic, b"third")).local == 3
    assert await stored(own_hub, topic) == [b"first", b"second", b"third"]


async def test_a_hub_that_recognises_nothing_is_not_asked_again(
    own_hub: HubAddress, wire: Wire, client: HedwigClient, topic: Topic
) -> None:
    """Such a hub may own the topic by then, in a cluster that is being upgraded."""
    await subscribed(client, topic)
    await client.publish(topic, b"first")
    before = attempts(wire)
    wire.cuts_before_answer = 1
    wire.asks_hub = False
    with pytest.raises(UncertainAnswerError, match="ended before the answer"):
        await client.publish(topic, b"second")
    assert attempts(wire) == before + 1
    assert (await client.publish(topic, b"third")).local == 3
    assert await stored(own_hub, topic) == [b"first", b"second", b"third"]


async def test_a_refusal_after_a_lost_answer_leaves_the_outcome_uncertain(
    wire: Wire, client: HedwigClient, topic: Topic
) -> None:
    await client.publish(topic, b"first")
    before = attempts(wire)

    def refuse(request: Request) -> Answer | None:
        if isinstance(request.action, Publish) and attempts(wire) > before:
            return Answer(txn_id=request.txn_id, status=StatusCode.MALFORMED_REQUEST, text="the test refuses it")
        return None

    wire.intercept = refuse
    wire.cuts_before_answer = 1
    with pytest.raises(UncertainAnswerError, match=r"ended before the answer.* and then: .*the test refuses it"):
        await client.publish(topic, b"second")


async def test_a_client_that_closes_does_not_know_what_became_of_a_message_that_it_sent(
    wire: Wire, topic: Topic
) -> None:
    """One that only stood in line behind it is surely not published."""
    client = HedwigClient(ClientOptions(hub=wire.address, publish_once=True))
    await client.publish(topic, b"first")
    wire.cuts_before_answer = 1_000_000
    second = asyncio.create_task(client.publish(topic, b"second"))
    await until(lambda: attempts(wire) > 2, "another attempt")
    third = asyncio.create_task(client.publish(topic, b"third"))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(UncertainAnswerError):
        await second
    with pytest.raises(ClientClosedError):
        await third
    sent = [request.action.message.body for request in wire.requests if isinstance(request.action, Publish)]
    assert b"third" not in sent


# ------------------------------------------------------------------------------------------- publishers with a name


async def test_an_application_may_publish_again_after_its_own_end(own_hub: HubAddress, topic: Topic) -> None:
    options = ClientOptions(hub=own_hub)
    async with HedwigClient(options) as client:
        await subscribed(client, topic)
        outbox = client.publisher("outbox")
        first = [await outbox.publish(topic, b"row %d" % row, sequence=row) for row in (3, 7, 8)]
    async with HedwigClient(options) as client:
        outbox = client.publisher(b"outbox")
        assert [await outbox.publish(topic, b"row %d" % row, sequence=row, age_s=20.0) for row in (3, 7, 8)] == first
        assert (await outbox.publish(topic, b"row 9", sequence=9)).local == 4
        assert (await client.publisher("another").publish(topic, b"row 3", sequence=3)).local == 5
    assert await stored(own_hub, topic) == [b"row 3", b"row 7", b"row 8", b"row 9", b"row 3"]


async def test_publishes_with_sequences_are_pipelined(own_hub: HubAddress, wire: Wire, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=wire.address)) as client:
        outbox = client.publisher("outbox")
        await outbox.publish(topic, b"first", sequence=1)
        wire.flow.clear()
        running = [asyncio.create_task(outbox.publish(topic, b"m", sequence=10 * row)) for row in range(1, 21)]
        async with asyncio.timeout(PATIENCE_S):
            await wire.has(lambda: attempts(wire) == 21)
            wire.flow.set()
            assert [(await each).local for each in running] == list(range(2, 22))


async def test_a_sequence_must_grow_and_names_one_message(own_hub: HubAddress, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=own_hub)) as client:
        outbox = client.publisher("outbox")
        await outbox.publish(topic, b"five", sequence=5)
        with pytest.raises(MalformedRequestError, match="sequences must grow"):
            await outbox.publish(topic, b"four", sequence=4)
        with pytest.raises(MalformedRequestError, match="another message"):
            await outbox.publish(topic, b"other", sequence=5)
        with pytest.raises(UncertainAnswerError, match="may have been published before"):
            await outbox.publish(topic, b"other", sequence=5, age_s=1.0)
        for sequence in (0, -1, 1 << 64):
            with pytest.raises(InvalidArgumentError, match="sequence"):
                await outbox.publish(topic, b"m", sequence=sequence)
        for age_s in (-1.0, float("nan")):
            with pytest.raises(InvalidArgumentError, match="age"):
                await outbox.publish(topic, b"m", sequence=6, age_s=age_s)
        running = asyncio.create_task(outbox.publish(topic, b"seven", sequence=7))
        await asyncio.sleep(0)
        with pytest.raises(InvalidArgumentError, match="still on its way"):
            await outbox.publish(topic, b"six", sequence=6)
        assert (await running).local == 2
        for name in ("", "x" * 65):
            with pytest.raises(InvalidArgumentError, match="from 1 to 64 bytes"):
                client.publisher(name)


async def test_a_message_that_is_too_old_to_be_known_is_not_published(own_hub: HubAddress, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=own_hub, answer_timeout_s=0.5)) as client:
        await client.publish(topic, b"first")
        with pytest.raises(UncertainAnswerError):
            await client.publisher("outbox").publish(topic, b"old", sequence=1, age_s=1e6)
        assert (await client.publish(topic, b"second")).local == 2


def test_the_blocking_client_has_publishers_too(own_hub: HubAddress, topic: Topic) -> None:
    with BlockingClient(ClientOptions(hub=own_hub)) as client:
        outbox = client.publisher("outbox")
        first = outbox.publish(topic, b"row", sequence=4)
        assert outbox.publish(topic, b"row", sequence=4, age_s=1.0) == first
