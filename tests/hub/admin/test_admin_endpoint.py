"""Prove what the admin endpoint reports, does and refuses, and that callers cannot clog it."""

import asyncio
import base64
import re
import socket
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ConfigurationError, ServiceDownError, UncertainStateError
from hedwig.hub.admin.http.operators import Operators
from hedwig.hub.admin.http.route import Route
from hedwig.hub.admin.http.server import AdminServer
from hedwig.hub.admin.name_page import NamePage, page_token, start_of
from hedwig.hub.hub import Hub
from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.keys import keys
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.model import SubscriberId, Topic
from hedwig.names import show_name
from tests.faults.support.waiting import until
from tests.hub.support.admin_client import AdminAnswer, AdminClient

NAMES = [Topic(name) for name in (b"a", b"b/c", b"news", b"with space?&%", b"\xff\\\x00", "käse".encode())]
_AT_ONCE = 16
"""How many requests the endpoint answers at once."""
LONGEST = Topic(b"\xfe" * 8192)


class RunHub:
    """A hub in this process, a client of it, and its admin endpoint."""

    def __init__(self, hub: Hub, client: HedwigClient) -> None:
        self.hub = hub
        self.client = client
        self.address = f"127.0.0.1:{hub.admin_port}"
        self._admin = AdminClient(self.address)

    async def ask(self, method: str, path: str, **headers: str) -> AdminAnswer:
        return await asyncio.to_thread(self._admin.ask, method, path, headers)

    async def get(self, path: str) -> Any:
        return await asyncio.to_thread(self._admin.get, path)

    async def post(self, path: str) -> Any:
        return await asyncio.to_thread(self._admin.post, path)

    async def wait(self, path: str, holds: Callable[[Any], object], what: str) -> Any:
        return await asyncio.to_thread(self._admin.wait, path, holds, what)


Start = Callable[..., Awaitable[RunHub]]


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep the hub from writing its metadata."""
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a hub with options, on free ports."""
    async with AsyncExitStack() as stack:

        async def started(*, origins: dict[str, str] | None = None, **options: Any) -> RunHub:
            given: dict[str, Any] = {"port": 0, "admin_port": 0, "data_directory": tmp_path / "data"}
            made = HubOptions(**given | {"access": AccessOptions(mode="open")} | options)
            hub = await stack.enter_async_context(await start_hub(Configuration(made, origins or {})))
            address = HubAddress("127.0.0.1", hub.port)
            return RunHub(hub, await stack.enter_async_context(HedwigClient(ClientOptions(hub=address))))

        yield started


# -------------------------------------------------------------------------------------------------------- the hub


async def test_health_and_readiness_name_what_hinders(start: Start) -> None:
    run = await start()
    health = await run.get("/health")
    assert (health["status"], health["hindrances"], health["epoch"]) == ("ok", [], 1)
    assert health["address"] == f"127.0.0.1:{run.hub.port}:-1"
    assert health["uptime_s"] >= 0
    assert await run.get("/ready") == {"ready": True, "hindrances": []}
    await run.post("/read-only?state=on")
    answer = await run.ask("GET", "/ready")
    assert (answer.status, answer.json["ready"]) == (503, False)
    assert "read-only" in answer.json["hindrances"][0]
    assert (await run.get("/health"))["status"] == "hindered"


async def test_read_only_is_switched_and_refuses_publishes(start: Start) -> None:
    run = await start()
    assert await run.get("/read-only") == {"read_only": False}
    assert await run.post("/read-only?state=on") == {"read_only": True}
    options = ClientOptions(hub=HubAddress("127.0.0.1", run.hub.port), answer_timeout_s=2.0)
    async with HedwigClient(options) as impatient:
        with pytest.raises(ServiceDownError, match="read-only"):
            await impatient.publish(NAMES[0], b"refused")
    assert await run.post("/read-only?state=off") == {"read_only": False}
    assert (await run.client.publish(NAMES[0], b"kept")).local == 1
    for path in ("/read-only", "/read-only?state=maybe"):
        answer = await run.ask("POST", path)
        assert (answer.status, answer.json["error"]) == (400, "say which: /read-only?state=on or /read-only?state=off")


