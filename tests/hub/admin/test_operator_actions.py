"""Prove what an operator does through the admin endpoint: claim, seek, unsubscribe, and look at messages."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress, Message, Subscription
from hedwig.errors import SubscriptionClosedError
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.hub.subscriptions.operator_actions import OperatorActions
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.status import StatusCode
from hedwig.versions import ANY
from hedwig.wire import Subscribe
from tests.hub.admin.test_admin_endpoint import RunHub
from tests.hub.conftest import Connect
from tests.hub.support.locked_metadata import locked
from tests.hub.support.wire_client import eventually

T = Topic(b"news")
S = SubscriberId(b"reader")
SEEK = "/seek?topic=news&subscriber=reader"
DEADLINE_S = 20.0

Start = Callable[..., Awaitable[RunHub]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a hub with options, on free ports."""
    async with AsyncExitStack() as stack:

        async def started(**options: Any) -> RunHub:
            given: dict[str, Any] = {"port": 0, "admin_port": 0, "data_directory": tmp_path / "data"}
            made = HubOptions(**given | {"access": AccessOptions(mode="open")} | options)
            hub = await stack.enter_async_context(await start_hub(Configuration(made)))
            address = HubAddress("127.0.0.1", hub.port)
            return RunHub(hub, await stack.enter_async_context(HedwigClient(ClientOptions(hub=address))))

        yield started


async def _publish(run: RunHub, number: int) -> None:
    for count in range(number):
        await run.client.publish(T, b"%d" % count)


async def _open(run: RunHub) -> Subscription:
    return await run.client.subscribe(T, S)


async def _next_ids(opened: Subscription, count: int) -> list[int]:
    ids = []
    async with asyncio.timeout(DEADLINE_S):
        for _ in range(count):
            message = await anext(opened)
            assert message.seq_id is not None
            ids.append(message.seq_id.local)
    return ids


async def _stored(run: RunHub) -> int:
    record = await run.hub.metadata.subscriptions.read(T, S)
    assert record is not None
    assert record.value.state is not None
    return record.value.state.consumed.local


async def _with_a_detached_reader(run: RunHub, messages: int, consumed: int) -> None:
    """Publish messages, of which a reader consumes some before it detaches."""
    opened = await _open(run)
    await _publish(run, messages)
    await _next_ids(opened, consumed)
    await opened.close()
    assert await _stored(run) == consumed


# ---------------------------------------------------------------------------------------------------------------- seek


@pytest.mark.parametrize(
    ("to", "consumed", "ids"), [("2", 2, [3, 4, 5]), ("start", 0, [1, 2, 3, 4, 5]), ("0", 0, [1]), ("4", 4, [5])]
)
async def test_a_subscription_goes_on_where_it_was_put(start: Start, to: str, consumed: int, ids: list[int]) -> None:
    run = await start()
    await _with_a_detached_reader(run, 5, 3)
    answer = await run.post(f"{SEEK}&to={to}")
    record = await run.hub.metadata.subscriptions.read(T, S)
    assert record is not None
    assert answer == {
        "topic": "news",
        "subscriber": "reader",
        "was": 3,
        "consumed": consumed,
        "next_id": consumed + 1,
        "last_id": 5,
        "detached": None,
        "version": str(record.version),
    }
    assert await _next_ids(await _open(run), len(ids)) == ids


async def test_at_the_end_only_what_comes_is_delivered(start: Start) -> None:
    run = await start()
    await _with_a_detached_reader(run, 5, 1)
    assert (await run.post(f"{SEEK}&to=end"))["consumed"] == 5
    opened = await _open(run)
    await run.client.publish(T, b"new")
    assert await _next_ids(opened, 1) == [6]


async def test_an_attached_subscription_is_left_alone_unless_it_is_taken_by_force(start: Start) -> None:
    run = await start()
    opened = await _open(run)
    await _publish(run, 5)
    assert await _next_ids(opened, 3) == [1, 2, 3]
    refused = await run.ask("POST", f"{SEEK}&to=0")
    assert (refused.status, refused.json["reason"]) == (409, "attached")
    assert "is attached from 127.0.0.1:" in refused.json["error"]
    assert await _next_ids(opened, 1) == [4]  # The refused seek did not affect the reader.
    await opened.consume(MessageSeqId(2))
    await run.wait("/lag?topic=news", lambda lag: lag["subscriptions"][0]["consumed"] == 2, "it is consumed")

    answer = await run.post(f"{SEEK}&to=0&force=on")
    assert answer["detached"].startswith("127.0.0.1:")
    assert answer["was"] == 2  # The hub first stored the pointer of the reader.
    with pytest.raises(SubscriptionClosedError):
        await _next_ids(opened, 10)
    await opened.close()
    assert await _stored(run) == 0  # No late consume of the reader undoes the seek.
    assert await _next_ids(await _open(run), 5) == [1, 2, 3, 4, 5]


