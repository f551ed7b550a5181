"""Publishes that are sent again, over the wire: on whatever connection they come, they have the id of the first."""

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import PING_TOPIC, Answer, Attempt, Message, Ping, Promises, Publish
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.wire_client import WireClient

T = Topic(b"T")


@pytest.fixture
async def hub(start_hub: StartHub) -> Hub:
    """A hub that recognises what is published again."""
    return await start_hub(ledger_messages_max=3, repeat_window_s=300.0)


async def named(connect: Connect, hub: Hub, publisher: bytes) -> WireClient:
    """Return a connection that names a publisher."""
    client = await connect(hub)
    answer = await client.request(PING_TOPIC, Ping(publisher))
    assert answer.promises == Promises(refusals_are_definite=True, stores_once=True)
    return client


async def again(
    client: WireClient, sequence: int, *, body: bytes = b"m", previous: int = 0, publisher: bytes | None = None
) -> Answer:
    attempt = Attempt(publisher=publisher, sequence=sequence, age_ms=1)
    return await client.request(T, Publish(Message(body), previous, attempt))


async def test_a_message_has_one_id_on_all_connections_of_its_publisher(hub: Hub, connect: Connect) -> None:
    one, other = await named(connect, hub, b"p"), await named(connect, hub, b"p")
    stranger = await named(connect, hub, b"q")
    first = one.send(T, Publish(Message(b"m")))
    assert WireClient.published(await one.answer(first)) == 1
    assert [WireClient.published(await again(client, first)) for client in (other, one)] == [1, 1]
    assert WireClient.published(await again(stranger, first)) == 2
    assert WireClient.published(await again(stranger, first, publisher=b"p")) == 1
    assert await one.publish(T, b"m") == 3


async def test_a_publisher_is_known_to_the_next_start_of_the_hub(
    hub: Hub, start_hub: StartHub, connect: Connect
) -> None:
    client = await named(connect, hub, b"p")
    sent = [client.send(T, Publish(Message(b"m"))) for _ in range(8)]
    first = [WireClient.published(await client.answer(each)) for each in sent]
    await hub.close()
    client = await named(connect, await start_hub(ledger_messages_max=3, repeat_window_s=300.0), b"p")
    assert [WireClient.published(await again(client, each)) for each in sent] == first


async def test_a_connection_that_names_nobody_publishes_as_ever(hub: Hub, connect: Connect) -> None:
    client = await connect(hub)
    assert await client.publish_many(T, b"m", b"m") == [1, 2]
    assert (await again(client, 1)).status is StatusCode.MALFORMED_REQUEST
    assert await client.publish(T, b"m") == 3


@pytest.mark.parametrize(("sequence", "previous", "answered"), [(5, 5, 0), (5, 6, 0), (5, 0, 5), (0, 0, 0)])
async def test_an_attempt_that_contradicts_itself_is_refused(
    hub: Hub, connect: Connect, sequence: int, previous: int, answered: int
) -> None:
    client = await named(connect, hub, b"p")
    attempt = Attempt(sequence=sequence, answered=answered)
    answer = await client.request(T, Publish(Message(b"m"), previous, attempt))
    assert answer.status is StatusCode.MALFORMED_REQUEST
    assert await client.publish(T, b"m") == 1


async def test_a_hub_without_a_window_promises_nothing_and_keeps_no_origin(
    start_hub: StartHub, connect: Connect
) -> None:
    client = await connect(await start_hub(repeat_window_s=0.0))
    answer = await client.request(PING_TOPIC, Ping(b"p"))
    assert answer.promises == Promises(refusals_are_definite=True)
    await client.subscribed(T, b"s")
    await client.publish(T, b"m")
    message = (await client.delivery()).message
    assert (message.origin, message.stored_ms) == (None, None)
    assert (await again(client, 1)).status is StatusCode.MALFORMED_REQUEST


async def test_deliveries_name_the_origin_and_the_time(hub: Hub, connect: Connect) -> None:
    client = await named(connect, hub, b"p")
    await client.subscribed(T, b"s")
    sent = client.send(T, Publish(Message(b"m")))
    await client.answer(sent)
    message = (await client.delivery()).message
    assert message.origin is not None
    assert (message.origin.publisher, message.origin.sequence) == (b"p", sent)
    assert message.stored_ms is not None
    forged = await named(connect, hub, b"q")
    await forged.request(T, Publish(message))
    forged_message = (await client.delivery()).message
    assert forged_message.origin is not None
    assert forged_message.origin.publisher == b"q", "the hub overwrites what was sent"
