"""Prove that secure servers serve a hub and commands that have the stores file, and nobody else."""

import asyncio
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from hedwig.cli.dev import DevError, DevServers
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.clock import SystemClock
from hedwig.errors import LedgerStoreUnavailableError, MetadataUnavailableError
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.cluster_options import BookieOptions, ClusterOptions
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.metadata import StoreOptions, open_metadata
from hedwig.outcomes import NotAppliedError
from hedwig.store_access import StoreAccess, TlsFiles
from hedwig.zookeeper import Bridge, BridgeOptions
from tests.cli.support.admin import Admin, Ran
from tests.hub.support.tls_client import Authority
from tests.hub.support.wire_client import WireClient
from tests.support.servers import UNSYNCED

_SHORT_S = 5.0
_ONE = Quorums(ensemble=1, write=1, ack=1)


@dataclass(frozen=True, slots=True)
class Secure:
    """The servers, where their parts are, and the stores file."""

    servers: DevServers

    @property
    def zookeeper(self) -> str:
        return self.servers.address("zookeeper")

    @property
    def file(self) -> Path:
        assert self.servers.stores_file is not None
        return self.servers.stores_file

    @property
    def metadata(self) -> str:
        return f"hbase://{self.zookeeper}/hedwig"

    @property
    def cluster(self) -> str:
        return f"zookeeper://{self.zookeeper}/hedwig/secure"

    @property
    def bookkeeper(self) -> str:
        return f"zookeeper://{self.zookeeper}{LEDGERS_ROOT}"

    def without(self, table: str, directory: Path) -> str:
        """Return a stores file without one table."""
        kept = [part for part in self.file.read_text().split("\n\n") if f"[{table}]" not in part]
        path = directory / "stores.toml"
        path.write_text("\n\n".join(kept).replace('= "c', f'= "{self.file.parent}/c'))
        return str(path)

    def with_other(self, authority: Authority, directory: Path) -> str:
        """Return a stores file whose client another authority has certified."""
        path = directory / "other.toml"
        text = self.file.read_text().replace('"ca.pem"', f'"{self.file.parent}/ca.pem"')
        path.write_text(text.replace('"client.pem"', f'"{authority.sign("stranger")}"'))
        return str(path)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    servers = DevServers(tmp_path_factory.mktemp("secure") / "servers", **UNSYNCED)
    try:
        servers.up(["hbase", "bookkeeper"], secure=True)
        yield Secure(servers)
    finally:
        servers.down()
        assert not servers.directory.exists()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger") / "authority")


async def test_hub_and_commands_use_them(secure: Secure, tmp_path: Path, stack: AsyncExitStack) -> None:
    admin = Admin(tmp_path, secure.metadata)
    places = {
        "HEDWIG_STORES_FILE": str(secure.file),
        "HEDWIG_CLUSTER": secure.cluster,
        "HEDWIG_BOOKKEEPER": secure.bookkeeper,
    }

    admin.environment |= places

    async def done(*arguments: str) -> Ran:
        ran = await asyncio.to_thread(admin.run_apart, *arguments)
        assert ran.code == 0, ran
        return ran

    await done("metadata", "format", "--regions", "2", "--secure")
    options = HubOptions(
        data_directory=tmp_path,
        metadata=secure.metadata,
        stores_file=str(secure.file),
        port=0,
        admin_port=0,
        access=AccessOptions(mode="open"),
        cluster=ClusterOptions(zookeeper=secure.cluster),
        bookkeeper=BookieOptions(zookeeper=secure.bookkeeper, ensemble=1, write_quorum=1, ack_quorum=1),
    )
    hub = await start_hub(Configuration(options))
    stack.push_async_callback(hub.close)
    client = await stack.enter_async_context(await WireClient.connect(hub.port))
    await client.subscribed(b"news", b"ann")
    bodies = [b"%d" % number * 1000 for number in range(1000)]
    assert await client.publish_many(b"news", *bodies) == list(range(1, 1001))
    assert [each.message.body for each in await client.deliveries(1000)] == bodies
    assert "news" in (await done("topic", "list")).out
    assert len((await done("hub", "list", "-o", "json")).json["hubs"]) == 1
    await done("metadata", "check")


async def test_zookeeper_and_hbase_serve_nobody_else(secure: Secure, tmp_path: Path, stranger: Authority) -> None:
    options = BridgeOptions(connect_timeout_s=_SHORT_S)
    bridge = Bridge(secure.zookeeper, options)
    with pytest.raises(NotAppliedError, match="no ZooKeeper at"):
        await bridge.connect()
    await bridge.close()
    for file in ("", secure.without("hbase", tmp_path), secure.with_other(stranger, tmp_path)):
        with pytest.raises(MetadataUnavailableError):
            await open_metadata(secure.metadata, StoreOptions(stores_file=file, operation_timeout_s=_SHORT_S))


async def test_bookies_serve_nobody_else(
    secure: Secure, tmp_path: Path, stranger: Authority, stack: AsyncExitStack
) -> None:
    access = StoreAccess.read(str(secure.file))
    bridge = Bridge(secure.zookeeper, BridgeOptions(access=access.zookeeper))
    stack.push_async_callback(bridge.close)
    await bridge.connect()
    assert access.bookkeeper is not None
    other = TlsFiles(access.bookkeeper.authorities, stranger.sign("hub"))
    anonymous = TlsFiles(access.bookkeeper.authorities)
    fools = TlsFiles(stranger.certificate, access.bookkeeper.certificate)
    cases = (
        (None, "no certificate that it takes"),
        (other, None),
        (anonymous, None),
        (fools, "CERTIFICATE_VERIFY_FAILED"),
    )
    for tls, said in cases:
        options = BookkeeperOptions(quorums=_ONE, tls=tls)
        store = await BookkeeperLedgerStore.open(
            BridgedSession(bridge), LEDGERS_ROOT, options, SystemClock(), Random(1)
        )
        ledger = await store.create()
        with pytest.raises(LedgerStoreUnavailableError, match=said):
            async with asyncio.timeout(60):
                await store.append(ledger, 0, b"m")
        await store.abandon()


def test_files_are_their_owners_alone(secure: Secure) -> None:
    assert stat.S_IMODE(secure.file.parent.stat().st_mode) == stat.S_IRWXU


def test_servers_that_run_do_not_become_secure_and_the_original_never_is(secure: Secure, tmp_path: Path) -> None:
    with pytest.raises(DevError, match="speaks no TLS; give another --dir"):
        secure.servers.up(["bookkeeper43"])
    plain = DevServers(tmp_path / "plain")
    try:
        plain.up(["zookeeper"])
        with pytest.raises(DevError, match="are not secure: run `hedwig-admin dev down`"):
            plain.up(["zookeeper"], secure=True)
        assert plain.stores_file is None
    finally:
        plain.down()