async def test_a_reader_who_consumes_all_the_time_does_not_undo_a_seek(start: Start) -> None:
    """Consumes get no answer, so many are on their way when the seek takes the subscription."""
    run = await start(consume_interval=1)
    opened = await _open(run)
    await _publish(run, 50)

    async def read() -> None:
        async for message in opened:
            assert message.seq_id is not None
            await opened.consume(message.seq_id)

    reader = asyncio.create_task(read())
    await run.wait("/lag?topic=news", lambda lag: lag["subscriptions"][0]["consumed"] > 10, "it consumes")
    await run.post(f"{SEEK}&to=3&force=on")
    await asyncio.wait([reader], timeout=DEADLINE_S)
    assert isinstance(reader.exception(), SubscriptionClosedError)
    await run.post("/release?topic=news")  # The release stores all pointers that wait to be stored.
    assert await _stored(run) == 3
    assert await _next_ids(await _open(run), 2) == [4, 5]


async def test_a_pointer_that_could_not_be_stored_is_not_written_over_a_seek(start: Start) -> None:
    """Another client writes the record all the time, so the hub gives up the flush of the old pointer, and drops it."""
    run = await start()
    opened = await _open(run)
    await _publish(run, 5)
    assert await _next_ids(opened, 5) == [1, 2, 3, 4, 5]
    await opened.consume(MessageSeqId(5))
    await run.wait("/lag?topic=news", lambda lag: lag["subscriptions"][0]["consumed"] == 5, "it is consumed")
    state = SubscriptionData(state=SubscriptionState(MessageSeqId(1)))
    await run.hub.metadata.subscriptions.update(T, S, state, ANY)
    assert (await run.post(f"{SEEK}&to=2&force=on"))["consumed"] == 2
    await run.post("/release?topic=news")
    assert await _stored(run) == 2


async def test_a_seek_with_a_version_is_refused_at_another_one(start: Start) -> None:
    run = await start()
    await _with_a_detached_reader(run, 5, 3)
    first = await run.post(f"{SEEK}&to=1")
    second = await run.post(f"{SEEK}&to=2&version={first['version']}")
    refused = await run.ask("POST", f"{SEEK}&to=3&version={first['version']}")
    assert refused.status == 409
    assert (refused.json["reason"], refused.json["version"], refused.json["consumed"]) == (
        "version",
        second["version"],
        2,
    )
    assert await _stored(run) == 2


async def test_what_was_deleted_does_not_come_again(start: Start) -> None:
    run = await start(ledger_messages_max=2, retention_interval_s=0.05, repeat_window_s=0.0)
    await _with_a_detached_reader(run, 5, 5)
    await run.wait("/topics/news", lambda topic: topic["first_id"] == 5, "consumed ledgers are deleted")
    answer = await run.post(f"{SEEK}&to=0")
    assert (answer["consumed"], answer["next_id"]) == (0, 5)
    assert (await run.post(f"{SEEK}&to=start"))["consumed"] == 4
    assert await _next_ids(await _open(run), 1) == [5]


