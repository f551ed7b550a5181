"""A deployment: a prefix in ZooKeeper, a metadata store and the bookies, and the hubs that tests start on them."""

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.errors import TopicPersistenceInfoExistsError
from hedwig.hub.cluster import ClusterMembership
from hedwig.hub.hub import Hub
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.liveness import ClusterLiveness
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.cluster_options import BookieOptions, ClusterOptions
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.metadata import MetadataStore, StoreOptions
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.testing.subject import Subject
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, Topic
from hedwig.store_access import STORES_FILE, StoreAccess
from hedwig.versions import NEW
from hedwig.wire import Answer, CloseSubscription, Message
from hedwig.wire import pubsub_pb2 as pb
from hedwig.zookeeper.handler import PromptHandler
from tests.faults.support.network import NETWORKED, Networked
from tests.faults.support.proxy import PASS, Plan, Proxy
from tests.faults.support.waiting import until
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_client import WireClient, eventually

__all__ = ["SESSION_S", "Deployment", "bodies_of", "bookies_of", "liveness_of"]

SESSION_S: Final = 4.0
"""The session of hubs that lose it: the shortest that a server with ticks of two seconds grants."""
_LONG_SESSION_S: Final = 10.0
"""The session of the other hubs. They share a busy machine, and an event loop, with the faults of the test."""

_RAW_TCP_S: Final = 10.0

_NETWORKED: Final = {row.label: row for row in NETWORKED}


class _BlockingHandler(PromptHandler):
    """Connects with TLS, for a client that waits. kazoo's own leaves a socket open if the server is not there yet."""

    def async_result(self) -> Any:
        return SequentialThreadingHandler.async_result(self)


