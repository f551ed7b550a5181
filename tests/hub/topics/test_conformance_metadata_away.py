"""Topics over the wire while the metadata store does not answer."""

from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.locked_metadata import locked
from tests.hub.support.topic_records import S, T


async def test_metadata_that_do_not_answer_are_an_error_and_owned_topics_serve_on(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub(operation_timeout_s=0.3, ledger_messages_max=100)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.publish(T, b"1")
    with locked(hub):
        down = await client.request(b"new", Publish(Message(b"m")))
        assert down.status is StatusCode.SERVICE_DOWN, "it was surely not published"
        refused = await client.subscribe(T, b"new")
        assert refused.status in (StatusCode.SERVICE_DOWN, StatusCode.UNCERTAIN_STATE)
        assert await client.publish(T, b"2") == 2
        assert await client.delivered(2) == [1, 2]
    assert await client.publish(b"new", b"m") == 1
    await client.subscribed(T, b"new")


async def test_a_ledger_that_the_metadata_do_not_take_costs_no_id(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(operation_timeout_s=0.3, ledger_messages_max=3)
    client = await connect(hub)
    ids = await client.publish_many(T, b"1", b"2")
    with locked(hub):
        answers = [await client.request(T, Publish(Message(b"m"))) for _ in range(3)]
        ids += [each.published.local for each in answers if each.published is not None]
        # The current ledger takes them, unless the record may already say that it has ended.
        expected = {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN, StatusCode.UNCERTAIN_STATE}
        assert {each.status for each in answers} <= expected
    for _ in range(5):
        ids.append(await client.publish(T, b"m"))
    assert ids == list(range(1, len(ids) + 1))
    await client.subscribed(T, S)
    await client.publish(T, b"m")
    assert await client.delivered(1) == [len(ids) + 1]
