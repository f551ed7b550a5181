"""Prove that commands show ledgers in shared logs as they show all others, and what they are a part of."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.clock import SystemClock
from hedwig.exit_codes import ExitCode
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.metadata import NEW, MetadataStore
from hedwig.metadata.logs.record import DroppedLedger, LogState, Segment
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.model import HubInfo, SubscriberId, Topic
from tests.cli.commands.hub.test_hubs_of_a_cluster import Pair
from tests.cli.support.admin import wait_until
from tests.cli.support.planted import in_store, ranges
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers


@pytest.fixture(scope="module")
def pair(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two hubs, each with a shared log."""
    with Pair(
        servers, tmp_path_factory.mktemp("shared"), "bookkeeper.ledgers=shared", "ledger_messages_max=3"
    ) as started:
        started.admin.environment |= {
            "HEDWIG_METADATA": started.cluster,
            "HEDWIG_BOOKKEEPER": f"zookeeper://{started.zookeeper}{LEDGERS_ROOT}",
            "HEDWIG_ADMIN": "",
        }
        yield started


@pytest.fixture
def topic() -> str:
    return f"shared/{uuid.uuid4().hex}"


def _client(hub: RunningHub) -> BlockingClient:
    return BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address)))


def _publish(pair: Pair, topic: str, first: int, last: int) -> None:
    """Publish messages beside a subscription that consumes none."""
    name = Topic(topic.encode())
    with _client(pair.hubs[0]) as client:
        client.subscribe(name, SubscriberId(b"reader")).close()
        for number in range(first, last + 1):
            client.publish(name, b"%d" % number)


def _rows(pair: Pair, *arguments: str) -> list[Any]:
    return pair.admin.done(*arguments, "-o", "ndjson").rows


def _ids(pair: Pair, *arguments: str) -> list[int]:
    return [row["id"] for row in _rows(pair, *arguments) if "id" in row]


def _owner(pair: Pair, topic: str) -> HubInfo:
    async def read(store: MetadataStore) -> HubInfo:
        record = await store.ownership.read(Topic(topic.encode()))
        assert record is not None
        return record.value

    owner: HubInfo = in_store(pair.cluster, read)
    return owner


def test_ledgers_are_shown_while_their_hub_writes_the_log(pair: Pair, topic: str) -> None:
    _publish(pair, topic, 1, 7)
    owner = _owner(pair, topic)
    # Readers know of the last batch once another has followed.
    pair.admin.done("topic", "create", f"{topic}/other")
    pair.admin.done("topic", "move", f"{topic}/other", f"{owner.host}:{owner.port}")
    _publish(pair, f"{topic}/other", 1, 1)
    wait_until(lambda: _rows(pair, "ledger", "list", topic)[-1]["messages"] == 1, "all of it is seen")
    rows = _rows(pair, "ledger", "list", topic)
    assert [(row["start"], row["end"], row["state"], row["messages"]) for row in rows] == [
        (1, 3, "closed", 3),
        (4, 6, "closed", 3),
        (7, None, "open", 1),
    ]
    assert {(row["log"], row["hub"], row["segments"]) for row in rows} == {(owner.log, owner.name, 1)}
    assert [row["ledger_id"] for row in rows] == [virtual_id(row["log"], row["slot"]) for row in rows]
    assert all(row["stored_bytes"] > 0 for row in rows)
    assert pair.admin.done("ledger", "list", topic).out.splitlines()[0].split()[-4:] == [
        "LOG",
        "SLOT",
        "HUB",
        "SEGMENTS",
    ]
    assert _ids(pair, "ledger", "read", topic) == list(range(1, 8))
    assert _ids(pair, "ledger", "read", "--ledger", str(rows[1]["ledger_id"])) == [4, 5, 6]
    assert _ids(pair, "message", "peek", topic) == list(range(1, 8))
    _publish(pair, topic, 8, 8)  # Nothing was fenced.
    counted = pair.admin.done("message", "count", topic, "-o", "json").json
    assert (counted["messages"], counted["last_id"], counted["open_ledger"]) == (8, 8, rows[-1]["ledger_id"])


