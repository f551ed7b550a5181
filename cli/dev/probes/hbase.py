"""Calls of HBase's own RPC to a master and to a region server. Raises ServerFailure too - HBase refuses the call."""

import asyncio
from typing import Final, NamedTuple

from google.protobuf.message import Message

from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.asking import answer
from hedwig.cli.dev.probes.sockets import PROBE_TIMEOUT_S
from hedwig.clock import Deadline, SystemClock
from hedwig.metadata.hbase.native.hbase_pb2 import (
    ClusterStatusResponse,
    Get,
    GetRequest,
    MetaRegionLocations,
    Nothing,
    RegionSpecifier,
    ServerInfoResponse,
    ServerName,
    TableNamesRequest,
)
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.outcomes import NotAppliedError
from hedwig.store_access import HBaseAccess

__all__ = ["HBaseServerName", "ask_for_tables", "live_servers", "meta_port", "own_name", "read_meta"]

_USER: Final = "hedwig"
_META_REGION: Final = b"hbase:meta,,1"


class HBaseServerName(NamedTuple):
    """One incarnation of an HBase server."""

    host: str
    port: int
    start_code: int

    @classmethod
    def of(cls, name: ServerName) -> "HBaseServerName":
        """Make it from a name in HBase's own form."""
        return cls(name.host_name, name.port, name.start_code)


def ask_for_tables(port: int, access: HBaseAccess) -> None:
    """Ask a master for its tables. It answers only after its initialisation."""
    _call(port, "MasterService", "GetTableNames", TableNamesRequest(include_sys_tables=True), access)


def live_servers(port: int, access: HBaseAccess) -> set[HBaseServerName]:
    """Ask a master which region servers are registered with it."""
    status = ClusterStatusResponse.FromString(_call(port, "MasterService", "GetClusterStatus", Nothing(), access))
    return {HBaseServerName.of(each.server) for each in status.cluster_status.live_servers}


def meta_port(port: int, access: HBaseAccess) -> int | None:
    """Ask a master which region server has hbase:meta; None while the region moves."""
    found = _call(port, "ClientMetaService", "GetMetaRegionLocations", Nothing(), access)
    locations = MetaRegionLocations.FromString(found)
    ports = [each.server_name.port for each in locations.meta_locations if each.HasField("server_name")]
    return ports[0] if ports else None


def own_name(port: int, access: HBaseAccess) -> HBaseServerName:
    """Ask a region server for its name."""
    info = ServerInfoResponse.FromString(_call(port, "AdminService", "GetServerInfo", Nothing(), access))
    return HBaseServerName.of(info.server_info.server_name)


def read_meta(port: int, access: HBaseAccess) -> None:
    """Ask a region server for a row of hbase:meta, which it must serve."""
    region = RegionSpecifier(type=RegionSpecifier.REGION_NAME, value=_META_REGION)
    _call(port, "ClientService", "Get", GetRequest(region=region, get=Get(row=b"readiness probe")), access)


def _call(port: int, service: str, method: str, request: Message, access: HBaseAccess) -> bytes:
    return answer(_ask(port, service, method, request.SerializeToString(), access))


async def _ask(port: int, service: str, method: str, request: bytes, access: HBaseAccess) -> bytes:
    deadline = Deadline.after(SystemClock(), PROBE_TIMEOUT_S)
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            connection = await Connection.open(Server(LOOPBACK, port), service, _USER, lambda _: None, access)
    except TimeoutError as exc:
        raise NotAppliedError(f"no connection within {PROBE_TIMEOUT_S:g} s") from exc
    try:
        return await connection.ask(method, request, deadline)
    finally:
        connection.close()
