"""Prove that hubs and commands work on a ZooKeeper with TLS and logins, and that nobody else registers there."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.errors import ConfigurationError, MetadataForbiddenError
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.cluster_options import BookieOptions, ClusterOptions
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.zookeeper import is_open_to_all
from tests.cli.support.admin import Admin, Ran
from tests.hub.support.wire_client import WireClient
from tests.zookeeper.support.locked_server import LOGIN, LockedServer

SESSION_S = 4.0


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedServer]:
    server = LockedServer(tmp_path_factory.mktemp("locked"), "bookkeeper")
    try:
        yield server
    finally:
        server.launcher.down()


class Cluster:
    """A prefix on that server, and the hubs of a test there."""

    def __init__(self, locked: LockedServer, directory: Path, stack: AsyncExitStack) -> None:
        self.locked = locked
        self.prefix = f"/{uuid.uuid4().hex}/region"
        self.directory = directory
        self._stack = stack

    def url(self, *, tls: bool) -> str:
        return f"zookeeper://{self.locked.secure if tls else self.locked.plain}{self.prefix}"

    async def run(self, stores_file: str, *arguments: str, tls: bool = False) -> Ran:
        """Run a command of hedwig-admin to its end, in a process of its own."""
        admin = Admin(self.directory, self.url(tls=tls))
        return await asyncio.to_thread(partial(admin.run_apart, *arguments, HEDWIG_STORES_FILE=stores_file))

    async def done(self, stores_file: str, *arguments: str, tls: bool = False) -> Ran:
        """Run a command that must succeed."""
        ran = await self.run(stores_file, *arguments, tls=tls)
        assert ran.code == 0, ran
        return ran

    async def closed(self, stores_file: str, *, tls: bool = False) -> int:
        """Return how many nodes `metadata format --secure` has closed."""
        ran = await self.done(stores_file, "metadata", "format", "--secure", "-o", "json", tls=tls)
        number = ran.json["closed"]
        assert isinstance(number, int)
        return number

    async def start(self, stores_file: str, *, tls: bool, metadata: str | None = None, **changes: Any) -> Hub:
        address = self.locked.secure if tls else self.locked.plain
        given: dict[str, Any] = {
            "data_directory": self.directory,
            "metadata": self.url(tls=tls) if metadata is None else metadata,
            "stores_file": stores_file,
            "port": 0,
            "admin_port": -1,
            "operation_timeout_s": 20.0,
            "access": AccessOptions(mode="open"),
            "cluster": ClusterOptions(
                zookeeper=self.url(tls=tls), session_timeout_s=SESSION_S, rebalance_interval_s=0.0
            ),
            "bookkeeper": BookieOptions(
                zookeeper=f"zookeeper://{address}{LEDGERS_ROOT}", ensemble=1, write_quorum=1, ack_quorum=1
            ),
        }
        hub = await start_hub(Configuration(HubOptions(**{**given, **changes})))
        self._stack.push_async_callback(hub.close)
        return hub

    async def connect(self, hub: Hub) -> WireClient:
        return await self._stack.enter_async_context(await WireClient.connect(hub.port))


@pytest.fixture
async def cluster(locked: LockedServer, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        yield Cluster(locked, tmp_path, stack)


@contextmanager
def _client(locked: LockedServer, *logins: str) -> Iterator[KazooClient]:
    client = KazooClient(locked.plain, auth_data=[("digest", login) for login in logins])
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _open_nodes(client: KazooClient, path: str) -> list[str]:
    """Return the nodes from `path` down that everybody may change."""
    below = [node for name in client.get_children(path) for node in _open_nodes(client, f"{path}/{name}")]
    return [path, *below] if is_open_to_all(client.get_acls(path)[0]) else below


async def test_hubs_serve_over_tls_with_a_login_and_all_that_they_make_is_closed(
    locked: LockedServer, cluster: Cluster
) -> None:
    file = locked.stores_file(LOGIN, trusted=locked.authority)
    assert await cluster.closed(file, tls=True) == 0
    first, second = await cluster.start(file, tls=True), await cluster.start(file, tls=True)
    client = await cluster.connect(first)
    await client.subscribed(b"news", b"ann")
    await client.publish(b"news", b"one")
    assert [each.message.body for each in await client.deliveries(1)] == [b"one"]
    other = await cluster.connect(second)
    await other.publish(b"weather", b"two")
    assert len((await cluster.done(file, "hub", "list", "-o", "json", tls=True)).json["hubs"]) == 2
    assert "news" in (await cluster.done(file, "topic", "list", tls=True)).out
    await cluster.done(file, "access", "allow", "*", "publish", "*", tls=True)
    await cluster.done(file, "metadata", "check", tls=True)
    with _client(locked, LOGIN) as ours, _client(locked) as stranger:
        assert _open_nodes(ours, cluster.prefix) == []
        for path in (f"{cluster.prefix}/hosts/evil:1:1", f"{cluster.prefix}/endpoints/e", f"{cluster.prefix}/topics/t"):
            with pytest.raises(NoAuthError):
                stranger.create(path, ephemeral=True)
        with pytest.raises(NoAuthError):
            stranger.set_acls(f"{cluster.prefix}/hosts", ours.get_acls(f"{cluster.prefix}/hosts")[0])
        assert set(ours.get_children(f"{cluster.prefix}/hosts")) == {hub.me.address for hub in (first, second)}


async def test_open_deployment_is_closed_while_its_hubs_run(
    locked: LockedServer, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Hubs get their login first, and make open nodes until all of them have it."""
    await cluster.done("", "metadata", "format")
    before = await cluster.start("", tls=False)
    client = await cluster.connect(before)
    await client.publish(b"old", b"one")
    opening, closing = locked.stores_file(LOGIN, new_nodes="open"), locked.stores_file(LOGIN)
    between = await cluster.start(opening, tls=False)
    assert "whoever reaches ZooKeeper may register a hub" in caplog.text
    await (await cluster.connect(between)).publish(b"between", b"two")
    await client.publish(b"old", b"three")
    await before.close()
    after = await cluster.start(closing, tls=False)
    await (await cluster.connect(after)).publish(b"new", b"four")
    assert await cluster.closed(closing) > 5
    assert await cluster.closed(closing) == 0
    with _client(locked, LOGIN) as ours:
        assert _open_nodes(ours, cluster.prefix) == []
    for hub, topic in ((between, b"between"), (after, b"new")):
        await (await cluster.connect(hub)).publish(topic, b"five")
    caplog.clear()
    await cluster.start(closing, tls=False)
    assert "whoever reaches ZooKeeper" not in caplog.text


