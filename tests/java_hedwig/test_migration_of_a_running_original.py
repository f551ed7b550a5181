"""Prove that a running deployment of the original moves to our hubs, and back, and that every subscription continues.

The original's own client publishes and consumes, then ours, once the metadata have moved. The messages stay on bookies
of release 4.3.2. Over all moves an account records the messages that every subscription must get. Nothing is lost,
repeated, or out of order.
"""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from tests.cli.support.admin import Admin
from tests.cli.support.store_contents import contents
from tests.hub.support.running import RunningHub
from tests.java_client.support.client import JavaClient
from tests.java_client.support.driver import JavaClientDriver, java_client_driver
from tests.java_hedwig.support.account import Account, JavaSide, OurSide
from tests.java_hedwig.support.stack import JavaStack
from tests.support.servers import RunningServers

__all__: list[str] = []

_BOOKIES: Final = 2
_SESSION_S: Final = 4
_MORE: Final = 6
"""More messages than one ledger takes."""

ORDERS, NESTED, FOREIGN, SILENT, UNHEARD, LATE = (
    Topic(name.encode()) for name in ("orders", "shop/books", "süß/été", "silent", "unheard", "made-while-copied")
)
NOTHING, SOME, ALL, PICKY, LEAVES, LATER = (
    SubscriberId(name.encode()) for name in ("read-nothing", "read-some", "read-all", "話す人", "leaves", "came-later")
)
_PREFERENCES: Final = SubscriptionPreferences(options={"colour": b"blue"}, message_bound=1000, message_window_size=50)


class Move:
    """The deployment of the original, and our hubs that take its place."""

    def __init__(self, directory: Path, servers: RunningServers, java: JavaStack, driver: JavaClientDriver) -> None:
        self.java = java
        self.account = Account()
        self.sqlite = f"sqlite://{directory}/moved.db"
        self.hbase, self.hbase_later = (f"{_hbase(servers)}/{uuid.uuid4().hex}" for _ in range(2))
        self.admin = Admin(directory, self.sqlite)
        self._directory = directory
        self._driver = driver

    def migrate(self, source: str, target: str, *arguments: str) -> Any:
        """Run the command, and return its report."""
        return self.admin.done(
            "metadata", "migrate", "--from", source, "--to", target, "--yes", *arguments, "-o", "json"
        ).json

    @contextmanager
    def theirs(self) -> Iterator[JavaSide]:
        """Connect the original's client to the original's hub."""
        # Otherwise the client stops reading at ten unacknowledged messages.
        properties = {"max_outstanding_messages": 1000}
        with JavaClient(self._driver, f"127.0.0.1:{self.java.hub_port}", properties) as client:
            yield JavaSide(client, self.java)

    @contextmanager
    def ours(self, metadata: str) -> Iterator[OurSide]:
        """Run two of our hubs on `metadata` and the same bookies, and connect our client to one of them."""
        zookeeper = f"zookeeper://{self.java.zookeeper}"
        cluster, ledgers = f"{zookeeper}/hedwig/ours", f"{zookeeper}/ledgers"
        settings = (
            f"metadata={metadata}",
            f"cluster.zookeeper={cluster}",
            f"cluster.session_timeout_s={_SESSION_S}",
            f"bookkeeper.zookeeper={ledgers}",
            "bookkeeper.compat=4.3",
            *(f"bookkeeper.{quorum}={_BOOKIES}" for quorum in ("ensemble", "write_quorum", "ack_quorum")),
        )
        hubs = [RunningHub(self._directory / name, *settings) for name in ("one", "other")]
        try:
            for hub in hubs:
                hub.start()
            options = ("--metadata", metadata, "--cluster", cluster, "--bookkeeper", ledgers)
            checked = self.admin.run("check", "health", *options, "-o", "ndjson").rows
            assert {row["check"] for row in checked} >= {"tables", "liveness", "hub", "bookies"}
            # A busy machine may be slow.
            assert {row["verdict"] for row in checked} <= {"PASS", "WARN"}, checked
            with BlockingClient(ClientOptions(hub=HubAddress.parse(hubs[0].address))) as client:
                yield OurSide(client)
            for hub in hubs:
                hub.stop()
        finally:
            for hub in hubs:
                hub.kill()


def _hbase(servers: RunningServers) -> str:
    servers.address("hbase")
    return f"hbase://{servers.address('zookeeper')}"


