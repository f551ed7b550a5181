"""Prove that a migration under traffic loses nothing that hubs acknowledged, and revives nothing that ended."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hedwig.model import SubscriptionData
from tests.cli.commands.hub.test_hubs_of_a_cluster import Pair
from tests.cli.support.admin import Admin, Ran, wait_until
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.store_contents import contents, fill
from tests.cli.support.traffic import READER, TOPICS, Traffic
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers

__all__: list[str] = []

_ENOUGH: Final = 40
"""At least this many events of each kind happen before the migration begins, and as many beside it."""
_AT_REST: Final = 300
"""The number of idle topics. There are six times as many idle subscriptions."""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[HubAndAdmin]:
    with HubAndAdmin(tmp_path, "consume_interval=1", "consume_flush_s=0.2", "ledger_messages_max=20") as hub:
        yield hub


@pytest.fixture
def pair(servers: RunningServers, tmp_path: Path) -> Iterator[Pair]:
    with Pair(servers, tmp_path, "consume_interval=1", "consume_flush_s=0.2", "ledger_messages_max=20") as pair:
        yield pair


def _wait_for_traffic(traffic: Traffic) -> None:
    """Wait until each kind of event has happened _ENOUGH more times."""

    def counts() -> tuple[int, ...]:
        done = (traffic.published, traffic.received)
        return (*(sum(map(len, each.values())) for each in done), len(traffic.made), len(traffic.ended))

    before = counts()
    wait_until(
        lambda: all(now >= then + _ENOUGH for now, then in zip(counts(), before, strict=True)),
        "messages are published and read, subscriptions made and ended",
    )


def _move_under_traffic(traffic: Traffic, admin: Admin, *command: str) -> Ran:
    with traffic:
        _wait_for_traffic(traffic)
        # First the part that may take any time.
        admin.done("metadata", "migrate", *command, "--no-pause")
        _wait_for_traffic(traffic)
        ran = admin.done("metadata", "migrate", *command, "--yes", "-o", "json")
        refused = traffic.refused
        wait_until(lambda: traffic.refused > refused, "frozen hubs refuse what is asked of them")
    assert ran.json["verified"]
    return ran


def _check_store(traffic: Traffic, target: str) -> None:
    moved = contents(target)
    there = {(topic, subscriber) for kind, topic, subscriber in moved if kind == "subscriptions"}
    assert traffic.made
    assert traffic.ended
    assert not traffic.made - there, "a subscription that was acknowledged is missing"
    assert not traffic.ended & there, "a subscription that was ended is back"
    for topic in TOPICS:
        data: SubscriptionData = moved["subscriptions", topic, READER]
        assert data.state is not None
        assert data.state.consumed.local <= max(traffic.received[topic]), "a consume pointer is ahead"


def _check_messages(traffic: Traffic) -> None:
    for topic in TOPICS:
        assert traffic.published[topic]
        traffic.read_the_rest(topic)
        # Each delivered message has the body that was acknowledged.
        for number in traffic.published[topic].keys() & traffic.received[topic].keys():
            assert traffic.received[topic][number] == traffic.published[topic][number]
    with traffic.client() as client:
        client.publish(TOPICS[0], b"the hubs go on")


def _restart(hub: RunningHub, metadata: str) -> None:
    hub.stop()
    hub.settings = (*(each for each in hub.settings if not each.startswith("metadata=")), f"metadata={metadata}")
    hub.start()


def test_standalone_hub_is_moved_under_traffic(running: HubAndAdmin, tmp_path: Path) -> None:
    target = f"sqlite://{tmp_path}/target.db"
    running.admin.done("metadata", "format", "--metadata", target)
    fill(running.admin.url, _AT_REST)
    traffic = Traffic(running.hub.address)
    command = ("--from", running.admin.url, "--to", target, "--hub-admin", running.hub.admin)
    ran = _move_under_traffic(traffic, running.admin, *command)
    assert ran.json["caught_up"] > 0
    _check_store(traffic, target)
    _restart(running.hub, target)
    _check_messages(traffic)


@pytest.mark.full
@pytest.mark.parametrize("way", ["hbase", "hbase+thrift"])
def test_a_store_in_hbase_is_moved_under_traffic(way: str, servers: RunningServers, tmp_path: Path) -> None:
    """In the pause the migration compares only what was changed, and misses nothing."""
    servers.address("hbase")
    namespace = f"m{uuid.uuid4().hex[:12]}"
    metadata = f"hbase://{servers.address('zookeeper')}/{namespace}"
    gateway = f"hbase+thrift://{servers.address('thrift2')}/{namespace}"
    source = {"hbase": metadata, "hbase+thrift": gateway}[way]
    admin, target = Admin(tmp_path, metadata), f"sqlite://{tmp_path}/target.db"
    admin.done("metadata", "format", "--regions", "3", "--timeout", "120")
    admin.done("metadata", "format", "--metadata", target)
    fill(metadata, _AT_REST)
    settings = ("consume_interval=1", "consume_flush_s=0.2", "ledger_messages_max=20")
    with RunningHub(tmp_path / "hub", f"metadata={metadata}", *settings) as hub:
        traffic = Traffic(hub.address)
        command = ("--from", source, "--to", target, "--hub-admin", hub.admin)
        ran = _move_under_traffic(traffic, admin, *command)
        assert ran.json["caught_up"] > 0
        moved = contents(target)
        assert ran.json["compared_in_pause"] < len(moved) / 2
        assert moved == contents(metadata, owners=False)
        _check_store(traffic, target)
        _restart(hub, target)
        _check_messages(traffic)


def test_cluster_is_moved_under_traffic(pair: Pair, servers: RunningServers, tmp_path: Path) -> None:
    servers.address("hbase")
    target = f"hbase://{servers.address('zookeeper')}/m{uuid.uuid4().hex[:12]}"
    admin = Admin(tmp_path, target)
    admin.done("metadata", "format", "--regions", "3", "--timeout", "120")
    fill(pair.cluster, _AT_REST)
    at_rest = contents(pair.cluster, owners=False)
    traffic = Traffic(pair.hubs[0].address)
    ran = _move_under_traffic(traffic, admin, "--from", pair.cluster, "--to", target)
    assert ran.json["compared_in_pause"] < len(at_rest)
    assert at_rest.items() <= contents(target).items()
    _check_store(traffic, target)
    for hub in pair.hubs:
        _restart(hub, target)
    _check_messages(traffic)