async def test_options_are_those_in_force_with_their_origins(start: Start, tmp_path: Path) -> None:
    filters = {"com.example.A": "json:loads"}
    ledgers = LocalLedgerOptions(read_threads=2)
    run = await start(topics_max=77, filters=filters, ledgers=ledgers, origins={"topics_max": "environment X"})
    options = await run.get("/options")
    assert set(options) == {*keys(), "filters.com.example.A"}
    assert (options["topics_max"]["value"], options["topics_max"]["origin"]) == (77, "environment X")
    assert (options["port"]["value"], options["port"]["origin"]) == (0, "default")
    assert options["data_directory"]["value"] == str(tmp_path / "data")
    assert options["ledgers.read_threads"]["value"] == 2
    assert options["filters.com.example.A"]["value"] == "json:loads"
    assert all(option["what"] for option in options.values())


async def test_load_counts_what_was_done(start: Start) -> None:
    run = await start()
    subscription = await run.client.subscribe(NAMES[0], SubscriberId(b"reader"))
    for _ in range(5):
        await run.client.publish(NAMES[0], b"message")
    for _ in range(5):
        await anext(subscription)
    load = await run.get("/load")
    assert (load["topics"], load["attached_subscriptions"], load["channels"]) == (1, 1, 2)
    counted = load["since_start"]
    assert (counted["published_messages"], counted["delivered_messages"], counted["acquired_topics"]) == (5, 5, 1)
    over_s = load["rates_over_s"]  # The endpoint rounds to whole milliseconds, and the time may be a few of them.
    assert 5 / (over_s + 0.001) <= load["rates_per_s"]["published_messages"] <= 5 / max(over_s - 0.001, 0.0001)
    assert set(load["rates_per_s"]) == set(counted)


async def test_metrics_are_what_prometheus_reads(start: Start) -> None:
    run = await start()
    for _ in range(3):
        await run.client.publish(NAMES[0], b"message")
    answer = await run.ask("GET", "/metrics")
    assert (answer.status, answer.content_type) == (200, "text/plain")
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if not sample.labels
    }
    assert samples["hedwig_hub_published_messages_total"] == 3
    assert samples["hedwig_hub_topics"] == 1
    assert samples["hedwig_hub_ledger_store_ledgers"] == 1
    assert samples["hedwig_hub_ledger_store_is_full"] == 0
    assert samples["process_resident_memory_bytes"] > 0
    load = await run.get("/load")
    for name in load["since_start"]:
        assert f"hedwig_hub_{name}_total" in samples
    assert f'hedwig_hub_info{{address="127.0.0.1:{run.hub.port}:-1",epoch="1"}} 1.0' in answer.text


# --------------------------------------------------------------------------------------------------------- topics


async def test_topics_are_listed_in_order_page_by_page(start: Start) -> None:
    run = await start()
    for name in NAMES:
        await run.client.publish(name, b"message")
    expected = [show_name(name) for name in sorted(NAMES)]
    whole = await run.get("/topics")
    assert ([topic["topic"] for topic in whole["topics"]], whole["next"], whole["owned"]) == (
        expected,
        None,
        len(NAMES),
    )
    (strange,) = [topic for topic in whole["topics"] if "topic_base64" in topic]
    assert base64.b64decode(strange["topic_base64"]) == b"\xff\\\x00"
    listed: list[str] = []
    path = "/topics?limit=4"
    for _ in range(2):
        page = await run.get(path)
        listed += [topic["topic"] for topic in page["topics"]]
        path = f"/topics?limit=4&token={page['next']}"
    assert page["next"] is None
    assert listed == expected
    after = await run.get(f"/topics?start_after={quote(expected[2])}&limit=1")
    assert [topic["topic"] for topic in after["topics"]] == expected[3:4]


async def test_a_topic_is_shown_by_any_name(start: Start) -> None:
    run = await start()
    for name in (*NAMES, LONGEST):
        await run.client.publish(name, b"message")
        answer = await run.get(f"/topics/{quote(show_name(name), safe='')}")
        assert (answer["topic"], answer["last_id"], answer["state"]) == (show_name(name), 1, "serving")
        lag = await run.get(f"/lag?topic={quote(show_name(name), safe='')}")
        assert (lag["topic"], lag["last_id"]) == (show_name(name), 1)
        assert await run.get(f"/lag?topic_base64={quote(base64.b64encode(name).decode(), safe='')}") == lag


