"""Prove that a deployment can leave shared logs: no message is lost, and hubs of the last release may follow."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.clock import SystemClock
from hedwig.exit_codes import ExitCode
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.log_sweep import LogSweep
from hedwig.metadata import MetadataStore, read_layout
from hedwig.metadata.contract.layout import FORMAT_MAJOR, SHARED_LOGS_MAJOR
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.metadata.records.ranges import held_ledgers
from hedwig.model import HubInfo, SubscriberId, Topic
from tests.cli.commands.hub.test_hubs_of_a_cluster import SESSION_S, Pair
from tests.cli.support.admin import wait_until
from tests.cli.support.planted import in_store
from tests.hub.ledgers.bookkeeper.support.bookies import bookkeeper_store
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers

_READER: Final = SubscriberId(b"reader")
_MESSAGES: Final = 30


@pytest.fixture
def pair(servers: RunningServers, tmp_path: Path) -> Iterator[Pair]:
    """Two hubs with shared logs, whose ledgers take few messages each. They delete what is consumed at once.

    They leave topics of a killed hub to operators.
    """
    settings = ("bookkeeper.ledgers=shared", "ledger_messages_max=7", "repeat_window_s=0", "cluster.takeover_rate=0")
    with Pair(servers, tmp_path, *settings) as started:
        started.admin.environment |= {
            "HEDWIG_METADATA": started.cluster,
            "HEDWIG_BOOKKEEPER": f"zookeeper://{started.zookeeper}{LEDGERS_ROOT}",
            "HEDWIG_ADMIN": "",
        }
        yield started


def _client(hub: RunningHub) -> BlockingClient:
    return BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address)))


def _publish(hub: RunningHub, topic: str, first: int, last: int) -> None:
    """Publish messages beside a subscription that consumes none."""
    with _client(hub) as client:
        client.subscribe(Topic(topic.encode()), _READER).close()
        for number in range(first, last + 1):
            client.publish(Topic(topic.encode()), b"%d" % number)


def _read(hub: RunningHub, topic: str, count: int) -> list[bytes]:
    with _client(hub) as client, client.subscribe(Topic(topic.encode()), _READER) as opened:
        received = []
        for _ in range(count):
            message = next(opened)
            received.append(bytes(message.body))
            opened.consume(message.seq_id)
        return received


def _numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def _unshare(pair: Pair, *arguments: str) -> tuple[int, dict[str, Any], str]:
    ran = pair.admin.run("ledger", "unshare", *arguments, "-o", "ndjson")
    return ran.code, {row["topic"]: row for row in ran.rows}, ran.err


def _virtual(pair: Pair, topics: list[str]) -> dict[str, int]:
    """Return how many ranges with messages each topic has in shared logs."""

    async def read(store: MetadataStore) -> dict[str, int]:
        found = {}
        for topic in topics:
            stored = await store.persistence.read(Topic(topic.encode()))
            assert stored is not None
            found[topic] = sum(is_virtual(each.ledger_id) for each in held_ledgers(stored.value))
        return found

    return in_store(pair.cluster, read)


def _sweep(pair: Pair) -> None:
    """Sweep as a hub does in some hours, while no hub is alive."""

    async def nobody(_: HubInfo) -> bool:
        return False

    async def sweep(store: MetadataStore) -> None:
        records = KeptLogRecords(store.named_records)
        async with bookkeeper_store(pair.zookeeper, BookkeeperOptions.for_hubs(pair.cluster.encode())) as bookies:
            clock, options = SystemClock(), SharedLogOptions(grace_s=0.0)
            ledgers = SharedLedgerStore.without_log(bookies, records, clock, options, is_alive=nobody)
            me = HubInfo(host="sweeper", port=1, epoch=1)
            sweep = LogSweep(ledgers, records, store, me, clock, 3600.0, lambda: True)
            for _ in range(3):
                await sweep.sweep()

    in_store(pair.cluster, sweep)


def _format(pair: Pair) -> int:
    layout = asyncio.run(read_layout(pair.cluster))
    assert layout is not None
    return layout.major


def _hub(pair: Pair, directory: Path, *settings: str, environment: dict[str, str] | None = None) -> RunningHub:
    return RunningHub(
        directory,
        f"metadata={pair.cluster}",
        f"cluster.zookeeper={pair.cluster}",
        f"cluster.session_timeout_s={SESSION_S}",
        f"bookkeeper.zookeeper=zookeeper://{pair.zookeeper}{LEDGERS_ROOT}",
        *settings,
        environment=environment,
    )


def test_messages_leave_shared_logs_and_hubs_of_the_last_release_follow(
    pair: Pair, before_shared_logs: dict[str, str], tmp_path: Path
) -> None:
    one, other = pair.hubs
    prefix = f"{uuid.uuid4().hex}/"
    topics = [f"{prefix}{name}" for name in ("dead", "owned", "released", "consumed")]
    dead, owned, released, consumed = topics
    for topic in topics:
        pair.admin.done("topic", "create", topic)
        pair.admin.done("topic", "move", topic, (one if topic == dead else other).address)
        _publish(one, topic, 1, _MESSAGES)
    for topic in (released, consumed):
        if topic == consumed:
            assert _read(other, topic, _MESSAGES) == _numbers(1, _MESSAGES)
        pair.admin.done("topic", "release", topic)
    planned = _unshare(pair, "--prefix", prefix, "--dry-run")
    assert (planned[0], "would unshare 3 topics" in planned[2]) == (0, True), planned
    before = _virtual(pair, topics)
    assert (before[dead], before[owned], before[released], before[consumed]) == (5, 5, 5, 0)

    alive = _unshare(pair, dead)
    assert (alive[0], alive[1][dead]["result"], alive[1][dead]["ledgers"]) == (0, "unshared", 5), alive
    assert "come back there: set bookkeeper.ledgers to per-topic" in alive[2]
    pair.admin.done("topic", "move", dead, one.address)
    _publish(one, dead, _MESSAGES + 1, 2 * _MESSAGES)
    assert _virtual(pair, [dead])[dead] == 5, "its hub writes a shared log as before"
    one.kill()
    wait_until(lambda: len(pair.admin.done("hub", "list", "-o", "ndjson").rows) == 1, "its session has ended")

    code, rows, told = _unshare(pair, "--all")
    assert (code, {topic: row["result"] for topic, row in rows.items() if topic in topics}) == (
        0,
        dict.fromkeys((dead, owned, released), "unshared"),
    ), told
    assert sum(row["messages"] for row in rows.values()) == 3 * _MESSAGES
    assert sum(_virtual(pair, topics).values()) == 0
    assert "metadata repair --kind dead-owner" in told
    assert _unshare(pair, owned)[1][owned]["result"] == "unchanged"
    assert _unshare(pair, f"{prefix}no")[0] == ExitCode.NOT_FOUND
    assert _unshare(pair)[0] == ExitCode.USAGE
    pair.admin.done("metadata", "repair", "--kind", "dead-owner", "--yes")
    assert pair.admin.done("metadata", "check", "--prefix", prefix, "-o", "ndjson").rows == []

    other.stop()
    assert "delete the logs within three hours" in _unshare(pair, "--all")[2]
    with _hub(pair, tmp_path / "per-topic", "bookkeeper.ledgers=per-topic") as later:
        assert _read(later, dead, 2 * _MESSAGES) == _numbers(1, 2 * _MESSAGES)
        _publish(later, released, _MESSAGES + 1, _MESSAGES + 5)
        _publish(later, consumed, _MESSAGES + 1, _MESSAGES + 5)
        assert _format(pair) == SHARED_LOGS_MAJOR
        later.stop()
    _sweep(pair)
    assert pair.admin.done("ledger", "logs", "-o", "ndjson").rows == []
    assert "original hubs and those of older releases may use the store" in _unshare(pair, "--all")[2]
    assert _format(pair) == FORMAT_MAJOR
    with _hub(pair, tmp_path / "older", environment=before_shared_logs) as older:
        assert _read(older, owned, _MESSAGES) == _numbers(1, _MESSAGES)
        assert _read(older, released, _MESSAGES + 5) == _numbers(1, _MESSAGES + 5)
        assert _read(older, consumed, 5) == _numbers(_MESSAGES + 1, _MESSAGES + 5)
        _publish(older, dead, 2 * _MESSAGES + 1, 2 * _MESSAGES + 3)
        assert _read(older, dead, 3) == _numbers(2 * _MESSAGES + 1, 2 * _MESSAGES + 3)
