"""Prove that hubs may run during check and repair: no hub notices, and no message is lost."""

import asyncio
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.clock import SystemClock
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.metadata import MetadataStore
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from tests.cli.commands.hub.test_hubs_of_a_cluster import Pair
from tests.cli.support.admin import Admin, wait_until
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.planted import in_store
from tests.hub.ledgers.bookkeeper.support.bookies import bookkeeper_store
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers

_OLD_MS: Final = 2 * 3600 * 1000
_ROUNDS: Final = 4
_MESSAGES: Final = 300


@pytest.fixture(params=["per-topic", "shared"])
def pair(request: pytest.FixtureRequest, servers: RunningServers, tmp_path: Path) -> Iterator[Pair]:
    """Two hubs, whose ledgers take few messages each. They leave topics of a killed hub to operators."""
    options = ("ledger_messages_max=20", f"bookkeeper.ledgers={request.param}", "cluster.takeover_rate=0")
    with Pair(servers, tmp_path, *options) as started:
        started.admin.environment |= {
            "HEDWIG_METADATA": started.cluster,
            "HEDWIG_BOOKKEEPER": f"zookeeper://{started.zookeeper}{LEDGERS_ROOT}",
            "HEDWIG_ADMIN": "",
        }
        yield started


@pytest.fixture
def prefix() -> str:
    """Return the prefix of the topics of a test: the bookies have ledgers of other tests, too."""
    return f"{uuid.uuid4().hex}/"


def _check(admin: Admin, prefix: str) -> list[Any]:
    ran = admin.run("metadata", "check", "--prefix", prefix, "-o", "ndjson")
    assert ran.code in (0, 1, 2), ran
    return ran.rows


def _repair(admin: Admin, prefix: str) -> list[Any]:
    return admin.done("metadata", "repair", "--yes", "--prefix", prefix, "-o", "ndjson").rows


def _client(hub: RunningHub) -> BlockingClient:
    return BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address)))


def _publish(hub: RunningHub, topic: str, first: int, last: int) -> None:
    with _client(hub) as client:
        for number in range(first, last + 1):
            client.publish(Topic(topic.encode()), b"%d" % number)


def _bodies(hub: RunningHub, topic: str, subscriber: str, count: int) -> list[bytes]:
    with _client(hub) as client, client.subscribe(Topic(topic.encode()), SubscriberId(subscriber.encode())) as opened:
        return [next(opened).body for _ in range(count)]


def _old_ledger(pair: Pair, topic: str) -> int:
    """Make a ledger on bookies with the mark of the hubs, as one of them would have done two hours ago."""

    async def make() -> int:
        options = BookkeeperOptions.for_hubs(pair.cluster.encode())
        async with bookkeeper_store(pair.zookeeper, options) as store:
            ledger_id = await store.create({"topic": topic.encode()})
            await store.append(ledger_id, 0, b"never acknowledged to anybody")
        async with session_with(pair.zookeeper) as session:
            ledgers = await ZookeeperLedgerMetadata.open(session, LEDGERS_ROOT, SystemClock())
            held = await ledgers.read(ledger_id)
            made_ms = int(SystemClock().wall() * 1000) - _OLD_MS
            await ledgers.write(ledger_id, replace(held.value, created_ms=made_ms), held.version)
        return ledger_id

    return asyncio.run(make())


