"""The registry: it finds the active master and hbase:meta through the servers that the URL names.

These are masters (or, from HBase 2.5 on, any region servers), asked over RPC, or the ZooKeeper that the cluster uses.
The registry keeps no answer, since the master and hbase:meta move without notice.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from hedwig.clock import Clock, Deadline
from hedwig.metadata.hbase.native.cluster.links import REGISTRY, Links
from hedwig.metadata.hbase.native.cluster.znodes import read_node
from hedwig.metadata.hbase.native.hbase_pb2 import (
    ActiveMaster,
    ClusterId,
    MetaRegionLocations,
    ServerName,
    ZooKeeperServer,
)
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.store_access import NO_ACCESS, ZooKeeperAccess

__all__ = ["Registry", "RpcRegistry", "ZooKeeperRegistry"]

_PROTOBUF_MARK: Final = b"PBUF"
_WRAPPER_MARK: Final = 0xFF
_OPEN: Final = 3
_ASK_TIMEOUT_S: Final = 5.0
"""How long one of several servers may take to answer before the registry asks the next one."""


class Registry(Protocol):
    """What finds the active master and hbase:meta.

    Every method that asks a server raises NotAppliedError if none could answer, for now.
    """

    async def master(self, deadline: Deadline) -> Server:
        """Return the active master."""
        ...

    async def meta_server(self, deadline: Deadline) -> Server:
        """Return the region server of hbase:meta."""
        ...

    async def cluster_id(self, deadline: Deadline) -> str:
        """Return the cluster's id."""
        ...

    def describe(self) -> str:
        """Say how the cluster is reached, for people."""
        ...


class RpcRegistry:
    """A Registry that asks masters or region servers."""

    def __init__(self, links: Links, endpoints: Sequence[tuple[str, int]], clock: Clock) -> None:
        self._links = links
        self._clock = clock
        self._servers = [Server(*endpoint) for endpoint in endpoints]

    async def master(self, deadline: Deadline) -> Server:
        reply = ActiveMaster.FromString(await self._ask("GetActiveMaster", deadline))
        return _server(reply.server_name, "an active master")

    async def meta_server(self, deadline: Deadline) -> Server:
        reply = MetaRegionLocations.FromString(await self._ask("GetMetaRegionLocations", deadline))
        locations = [location.server_name for location in reply.meta_locations if location.region_info.replica_id == 0]
        return _server(locations[0] if locations else ServerName(), "hbase:meta")

    async def cluster_id(self, deadline: Deadline) -> str:
        return ClusterId.FromString(await self._ask("GetClusterId", deadline)).cluster_id

    def describe(self) -> str:
        return f"HBase RPC, found through {', '.join(map(str, self._servers))}"

    async def _ask(self, method: str, deadline: Deadline) -> bytes:
        async def ask(server: Server, deadline: Deadline) -> bytes:
            try:
                return await self._links.to(server, REGISTRY).ask(method, b"", deadline)
            except ServerFailure as exc:
                raise NotAppliedError(f"{server} answers {exc.java_class} to {method}: {exc}") from exc

        return await _first_answer(self._servers, ask, deadline, self._clock)


class ZooKeeperRegistry:
    """A Registry that reads the cluster's nodes in ZooKeeper, with a new session for each read."""

    def __init__(
        self,
        endpoints: Sequence[tuple[str, int]],
        parent: str,
        clock: Clock,
        access: ZooKeeperAccess = NO_ACCESS,
    ) -> None:
        self._clock = clock
        self._access = access
        self._servers = [Server(*endpoint) for endpoint in endpoints]
        self._parent = parent.rstrip("/")

    async def master(self, deadline: Deadline) -> Server:
        reply = ZooKeeperServer.FromString(await self._read("master", deadline))
        return _server(reply.server, "an active master")

    async def meta_server(self, deadline: Deadline) -> Server:
        reply = ZooKeeperServer.FromString(await self._read("meta-region-server", deadline))
        if reply.HasField("state") and reply.state != _OPEN:
            raise NotAppliedError("hbase:meta is open nowhere at the moment")
        return _server(reply.server, "hbase:meta")

    async def cluster_id(self, deadline: Deadline) -> str:
        return ClusterId.FromString(await self._read("hbaseid", deadline)).cluster_id

    def describe(self) -> str:
        return f"HBase RPC, found through ZooKeeper at {', '.join(map(str, self._servers))}, node {self._parent}"

    async def _read(self, name: str, deadline: Deadline) -> bytes:
        path = f"{self._parent}/{name}"

        async def read(server: Server, deadline: Deadline) -> bytes:
            content = await read_node(server.host, server.port, path, deadline, self._access)
            if content is None:
                raise NotAppliedError(f"ZooKeeper at {server} has no {path}; HBase is down, or uses another znode")
            return _protobuf(content, path)

        return await _first_answer(self._servers, read, deadline, self._clock)


async def _first_answer(
    servers: Sequence[Server],
    ask: Callable[[Server, Deadline], Awaitable[bytes]],
    deadline: Deadline,
    clock: Clock,
) -> bytes:
    """Return the first answer. Asks one server after the other."""
    failure: Exception | None = None
    for server in servers:
        sooner = Deadline.after(clock, min(_ASK_TIMEOUT_S, deadline.remaining_s()))
        try:
            return await ask(server, sooner)
        except (NotAppliedError, OutcomeUnknownError, DecodeError) as exc:
            failure = exc
    raise NotAppliedError(str(failure)) from failure


def _server(name: ServerName, what: str) -> Server:
    if not name.host_name:
        raise NotAppliedError(f"HBase has {what} nowhere at the moment")
    return Server(name.host_name, name.port)


def _protobuf(content: bytes, path: str) -> bytes:
    """Return the message in a node. It follows a mark, and before that a wrapper that older HBase versions write."""
    if content[:1] == bytes([_WRAPPER_MARK]):
        content = content[5 + int.from_bytes(content[1:5], "big") :]
    if not content.startswith(_PROTOBUF_MARK):
        raise NotAppliedError(f"ZooKeeper's node {path} is not HBase's")
    return content[len(_PROTOBUF_MARK) :]