def test_a_released_topic_is_read_from_sealed_segments(pair: Pair, topic: str) -> None:
    _publish(pair, topic, 1, 7)
    pair.admin.done("topic", "release", topic)
    rows = _rows(pair, "ledger", "list", topic)
    assert [(row["end"], row["state"], row["messages"]) for row in rows] == [
        (3, "closed", 3),
        (6, "closed", 3),
        (7, "closed", 1),
    ]
    for command in (("message", "peek"), ("ledger", "read")):
        assert _ids(pair, *command, topic) == list(range(1, 8))
        assert _ids(pair, *command, topic, "--from", "5", "--limit", "2") == [5, 6]
    assert pair.admin.done("message", "count", topic, "-o", "json").json["messages"] == 7
    (lag,) = _rows(pair, "subscription", "lag", topic)
    assert lag["lag_messages"] == 7


def test_a_lost_segment_is_told(pair: Pair, topic: str) -> None:
    for each in (f"{topic}/kept", topic):
        _publish(pair, each, 1, 3)
        pair.admin.done("topic", "release", each)
    assert _rows(pair, "metadata", "check", "--prefix", topic) == []
    (row,) = _rows(pair, "ledger", "list", topic)

    async def lose(store: MetadataStore) -> int:
        record = await KeptLogRecords(store.named_records).read(row["log"])
        assert record is not None
        lost = [each for each in record.segments if each.lowest_slot <= row["slot"] <= each.highest_slot]
        async with session_with(pair.zookeeper) as session:
            ledgers = await ZookeeperLedgerMetadata.open(session, LEDGERS_ROOT, SystemClock())
            await ledgers.delete(lost[-1].ledger)
        return lost[-1].ledger

    ledger_id: int = in_store(pair.cluster, lose)
    ran = pair.admin.run("metadata", "check", "--prefix", topic, "-o", "ndjson")
    (finding,) = ran.rows
    assert (ran.code, finding["kind"], finding["ledger_ids"]) == (2, "missing-ledger", [row["ledger_id"]])
    assert f"ledger {ledger_id} of a segment does not exist" in finding["what"]
    assert [each["state"] for each in _rows(pair, "ledger", "list", topic)] == ["missing"]
    read = pair.admin.run("ledger", "read", topic)
    assert (read.code, f"ledger {ledger_id}" in read.err) == (ExitCode.NOT_FOUND, True), read
    assert pair.admin.run("metadata", "repair", "--yes", "--prefix", topic).code == 2, "this loses data"
    named = _rows(pair, "metadata", "repair", "--yes", "--prefix", topic, "--kind", "missing-ledger")
    assert [each["result"] for each in named] == ["repaired"]
    _publish(pair, topic, 4, 4)
    assert _ids(pair, "message", "peek", topic) == [4]


def test_what_a_log_does_not_have_is_told(pair: Pair, topic: str) -> None:
    async def plant(store: MetadataStore) -> int:
        records = KeptLogRecords(store.named_records)
        removed = await records.create(HubInfo(host="dead", port=1))
        await records.delete(removed)
        late, lost = virtual_id(removed.number, 2), virtual_id(removed.number, 1)
        await store.persistence.write(Topic(topic.encode()), ranges((lost, 1, 5), (late, 6, None)), NEW)
        return await records.count()

    count: int = in_store(pair.cluster, plant)
    rows = _rows(pair, "ledger", "list", topic)
    assert [(row["state"], row["messages"], row["hub"]) for row in rows] == [("missing", 5, None), ("closed", 0, None)]
    for command in (("message", "peek"), ("ledger", "read")):
        ran = pair.admin.run(*command, topic)
        assert (ran.code, "slot 1 of log" in ran.err, "ends before message 1" in ran.err) == (1, True, True), ran
    assert pair.admin.done("message", "count", topic, "-o", "json").json["last_id"] == 5
    never = pair.admin.run("ledger", "read", "--ledger", str(virtual_id(count + 9, 1)))
    assert (never.code, f"never been a log {count + 9}" in never.err) == (ExitCode.NOT_FOUND, True)
    pair.admin.environment["HEDWIG_METADATA"] = ""
    try:
        unknown = pair.admin.run("ledger", "read", "--ledger", str(virtual_id(0, 1)))
    finally:
        pair.admin.environment["HEDWIG_METADATA"] = pair.cluster
    assert (unknown.code, "--metadata URL" in unknown.err) == (ExitCode.USAGE, True)