async def test_hub_and_commands_without_the_login_are_told_so(locked: LockedServer, cluster: Cluster) -> None:
    file = locked.stores_file(LOGIN)
    await cluster.closed(file)
    for stores_file in ("", locked.stores_file("hedwig:guessed")):
        with pytest.raises(MetadataForbiddenError, match="access control list"):
            await cluster.start(stores_file, tls=False)
        ran = await cluster.run(stores_file, "topic", "list")
        assert (ran.code, "access control list" in ran.err) == (1, True), ran.err
        ran = await cluster.run(stores_file, "hub", "list")
        assert (ran.code, "lets no login of the stores file do it; give --stores-file FILE" in ran.err) == (6, True), (
            ran.err
        )


async def test_place_of_others_is_not_said_to_be_closed(locked: LockedServer, cluster: Cluster) -> None:
    above = cluster.prefix.rpartition("/")[0]
    with _client(locked, "mallory:m") as mallory:
        mallory.create(above, acl=[make_digest_acl("mallory", "m", all=True)])
    file = locked.stores_file(LOGIN)
    admin = Admin(cluster.directory, f"sqlite://{cluster.directory}/metadata.db")
    ran = await asyncio.to_thread(
        partial(
            admin.run_apart,
            *("metadata", "format", "--secure", "--cluster", cluster.url(tls=False)),
            HEDWIG_STORES_FILE=file,
        )
    )
    assert ran.code == 1, ran
    assert f"does not let the logins of the stores file make {cluster.prefix}/hosts" in ran.err
    # The options of a store in its URL say nothing of where its nodes are.
    own = Cluster(locked, cluster.directory, AsyncExitStack())
    admin = Admin(cluster.directory, f"{own.url(tls=False)}?children_max=1000")
    ran = await asyncio.to_thread(partial(admin.run_apart, "metadata", "format", "--secure", HEDWIG_STORES_FILE=file))
    assert ran.code == 0, ran
    with _client(locked, LOGIN) as ours:
        assert ours.exists(f"{own.prefix}/hosts") is not None


async def test_stores_file_that_cannot_be_used_ends_a_start(cluster: Cluster, tmp_path: Path) -> None:
    for text, said in (('[zookeeper]\nlogins = "secret"', "logins must be"), ("zookeeper", "is no TOML")):
        (tmp_path / "stores.toml").write_text(text)
        with pytest.raises(ConfigurationError, match=said):
            await cluster.start(str(tmp_path / "stores.toml"), tls=False)


async def test_nothing_is_closed_without_a_login_or_a_zookeeper(cluster: Cluster, tmp_path: Path) -> None:
    ran = await cluster.run("", "metadata", "format", "--secure")
    assert ran.code == 2
    assert "give --stores-file FILE" in ran.err
    embedded = Admin(tmp_path, f"sqlite://{tmp_path}/metadata.db")
    ran = await asyncio.to_thread(embedded.run_apart, "metadata", "format", "--secure")
    assert ran.code == 2
    assert "no ZooKeeper was named" in ran.err
    assert not (tmp_path / "metadata.db").exists()