@pytest.fixture
def move(servers: RunningServers, tmp_path: Path) -> Iterator[Move]:
    """Start the original, and lay out the stores for its metadata."""
    java = JavaStack(tmp_path / "original", bookies=_BOOKIES)
    with java, java_client_driver(tmp_path) as driver:
        java.start_stores()
        java.start_hub()
        made = Move(tmp_path, servers, java, driver)
        for url in (made.hbase, made.hbase_later):
            made.admin.done("metadata", "format", "--regions", "2", "--metadata", url)
        yield made


def test_deployment_moves_to_our_hubs_and_back_and_every_subscription_goes_on(move: Move) -> None:
    original = move.java.metadata_url
    with move.theirs() as client:
        _work_on_the_original(move.account, client)
        _copy_while_it_works(move, client)
    move.java.stop_hub()
    report = move.migrate(original, move.hbase, "--hubs-down")
    assert (report["verified"], report["resumed"], report["caught_up"] > 0) == (True, True, True)
    assert report["changed_in_pause"] == 0, "the hub is down while everything is compared before the pause"
    assert contents(move.hbase, owners=False) == contents(original, owners=False)

    with move.ours(move.hbase) as client:
        _go_on(move.account, client)
    move.admin.done("metadata", "format", "--wipe", "--yes", "--metadata", original)
    assert move.migrate(move.hbase, original, "--hubs-down")["verified"]
    assert contents(original) == contents(move.hbase, owners=False)

    move.java.start_hub()
    with move.theirs() as client:
        _go_on(move.account, client)
    # A crash this time: the last ledgers are open, and recovery has to find their ends.
    move.java.kill_hub()
    assert move.migrate(original, move.sqlite, "--hubs-down")["verified"]
    assert move.migrate(move.sqlite, move.hbase_later)["verified"]
    assert contents(move.hbase_later) == contents(move.sqlite) == contents(original, owners=False)
    with move.ours(move.hbase_later) as client:
        _go_on(move.account, client)


def _work_on_the_original(account: Account, client: JavaSide) -> None:
    account.subscribe(client, ORDERS, NOTHING)
    account.subscribe(client, ORDERS, SOME)
    account.subscribe(client, ORDERS, LEAVES)
    account.publish(client, ORDERS, 3)
    account.subscribe(client, ORDERS, PICKY, _PREFERENCES)
    account.subscribe(client, ORDERS, ALL)
    account.publish(client, ORDERS, 7)
    account.consume(client, ORDERS, SOME, 5)
    account.consume(client, ORDERS, PICKY, 6)
    account.consume(client, ORDERS, ALL, 10)
    account.subscribe(client, NESTED, SOME)
    account.publish(client, NESTED, 2)
    account.consume(client, NESTED, SOME, 1)
    account.subscribe(client, FOREIGN, PICKY, _PREFERENCES)
    account.publish(client, FOREIGN, 6)
    account.subscribe(client, SILENT, NOTHING)
    account.publish(client, UNHEARD, 5)


def _copy_while_it_works(move: Move, client: JavaSide) -> None:
    """Copy the metadata while the hub is busy, and change something of every kind after that."""
    account = move.account
    copied = threading.Event()

    def publish_until_copied() -> None:
        while not copied.is_set():
            account.publish(client, ORDERS, 1)

    publisher = threading.Thread(target=publish_until_copied)
    publisher.start()
    try:
        report = move.migrate(move.java.metadata_url, move.hbase, "--no-pause")
    finally:
        copied.set()
        publisher.join()
    assert not report["verified"]
    assert report["copied"] > 0
    account.unsubscribe(client, ORDERS, LEAVES)
    account.subscribe(client, NESTED, LATER)
    account.subscribe(client, LATE, SOME)
    account.publish(client, LATE, 3)
    account.publish(client, NESTED, 3)
    account.consume(client, NESTED, SOME, 4)
    account.consume(client, ORDERS, SOME, 7)


def _go_on(account: Account, client: JavaSide | OurSide) -> None:
    """Check what every subscription gets, and let some subscriptions consume a part of it."""
    account.check_all(client, _MORE)
    for topic, subscriber in ((ORDERS, SOME), (NESTED, LATER), (FOREIGN, PICKY), (SILENT, NOTHING)):
        account.consume(client, topic, subscriber, account.left(topic, subscriber)[2][0])