def test_hubs_notice_nothing_of_checks_and_repairs_while_they_serve(pair: Pair, prefix: str) -> None:
    one, other = pair.hubs
    topics = [f"{prefix}{number}" for number in range(4)]
    for topic in topics:
        with _client(one) as client:
            client.subscribe(Topic(topic.encode()), SubscriberId(b"reader")).close()
    orphan = _old_ledger(pair, topics[0])
    failed: list[BaseException] = []

    def publish(topic: str, hub: RunningHub) -> None:
        try:
            _publish(hub, topic, 1, _MESSAGES)
        except BaseException as exc:
            failed.append(exc)

    threads = [
        threading.Thread(target=publish, args=(topic, hub))
        for topic, hub in zip(topics, (one, other, one, other), strict=True)
    ]
    for thread in threads:
        thread.start()
    repaired: list[Any] = []
    for _ in range(_ROUNDS):
        repaired += _repair(pair.admin, prefix)
        assert _check(pair.admin, prefix) == []
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not failed
    assert [(row["kind"], row["ledger_ids"], row["result"]) for row in repaired] == [
        ("orphan-ledger", [orphan], "repaired")
    ]
    for topic in topics:
        assert _bodies(one, topic, "reader", _MESSAGES) == [b"%d" % number for number in range(1, _MESSAGES + 1)]
    for hub in pair.hubs:
        assert "is given up" not in hub.log
    assert _check(pair.admin, prefix) == []


def test_topics_of_a_killed_hub_are_given_free_and_nothing_is_lost(pair: Pair, prefix: str) -> None:
    one, other = pair.hubs
    topics = [f"{prefix}{number}" for number in range(6)]
    pair.admin.done("hub", "drain", other.address, "--wait")
    for topic in topics:
        with _client(one) as client:
            client.subscribe(Topic(topic.encode()), SubscriberId(b"reader")).close()
        _publish(one, topic, 1, 30)
    pair.admin.done("hub", "undrain", other.address)
    assert _check(pair.admin, prefix) == []
    one.kill()
    rows = wait_until(lambda: len(rows := _check(pair.admin, prefix)) == 6 and rows, "its session has ended")
    assert {(row["kind"], row["severity"]) for row in rows} == {("dead-owner", "warning")}
    assert {row["topic"] for row in rows} == set(topics)
    assert [row["result"] for row in _repair(pair.admin, prefix)] == ["repaired"] * 6
    assert _check(pair.admin, prefix) == []
    owners = pair.admin.done("topic", "owner", *topics, "-o", "json").json["topics"]
    assert {row["state"] for row in owners} == {"none"}
    for topic in topics:
        _publish(other, topic, 31, 40)
        assert _bodies(other, topic, "reader", 40) == [b"%d" % number for number in range(1, 41)]
    assert _check(pair.admin, prefix) == []


def test_lone_subscription_gets_all_messages_of_the_topic_that_is_made_anew(pair: Pair, prefix: str) -> None:
    topic = f"{prefix}lone"

    async def write(store: MetadataStore) -> None:
        data = SubscriptionData(state=SubscriptionState(MessageSeqId(57)))
        await store.subscriptions.create(Topic(topic.encode()), SubscriberId(b"reader"), data)

    in_store(pair.cluster, write)
    assert [row["result"] for row in _repair(pair.admin, prefix)] == ["repaired"]
    _publish(pair.hubs[0], topic, 1, 5)
    assert _bodies(pair.hubs[1], topic, "reader", 5) == [b"1", b"2", b"3", b"4", b"5"]


def test_standalone_hub_notices_nothing_and_takes_up_what_it_left(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path, "ledger_messages_max=5") as pair:
        pair.subscribe("news", "reader")
        pair.publish("news", *[b"%d" % number for number in range(1, 13)])
        for _ in range(3):
            assert _check(pair.admin, "") == []
            assert _repair(pair.admin, "") == []
        pair.publish("news", b"13")
        assert AdminClient(pair.hub.admin).get("/topics/news")["last_id"] == 13
        pair.hub.kill()
        (row,) = _check(pair.admin, "")
        assert (row["kind"], row["topic"]) == ("dead-owner", "news")
        assert [row["result"] for row in _repair(pair.admin, "")] == ["repaired"]
        pair.start()
        assert pair.read("news", "reader", 13) == list(range(1, 14))
        pair.publish("news", b"14")
        assert pair.read("news", "reader", 1) == [14]
        pair.hub.stop()
        assert _check(pair.admin, "") == []
