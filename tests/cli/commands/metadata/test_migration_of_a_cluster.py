"""Prove that migrate finds the hubs of a cluster, keeps them frozen, and that they serve from the filled store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.model import SubscriberId, Topic
from tests.cli.commands.hub.test_hubs_of_a_cluster import SESSION_S, Pair
from tests.cli.support.admin import Admin, wait_until
from tests.cli.support.logs_of_stores import logs
from tests.cli.support.store_contents import contents
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers

__all__: list[str] = []

NEWS = Topic(b"news")
READER = SubscriberId(b"reader")


@pytest.fixture(params=["per-topic", "shared"])
def pair(request: pytest.FixtureRequest, servers: RunningServers, tmp_path: Path) -> Iterator[Pair]:
    with Pair(servers, tmp_path, f"bookkeeper.ledgers={request.param}") as pair:
        yield pair


def _publish(hub: RunningHub, *bodies: bytes) -> None:
    with BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address))) as client:
        client.subscribe(NEWS, READER).close()
        for body in bodies:
            client.publish(NEWS, body)


def test_cluster_is_moved_while_its_hubs_are_frozen(pair: Pair, tmp_path: Path) -> None:
    _publish(pair.hubs[0], b"one", b"two")
    pair.own(pair.hubs[1], 20)
    url = f"zookeeper://{pair.zookeeper}{pair.prefix}-moved"
    admin = Admin(tmp_path, url)
    admin.done("metadata", "format")
    command = ("metadata", "migrate", "--from", pair.cluster, "--to", url, "-o", "json")
    # Nothing happens before the operator answers.
    assert admin.run(*command, text="n\n").code != 0
    assert not any(AdminClient(hub.admin).get("/freeze")["frozen"] for hub in pair.hubs)
    ran = admin.done(*command, "--yes")
    assert ran.json["verified"]
    assert len(ran.json["hubs"]) == len(pair.hubs)
    assert "restart each" in ran.err
    assert all(AdminClient(hub.admin).get("/freeze")["frozen"] for hub in pair.hubs)
    assert contents(url) == contents(pair.cluster, owners=False)
    assert logs(url) == logs(pair.cluster)
    assert ran.json["logs"] == len(logs(url))
    for hub in pair.hubs:
        hub.kill()
    moved = RunningHub(
        tmp_path / "moved",
        f"metadata={url}",
        f"cluster.zookeeper={pair.cluster}",
        f"cluster.session_timeout_s={SESSION_S}",
        f"bookkeeper.zookeeper=zookeeper://{pair.zookeeper}{LEDGERS_ROOT}",
    )
    moved.start()
    try:

        def received() -> list[str]:
            ran = admin.run("subscribe", "news", "reader", "--count", "2", "-o", "ndjson", HEDWIG_HUB=moved.address)
            return [row["body"] for row in ran.rows]

        # The shared log of a hub that was killed is closed once its session has ended.
        assert wait_until(received, "the messages are there") == ["one", "two"]
        _publish(moved, b"three")
    finally:
        moved.kill()