async def test_a_topic_shows_its_ranges_and_who_is_attached(start: Start) -> None:
    run = await start(ledger_messages_max=2)
    await run.client.subscribe(NAMES[0], SubscriberId(b"away"))
    subscription = await run.client.subscribe(NAMES[0], SubscriberId(b"reader"), auto_consume=False)
    await run.client.close_subscription(NAMES[0], SubscriberId(b"away"))
    for _ in range(5):
        await run.client.publish(NAMES[0], b"message")
    delivered = [await anext(subscription) for _ in range(3)]
    assert delivered[-1].seq_id is not None
    await subscription.consume(delivered[-1].seq_id)
    path = "/topics/a"
    answer = await run.wait(path, lambda topic: topic["subscriptions"][0]["consumed"] == 3, "the consume arrives")
    assert (answer["first_id"], answer["last_id"], answer["attached"], answer["ranges_count"]) == (1, 5, 1, 3)
    assert [(each["start"], each["end"]) for each in answer["ranges"]] == [(1, 2), (3, 4), (5, None)]
    (reader,) = answer["subscriptions"]
    assert (reader["subscriber"], reader["next_id"], reader["lag_messages"]) == ("reader", 6, 2)
    assert re.fullmatch(r"127\.0\.0\.1:\d+", reader["client"])
    lag = await run.get("/lag?topic=a")
    assert lag["subscriptions"] == [
        {"subscriber": "away", "consumed": 0, "lag_messages": 5, "attached": False},
        {"subscriber": "reader", "consumed": 3, "lag_messages": 2, "attached": True},
    ]
    assert (lag["count"], lag["lag_messages_max"], lag["next"]) == (2, 5, None)


async def test_the_lag_of_many_subscriptions_comes_page_by_page(start: Start) -> None:
    run = await start()
    names = [f"s{number:03}" for number in range(25)]
    for name in names:
        await run.client.subscribe(NAMES[0], SubscriberId(name.encode()))
    listed: list[str] = []
    path = "/lag?topic=a&limit=10"
    for _ in range(3):
        page = await run.get(path)
        assert page["count"] == 25
        listed += [each["subscriber"] for each in page["subscriptions"]]
        path = f"/lag?topic=a&limit=10&token={page['next']}"
    assert page["next"] is None
    assert listed == names


async def test_a_non_durable_topic_is_shown_too(start: Start) -> None:
    run = await start(non_durable_topics=("live/*",))
    subscription = await run.client.subscribe(Topic(b"live/x"), SubscriberId(b"reader"))
    await run.client.publish(Topic(b"live/x"), b"message")
    await anext(subscription)
    answer = await run.get("/topics/live/x")
    assert (answer["durable"], answer["ranges"], answer["attached"]) == (False, [], 1)
    lag = await run.get("/lag?topic=live/x")
    assert [(each["subscriber"], each["attached"]) for each in lag["subscriptions"]] == [("reader", True)]


async def test_a_topic_is_released_and_owned_anew_when_it_is_used(start: Start) -> None:
    run = await start()
    await run.client.publish(NAMES[2], b"first")
    assert await run.post("/release?topic=news") == {"topic": "news", "released": True}
    assert await run.hub.metadata.ownership.read(NAMES[2]) is None
    answer = await run.ask("GET", "/topics/news")
    assert (answer.status, "does not own topic 'news'" in answer.json["error"]) == (404, True)
    assert (await run.client.publish(NAMES[2], b"second")).local == 2
    assert (await run.get("/topics/news"))["last_id"] == 2