async def test_seeks_whose_time_is_over_leave_a_subscription_to_one_connection(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Both seeks end in one step of the event loop. One held the lock, and the other and two clients waited for it."""
    run = await start()
    hub = run.hub
    await _with_a_detached_reader(run, 5, 3)
    clients = [await connect(hub), await connect(hub)]
    turns = hub.subscribing._turns
    interventions = OperatorActions(hub.metadata.subscriptions, hub.subscribing, hub.incarnation.backlogs)
    topic = hub.topics.get(T)
    assert topic is not None

    def waits(number: int) -> bool:
        return turns.is_taken((T, S)) and len(turns._waiting[(T, S)]) == number

    with locked(hub):
        seeks = []
        for waiting in range(2):
            seeks.append(asyncio.create_task(interventions.seek(topic, S, 0, force=True, expected=None)))
            await eventually(partial(waits, waiting), "a seek waits")
        for waiting, client in enumerate(clients, 2):
            client.send(T, Subscribe(subscriber=S))
            await eventually(partial(waits, waiting), "a client waits")
        # Cancel both, as the deadlines of two requests to the admin endpoint do.
        for seek in seeks:
            seek.cancel()
        await asyncio.wait(seeks)
    assert all(seek.cancelled() for seek in seeks)
    answers = [await client.answer(1) for client in clients]
    assert [answer.status for answer in answers] == [StatusCode.SUCCESS, StatusCode.TOPIC_BUSY]
    assert [len(client.answers[1]) for client in clients] == [1, 1]
    await run.client.publish(T, b"new")
    ids = await clients[0].delivered(1)
    assert ids[0] in (1, 4), "the seek that had the turn was done, or was not"
    ids += await clients[0].delivered(6 - ids[0])
    assert ids == list(range(ids[0], 7))
    assert clients[1].undelivered == []
    await clients[0].close()
    await eventually(lambda: topic.subscription(S) is None, "it is detached")
    await clients[1].subscribed(T, S)
    assert await clients[1].delivered(1) == ids[:1]
    assert not turns.is_taken((T, S))
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        (f"{SEEK}&to=6", 400, "has no message 6 yet; the last one is 5"),
        (f"{SEEK}&to=x", 400, "to is 'x'"),
        (SEEK, 400, "to is ''"),
        (f"{SEEK}&to=1&force=maybe", 400, "force is 'maybe'"),
        (f"{SEEK}&to=1&version=%21", 400, "version is '!'"),
        ("/seek?topic=news&to=1", 400, "name the subscriber: /seek?subscriber=NAME"),
        ("/seek?topic=news&subscriber=nobody&to=1", 404, "'nobody'"),
        ("/seek?topic=none&subscriber=reader&to=1", 404, "does not own topic 'none'"),
        ("/unsubscribe?topic=news&subscriber=nobody", 404, "'nobody'"),
        ("/claim", 400, "name the topic"),
    ],
)
async def test_what_makes_no_sense_is_refused(start: Start, path: str, status: int, says: str) -> None:
    run = await start()
    await _with_a_detached_reader(run, 5, 3)
    answer = await run.ask("POST", path)
    assert (answer.status, says in answer.json["error"]) == (status, True), answer
    assert await _stored(run) == 3


async def test_subscriptions_of_a_topic_that_keeps_nothing_cannot_be_moved(start: Start) -> None:
    run = await start(non_durable_topics=("news",))
    await _open(run)
    for path in (f"{SEEK}&to=0", "/unsubscribe?topic=news&subscriber=reader"):
        answer = await run.ask("POST", path)
        assert (answer.status, "is not durable" in answer.json["error"]) == (400, True)
    assert (await run.ask("GET", "/messages?topic=news")).status == 400


# --------------------------------------------------------------------------------------------------------- unsubscribe


async def test_a_subscription_is_deleted_and_its_reader_told(start: Start) -> None:
    run = await start()
    opened = await _open(run)
    await _publish(run, 2)
    assert await _next_ids(opened, 1) == [1]
    path = "/unsubscribe?topic=news&subscriber=reader"
    refused = await run.ask("POST", path)
    assert (refused.status, refused.json["reason"]) == (409, "attached")
    assert (await run.post(f"{path}&force=on"))["deleted"] is True
    with pytest.raises(SubscriptionClosedError):
        await _next_ids(opened, 10)
    assert await run.hub.metadata.subscriptions.read(T, S) is None
    assert (await run.get("/lag?topic=news"))["count"] == 0
    assert (await run.ask("POST", path)).status == 404


# -------------------------------------------------------------------------------------------------- claims and messages


async def test_a_hub_claims_a_topic_when_it_is_asked(start: Start) -> None:
    run = await start()
    answer = await run.post("/claim?topic=news")
    record = await run.hub.metadata.ownership.read(T)
    assert record is not None
    version = str(record.version)
    assert answer == {"topic": "news", "claimed": True, "owner": run.hub.me.address, "owner_version": version}
    assert await run.post("/claim?topic=news") == answer
    stale = answer["owner_version"]
    await run.post("/release?topic=news")
    await run.post("/claim?topic=news")
    refused = await run.ask("POST", f"/release?topic=news&version={stale}")
    assert (refused.status, refused.json["reason"]) == (409, "version")
    assert (await run.post(f"/release?topic=news&version={refused.json['version']}"))["released"] is True


async def test_messages_are_shown_and_nobody_notices(start: Start) -> None:
    run = await start()
    await _with_a_detached_reader(run, 7, 2)
    shown: list[tuple[int, bytes]] = []
    path = "/messages?topic=news&limit=3"
    following: int | None = 0
    while following is not None:
        page = await run.get(f"{path}&from={following}")
        assert (page["first_id"], page["last_id"]) == (1, 7)
        for row in page["messages"]:
            message = Message.decode(base64.b64decode(row["message_base64"]))
            assert message.seq_id == MessageSeqId(row["id"])
            shown.append((row["id"], message.body))
        following = page["next"]
    assert shown == [(number + 1, b"%d" % number) for number in range(7)]
    assert (await run.get(f"{path}&from=8"))["messages"] == []
    assert await _stored(run) == 2


async def test_a_page_of_large_messages_is_short(start: Start) -> None:
    run = await start()
    for _ in range(4):
        await run.client.publish(T, bytes(400_000))
    page = await run.get("/messages?topic=news")
    assert [row["id"] for row in page["messages"]] == [1, 2, 3]
    assert page["next"] == 4


async def test_the_lag_of_one_subscription_is_told_alone(start: Start) -> None:
    run = await start()
    await _with_a_detached_reader(run, 5, 3)
    await run.client.subscribe(T, SubscriberId(b"other"))
    lag = await run.get("/lag?topic=news&subscriber=reader")
    assert lag["subscriptions"] == [{"subscriber": "reader", "consumed": 3, "lag_messages": 2, "attached": False}]
    assert (await run.ask("GET", "/lag?topic=news&subscriber=nobody")).status == 404