def test_logs_are_listed_with_their_hubs(pair: Pair, topic: str) -> None:
    _publish(pair, topic, 1, 2)
    owner = _owner(pair, topic)

    async def plant(store: MetadataStore) -> int:
        records = KeptLogRecords(store.named_records)
        record = await records.create(HubInfo(host="dead", port=1, epoch=7))
        lost = Segment(ledger=1 << 40, footer=1 << 40, lowest_slot=1, highest_slot=2, records=3, size=30)
        state = LogState.CLOSED
        assert await records.replace(
            record, record.changed(state=state, segments=(lost,), dropped=(DroppedLedger(9, 0),))
        )
        return record.number

    planted: int = in_store(pair.cluster, plant)
    rows = {row["log"]: row for row in _rows(pair, "ledger", "logs", "--all")}
    written = rows[owner.log]
    assert (written["hub"], written["epoch"]) == (owner.name, owner.epoch)
    assert (written["hub_state"], written["state"]) == ("alive", "open")
    assert len(written["listed"]) == 2
    assert rows[planted] == {
        "log": planted,
        "hub": "dead:1",
        "epoch": 7,
        "hub_state": "dead",
        "state": "closed",
        "segments": 1,
        "messages": 3,
        "message_bytes": 30,
        "listed": [],
        "dropped": [9],
        "error": None,
    }
    first, second = pair.admin.done("ledger", "logs", "--limit", "1", "-o", "json").json.values()
    numbers = sorted(rows)  # On a busy machine a hub may have lost its session, and with it its log.
    assert [row["log"] for row in first] == numbers[:1]
    (last,) = _rows(pair, "ledger", "logs", "--page-token", second, "--limit", "1")[:1]
    assert last["log"] == numbers[1]
    later = _rows(pair, "ledger", "logs", "--start-after", str(planted - 1), "--all")
    assert [row["log"] for row in later if row["log"] in rows] == [planted]
    unknown = pair.admin.run("ledger", "logs", "-o", "ndjson", HEDWIG_CLUSTER="", HEDWIG_METADATA=pair.cluster)
    assert {row["hub_state"] for row in unknown.rows} == {"alive", "dead"}, "a store in ZooKeeper is its own cluster"


def test_what_no_topic_refers_to_is_shown_before_a_sweep_frees_it(pair: Pair, topic: str) -> None:
    _publish(pair, topic, 1, 7)
    pair.admin.done("topic", "release", topic)
    ledgers = _rows(pair, "ledger", "list", topic)
    (log,) = {row["log"] for row in ledgers}

    def unreferenced() -> tuple[int, int]:
        rows = [row for row in _rows(pair, "ledger", "unreferenced") if row["log"] == log and row["lost"] is None]
        assert all(row["unreferenced_slots"] <= row["slots"] for row in rows)
        return sum(row["unreferenced_slots"] for row in rows), sum(row["unreferenced_bytes"] for row in rows)

    slots, size = unreferenced()
    deleted = pair.admin.done("topic", "delete", topic, "--force", "--yes", "-o", "json")
    assert (deleted.json["ledgers"], deleted.json["ledgers_left"], deleted.err) == (3, 0, ""), "hubs sweep them"
    assert unreferenced() == (slots + 3, size + sum(row["stored_bytes"] for row in ledgers))
    told = pair.admin.done("ledger", "unreferenced")
    assert "no topic refers to " in told.err