async def test_a_topic_is_deleted_with_the_ledgers_on_its_record_and_no_others(start: Start) -> None:
    run = await start()
    for name in NAMES[:2]:
        await (await run.client.subscribe(name, SubscriberId(b"s"))).close()
        await run.client.publish(name, b"message")
    persistence = run.hub.metadata.persistence

    async def ledgers() -> set[int]:
        return {ledger_id async for ledger_id in run.hub.ledgers.ledgers()}

    async def refused(version: object, reason: str) -> None:
        answer = await run.ask("POST", f"/delete-topic?topic=a&version={version}")
        assert (answer.status, answer.json["reason"]) == (404 if reason == "no topic" else 409, reason), answer

    before = await ledgers()
    record = await persistence.read(NAMES[0])
    assert record is not None
    await refused(record.version, "owned")
    await run.post("/release?topic=a")
    former, record = record, await persistence.read(NAMES[0])
    assert record is not None
    await refused(record.version, "subscribed")
    assert await ledgers() == before
    subscriptions = run.hub.metadata.subscriptions
    ((subscriber, subscription),) = [each async for each in subscriptions.read_subscriptions(NAMES[0])]
    await subscriptions.delete(NAMES[0], subscriber, subscription.version)
    await refused(former.version, "version")  # The release wrote the end of the ledger, so the version changed.
    assert await ledgers() == before
    answer = await run.post(f"/delete-topic?topic=a&version={record.version}")
    assert answer == {"topic": "a", "deleted": True, "ledgers": 1}
    assert await persistence.read(NAMES[0]) is None
    await until(lambda: run.hub.deletions.waiting == 0, "the deletions")
    assert await ledgers() == before - {record.value.ranges[0].ledger_id}
    await refused(record.version, "no topic")
    assert (await run.client.publish(NAMES[0], b"of the new topic")).local == 1
    assert (await run.client.publish(NAMES[1], b"second")).local == 2


async def test_who_publishes_while_a_topic_is_deleted_finds_the_old_one_or_a_new_one(start: Start) -> None:
    run = await start()
    for number in range(20):
        topic = Topic(b"news/%d" % number)
        await run.client.publish(topic, b"message")
        await run.post(f"/release?topic=news/{number}")
        record = await run.hub.metadata.persistence.read(topic)
        assert record is not None
        asked = asyncio.create_task(run.ask("POST", f"/delete-topic?topic=news/{number}&version={record.version}"))
        for _ in range(number):
            await asyncio.sleep(0)
        published = await run.client.publish(topic, b"another")
        assert (await asked).status == (200 if published.local == 1 else 409)
        messages = (await run.get(f"/messages?topic=news/{number}"))["messages"]
        assert messages[-1]["id"] == published.local


async def test_a_topic_is_not_deleted_while_nothing_may_be_written(start: Start) -> None:
    run = await start()
    await run.client.publish(NAMES[0], b"message")
    await run.post("/release?topic=a")
    record = await run.hub.metadata.persistence.read(NAMES[0])
    assert record is not None
    run.hub.freezing._gate.close("frozen for a test")
    answer = await run.ask("POST", f"/delete-topic?topic=a&version={record.version}")
    run.hub.freezing._gate.open()
    assert (answer.status, answer.json["error"]) == (503, "frozen for a test")
    assert await run.hub.metadata.persistence.read(NAMES[0]) == record


async def test_only_ledgers_that_no_record_names_or_will_are_deleted_when_asked(start: Start) -> None:
    run = await start()
    await (await run.client.subscribe(NAMES[0], SubscriberId(b"s"))).close()
    await run.client.publish(NAMES[0], b"message")
    (named,) = [ledger_id async for ledger_id in run.hub.ledgers.ledgers()]
    logs = run.hub.incarnation._log_store
    making = await logs.new_ledger(NAMES[1])
    orphan = await run.hub.ledgers.create()

    async def asked(*ledger_ids: int) -> Any:
        await run.post(f"/delete-orphans?ledgers={','.join(map(str, ledger_ids))}")
        async with asyncio.timeout(30):
            while (state := await run.get("/delete-orphans"))["running"]:
                pass
        return state

    everything = (named, making, orphan, orphan + 1, 1 << 60)
    run.hub.freezing._gate.close("frozen for a test")
    state = await asked(*everything)
    run.hub.freezing._gate.open()
    assert (state["failure"], state["deleted"]) == ("frozen for a test", [])
    state = await asked(*everything)
    assert (state["failure"], state["deleted"]) == (None, [orphan])
    assert {ledger_id async for ledger_id in run.hub.ledgers.ledgers()} == {named, making}
    await logs.drop(making)
    unreadable = Topic(b"unreadable")
    await run.client.publish(unreadable, b"message")
    with closing(sqlite3.connect(run.hub.options.data_directory / "metadata.db")) as connection, connection:
        connection.execute("UPDATE persistence SET record = x'ff' WHERE topic = ?", (unreadable,))
    state = await asked(await run.hub.ledgers.create())
    assert (state["deleted"], "a record may name any ledger" in state["failure"]) == ([], True)