class Deployment:
    """The servers and paths of the hubs of one test. `backend` holds their metadata; they make `ledgers`."""

    def __init__(
        self,
        zookeeper: str,
        backend: str,
        ledgers: str,
        subject: Subject,
        directory: Path,
        patch: pytest.MonkeyPatch,
        stack: AsyncExitStack,
    ) -> None:
        self.zookeeper = zookeeper
        self.bookkeeper = zookeeper
        """The ZooKeeper of the bookies."""
        self.ledgers = ledgers
        self.prefix = f"/hedwig/{uuid.uuid4().hex}"
        self.networked: Networked = _NETWORKED[backend]
        self.stores_file = subject.stores_file
        """The file with what programs show to the servers; empty if these let everybody in."""
        patch.setenv(STORES_FILE, self.stores_file)  # For commands in processes of their own.
        # The hub opens its store in the same way.
        self.subject = replace(subject, gather=True)
        self.directory = directory
        self.store: MetadataStore
        self._patch = patch
        self._stack = stack
        self._apart = 0
        self._made: set[bytes] = set()

    async def open(self) -> None:
        """Format the metadata, and open a store in addition to the hubs' own."""
        await self.subject.format()
        self.store = await self._stack.enter_async_context(await self.subject.open())

    # --------------------------------------------------------------------------------------------------- hubs

    def options(
        self, *, cluster: Mapping[str, Any] | None = None, zookeeper: str | None = None, **changes: Any
    ) -> HubOptions:
        """Return the options of a hub. Its liveness uses ZooKeeper at `zookeeper`, where a test can cut it off."""
        session_s = SESSION_S if zookeeper else _LONG_SESSION_S
        given = {"session_timeout_s": session_s, "rebalance_interval_s": 0.0, **(cluster or {})}
        made: dict[str, Any] = {
            "data_directory": self.directory,
            "metadata": self.subject.url,
            "port": 0,
            "admin_port": -1,
            "stores_file": self.stores_file,
            "access": AccessOptions(mode="open"),
            "retention_interval_s": 3600.0,
            "cluster": ClusterOptions(zookeeper=f"zookeeper://{zookeeper or self.zookeeper}{self.prefix}", **given),
            "bookkeeper": self.on_bookies(),
        }
        return HubOptions(**{**made, **changes})

    def on_bookies(self, **changes: Any) -> BookieOptions:
        """Return the options of a hub for the bookies."""
        given = {"zookeeper": f"zookeeper://{self.bookkeeper}{LEDGERS_ROOT}", "ledgers": self.ledgers}
        return BookieOptions(**{**given, **changes})

    def write_logs(self, **changes: Any) -> None:
        """Let hubs of this process that start from now on write their shared logs with other options."""
        self._patch.setattr("hedwig.hub.cluster.SharedLogOptions", partial(SharedLogOptions, **changes))

    async def begin_log(self, hub: Hub) -> None:
        """Let a hub in this process begin its log, if it writes one, and wait until that has its first two ledgers."""
        if self.ledgers == "shared":
            assert isinstance(hub.ledgers, SharedLedgerStore)
            await hub.ledgers.begin_log()

            async def has_ledgers() -> bool:
                return len((await self.log_of(hub)).listed) == 2

            await eventually(has_ledgers, "the log has its first two ledgers")

    async def log_of(self, hub: Hub) -> LogRecord:
        """Return the record of the log that a hub in this process writes."""
        assert isinstance(hub.ledgers, SharedLedgerStore)
        assert hub.ledgers.log is not None, "it has begun its log"
        record = await KeptLogRecords(self.store.named_records).read(hub.ledgers.log)
        assert record is not None
        return record

    async def start(self, *, subject: Subject | None = None, **changes: Any) -> Hub:
        """Start a hub in this process, with its metadata in `subject`. It is closed at the end of the test."""
        there = subject or self.subject

        async def open_there(_url: str, options: StoreOptions | None = None) -> MetadataStore:
            return await there.open(options)

        with self._patch.context() as patch:
            patch.setattr("hedwig.hub.hub.open_metadata", open_there)
            hub = await start_hub(Configuration(self.options(**changes)))
        self._stack.push_async_callback(hub.close)
        return hub

    def apart(self, *settings: str) -> RunningHub:
        """Return a hub for a process of its own, which is not started yet. It is killed at the end of the test."""
        self._apart += 1
        given = {setting.partition("=")[0] for setting in settings}
        ours = (setting for setting in self.settings() if setting.partition("=")[0] not in given)
        hub = RunningHub(self.directory / f"hub-{self._apart}", *ours, *settings)
        self._stack.callback(hub.kill)
        return hub

    def settings(self) -> tuple[str, ...]:
        """Return the settings of a hub in a process of its own."""
        return (
            f"metadata={self.subject.url}",
            f"stores_file={self.stores_file}",
            f"cluster.zookeeper=zookeeper://{self.zookeeper}{self.prefix}",
            f"cluster.session_timeout_s={SESSION_S:g}",
            "cluster.rebalance_interval_s=0",
            f"bookkeeper.zookeeper=zookeeper://{self.bookkeeper}{LEDGERS_ROOT}",
            f"bookkeeper.ledgers={self.ledgers}",
        )

    async def connect(self, hub: Hub | RunningHub) -> WireClient:
        """Open a channel to a hub, closed at the end of the test."""
        return await self._stack.enter_async_context(await WireClient.connect(hub.port))

    # --------------------------------------------------------------------------------- in between, and past the hubs

    async def behind_proxy(self, plan: Plan = lambda _: PASS) -> tuple[Proxy, Subject]:
        """Return a proxy in front of the metadata store, and the subject that is reached through it."""
        proxy = self.networked.proxy(self.subject, plan)
        await self._stack.enter_async_context(proxy)
        return proxy, self.networked.behind(proxy, self.subject)

    async def proxy_to_zookeeper(self, wire: Any) -> Proxy:
        """Return a proxy in front of ZooKeeper, for the liveness of a hub."""
        return await self._stack.enter_async_context(Proxy(self.zookeeper, wire, stores_file=self.stores_file))

    def raw(self, zookeeper: str | None = None) -> KazooClient:
        """Return a ZooKeeper client beside the code under test. Call it between awaits: it answers at once."""
        access = StoreAccess.read(self.stores_file).zookeeper
        client = KazooClient(
            zookeeper or self.zookeeper,
            auth_data=[("digest", login) for login in access.logins],
            handler=None if access.tls is None else _BlockingHandler(_RAW_TCP_S, access.tls),
        )
        client.start(30)
        self._stack.callback(client.close)
        self._stack.callback(client.stop)
        return client

    async def make(self, topic: bytes) -> None:
        """Create a topic that no hub owns, if it does not exist."""
        if topic not in self._made:
            with contextlib.suppress(TopicPersistenceInfoExistsError):
                await self.store.persistence.write(Topic(topic), LedgerRanges(), NEW)
            self._made.add(topic)

    async def ask(
        self, client: WireClient, topic: bytes, *, should_claim: bool = True, tried: Sequence[HubInfo] = ()
    ) -> Answer:
        """Send a request about a topic that makes a hub claim it or redirect, and changes nothing else.

        The topic is created if it does not exist. `tried` are the hubs that have redirected this request, in order.
        """
        await self.make(topic)
        if not tried:
            return await client.request(topic, CloseSubscription(SubscriberId(b"nobody")), should_claim=should_claim)
        sent = client.send_raw(
            topic=topic,
            type=pb.CLOSESUBSCRIPTION,
            shouldClaim=should_claim,
            triedServers=[f"{hub.host}:{hub.port}".encode() for hub in tried],
            closeSubscriptionRequest=pb.CloseSubscriptionRequest(subscriberId=b"nobody"),
        )
        return await client.answer(sent)

    async def owner(self, topic: bytes) -> HubInfo | None:
        """Return the hub that the owner record of a topic names, as it is registered."""
        record = await self.store.ownership.read(Topic(topic))
        return None if record is None else replace(record.value, log=None)

    def epoch_of(self, raw: KazooClient, address: str) -> int | None:
        """Return the epoch of the hub that is registered at host:port:sslport, None if there is none."""
        stat = raw.exists(f"{self.prefix}/hosts/{address}")
        return None if stat is None else int(stat.czxid)

    def registered_at(self, raw: KazooClient, port: int) -> HubInfo | None:
        """Return the hub of this machine that is registered with that port."""
        for name in raw.get_children(f"{self.prefix}/hosts"):
            info = HubInfo.at(name, epoch=self.epoch_of(raw, name) or 0)
            if info.port == port and info.epoch:
                return info
        return None

    async def gone(self, raw: KazooClient, info: HubInfo, *others: Hub) -> None:
        """Wait until ZooKeeper has removed an incarnation of a hub, and `others` in this process know of it."""
        await until(lambda: self.epoch_of(raw, info.address) != info.epoch, f"the end of hub {info.address}")

        def is_forgotten() -> bool:
            return all(info not in {hub.info for hub in liveness_of(other).live} for other in others)

        await until(is_forgotten, f"news of the end of hub {info.address}")


def liveness_of(hub: Hub) -> ClusterLiveness:
    """Return the liveness of a hub in this process."""
    assert isinstance(hub.shape, ClusterMembership)
    return hub.shape.liveness


def bookies_of(hub: Hub) -> BookkeeperLedgerStore:
    """Return the store on bookies of a hub in this process, below that of shared logs."""
    assert isinstance(hub.shape, ClusterMembership)
    assert hub.shape._bookies is not None, "it serves"
    return hub.shape._bookies


async def bodies_of(hub: Hub, name: bytes) -> list[bytes | None]:
    """Return the bodies of all messages of a topic, as its owner in this process reads them."""
    topic = hub.topics.get(Topic(name))
    assert topic is not None
    stored: list[bytes] = []
    while len(stored) < topic.log.last_id:
        stored += await topic.log.read(len(stored) + 1, messages_max=99, bytes_max=1 << 20)
    return [Message.decode(each).body for each in stored]