async def test_a_ledger_that_is_being_made_when_orphans_are_looked_for_is_no_orphan(start: Start) -> None:
    run = await start()
    logs = run.hub.incarnation._log_store
    making = asyncio.create_task(logs.new_ledger(NAMES[0]))
    await asyncio.sleep(0)
    assert await logs.in_the_making() == {await making}
    await logs.drop(await making)
    assert await logs.in_the_making() == frozenset()
    await run.client.publish(NAMES[0], b"message")
    assert await logs.in_the_making() == frozenset(), "it is on record"


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "/", 404, "there is: /health, /ready"),
        ("GET", "/topics/", 404, "there is nothing at /topics/"),
        ("GET", "/topics/none", 404, "does not own topic 'none'"),
        ("GET", "/topics/a%5Cq", 400, "must be doubled or start an escape"),
        ("GET", "/topics/" + "x" * 8193, 400, "a topic has 1 to 8192 bytes, not 8193"),
        ("GET", "/topics?limit=0", 400, "limit is '0'; it must be from 1 to 10000"),
        ("GET", "/topics?limit=10001", 400, "from 1 to 10000"),
        ("GET", "/topics?limit=-1", 400, "from 1 to 10000"),
        ("GET", "/topics?limit=%D9%A3", 400, "from 1 to 10000"),
        ("GET", "/topics?limit=1&limit=2", 400, "the parameter 'limit' is given twice"),
        ("GET", "/topics?limt=1", 400, "it has limit, start_after, token"),
        ("GET", "/topics?token=!", 400, "'!' is not the next token of an earlier page"),
        ("GET", "/topics?token=%FF", 400, "is not the next token of an earlier page"),
        ("GET", "/topics?token=YQ&start_after=a", 400, "give start_after or token, not both"),
        ("GET", "/lag", 400, "name the topic: /lag?topic=NAME"),
        ("GET", "/lag?topic=", 400, "a topic has 1 to 8192 bytes, not 0"),
        ("GET", "/lag?topic=a&topic_base64=YQ==", 400, "name the topic"),
        ("GET", "/lag?topic_base64=%FF", 400, "topic_base64 is not base64"),
        ("GET", "/lag?topic=none", 404, "it does once a client publishes or subscribes"),
        ("GET", "/release?topic=a", 405, "/release takes POST, not GET"),
        ("POST", "/release?topic=none", 404, "does not own topic 'none'"),
        ("POST", "/release", 400, "name the topic: /release?topic=NAME"),
        ("POST", "/delete-topic?topic=a", 400, "say which version"),
        ("POST", "/delete-orphans?ledgers=1,x", 400, "with commas between"),
        ("POST", "/delete-orphans", 400, "with commas between"),
        ("POST", "/health", 405, "/health takes GET"),
        ("GET", "/health?x=1", 400, "/health has no parameter 'x'; it has none"),
    ],
)
async def test_what_makes_no_sense_is_told_what_to_send(
    start: Start, method: str, path: str, status: int, says: str
) -> None:
    run = await start()
    answer = await run.ask(method, path)
    assert (answer.status, answer.content_type) == (status, "application/json")
    assert says in answer.json["error"]


async def test_a_browser_cannot_be_made_to_change_the_hub(start: Start) -> None:
    run = await start()
    await run.client.publish(NAMES[0], b"message")
    for path in ("/read-only?state=on", "/release?topic=a"):
        answer = await run.ask("POST", path, Origin="http://elsewhere.example")
        assert (answer.status, answer.json) == (403, {"error": "browsers may not change a hub; use curl"})
    assert await run.get("/read-only") == {"read_only": False}
    assert (await run.get("/topics"))["owned"] == 1


async def test_bytes_that_are_not_http_disturb_nobody(start: Start) -> None:
    run = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", run.hub.admin_port)
    writer.write(b"\x00\xff" * 5000 + b"\r\n\r\n")
    async with asyncio.timeout(30):
        assert b"400" in (await reader.read()).split(b"\r\n", 1)[0]
    writer.close()
    assert (await run.get("/ready"))["ready"]


async def test_idle_connections_do_not_lock_operators_out(start: Start) -> None:
    run = await start()
    idle: list[socket.socket] = []
    try:
        for _ in range(100):
            connection = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", run.hub.admin_port), 30)
            idle.append(connection)
        assert (await run.get("/ready"))["ready"]
        # The endpoint closed the oldest connection to make room.
        idle[0].settimeout(30)
        assert await asyncio.to_thread(idle[0].recv, 1) == b""
    finally:
        for connection in idle:
            connection.close()


async def test_requests_at_once_are_bounded_and_each_is_answered(start: Start, tmp_path: Path) -> None:
    run = await start()
    topics = [Topic(b"t%d" % number) for number in range(_AT_ONCE + 4)]
    for topic in topics:
        await run.client.publish(topic, b"message")
    with ThreadPoolExecutor(len(topics)) as pool:
        loop, ask = asyncio.get_running_loop(), AdminClient(run.address).ask
        with locked(tmp_path / "data" / "metadata.db"):
            paths = [f"/release?topic={each.decode()}" for each in topics]
            asked = [loop.run_in_executor(pool, ask, "POST", path) for path in paths]
            # No topic can be released while the store is locked, so requests beyond the bound are answered first.
            refused = [await each for each in islice(asyncio.as_completed(asked, timeout=60), 4)]
            assert [each.status for each in refused] == [503] * 4
            assert all("try again" in each.json["error"] for each in refused)
        answers = await asyncio.gather(*asked)
    assert sorted(each.status for each in answers) == [200] * _AT_ONCE + [503] * 4


async def test_an_operation_that_takes_too_long_is_answered_in_time(start: Start, tmp_path: Path) -> None:
    run = await start(operation_timeout_s=0.5)
    await run.client.publish(NAMES[0], b"message")
    with locked(tmp_path / "data" / "metadata.db"):
        answer = await run.ask("POST", "/release?topic=a")
    assert (answer.status, "not done within 0.5 s" in answer.json["error"]) == (504, True)


@pytest.mark.parametrize(
    ("method", "status", "says"), [("GET", 503, "nothing was changed"), ("POST", 504, "it may go on")]
)
async def test_only_what_changes_something_may_have_been_done(method: str, status: int, says: str) -> None:
    async def never(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def in_doubt(_request: web.Request) -> web.StreamResponse:
        raise UncertainStateError("sent, and not answered")

    routes = [Route(method, "/never", never), Route(method, "/in-doubt", in_doubt)]
    everybody = Operators(HubOptions(access=AccessOptions(mode="open")), None, None, None, None)
    server = AdminServer(routes, 0.1, everybody)
    try:
        admin = AdminClient(f"127.0.0.1:{await server.listen('127.0.0.1', 0)}")
        await server.serve()
        answer = await asyncio.to_thread(admin.ask, method, "/never")
        assert (answer.status, says in answer.json["error"]) == (status, True)
        assert (await asyncio.to_thread(admin.ask, method, "/in-doubt")).status == status
    finally:
        await server.close()


# ------------------------------------------------------------------------------------------------- on and off


async def test_a_hub_needs_no_admin_endpoint(start: Start) -> None:
    run = await start(admin_port=-1)
    assert run.hub.admin_port is None
    assert (await run.client.publish(NAMES[0], b"message")).local == 1


async def test_a_taken_port_of_the_admin_endpoint_fails_the_start_and_leaves_nothing(
    start: Start, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port} for the admin endpoint"):
            await start(admin_port=port)
    run = await start()
    assert (await run.get("/ready"))["ready"]


async def test_the_port_is_free_once_the_hub_is_closed(start: Start) -> None:
    run = await start()
    port = run.hub.admin_port
    await run.hub.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


# ---------------------------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize("limit", [1, 7, 5000])
def test_a_page_is_the_first_names_whatever_the_order(limit: int) -> None:
    names = [b"%x" % (number * 7919 % 20_011) for number in range(1, 20_000)]
    ordered = sorted(names)
    page: NamePage[int] = NamePage(limit)
    for index, name in enumerate(names):
        page.offer(name, index)
    rows = page.rows()
    assert [name for name, _ in rows] == ordered[:limit]
    assert all(names[index] == name for name, index in rows)
    assert page.is_cut
    rest: NamePage[None] = NamePage(len(names), start_of(page_token(ordered[limit - 1])))
    for name in names:
        rest.offer(name, None)
    assert [name for name, _ in rest.rows()] == ordered[limit:]
    assert not rest.is_cut


def test_a_page_that_ends_with_the_last_name_is_not_cut() -> None:
    page: NamePage[None] = NamePage(3)
    for name in (b"c", b"a", b"b"):
        page.offer(name, None)
    assert [name for name, _ in page.rows()] == [b"a", b"b", b"c"]
    assert not page.is_cut
