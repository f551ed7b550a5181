"""Changes of an administrator to tables and their HBase regions while clients work."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from hedwig.clock import Deadline, SystemClock
from hedwig.metadata.hbase.native.actions import Look, get_of
from hedwig.metadata.hbase.native.cluster.links import DATA, MASTER, REGISTRY
from hedwig.metadata.hbase.native.cluster.meta import list_regions, meta_region
from hedwig.metadata.hbase.native.hbase_pb2 import (
    BytesBytesPair,
    MetaRegionLocations,
    ProcedureResponse,
    ProcedureResult,
    ProcedureResultRequest,
    RegionInfo,
    RegionSpecifier,
    TableDescriptors,
    TableDescriptorsRequest,
)
from hedwig.metadata.hbase.native.wire.codec import delimited
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Region, Server, table_name
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError

__all__ = ["Administrator"]

_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.05
_READ_ONLY: Final = b"READONLY"


class Administrator:
    """An administrator of the cluster whose master is at `address`. Use it as an async context manager."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._master = Server(host, int(port))
        self._connections: dict[tuple[Server, str], Connection] = {}
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    async def connection(self, server: Server, service: str) -> Connection:
        """Return a connection to one service of a server."""
        async with self._opening:
            connection = self._connections.get((server, service))
            if connection is None or connection.ended is not None:
                connection = await Connection.open(server, service, "administrator", lambda _: None)
                self._connections[server, service] = connection
            return connection

    async def regions(self, table: str) -> list[Region]:
        """Return the open regions of a table as hbase:meta has them."""
        server = await self.meta_server()
        return await list_regions(await self.connection(server, DATA), meta_region(server), table, _soon())

    async def meta_server(self) -> Server:
        """Return the server of hbase:meta, as the master reports it."""
        registry = await self.connection(self._master, REGISTRY)
        reply = MetaRegionLocations.FromString(await registry.ask("GetMetaRegionLocations", b"", _soon()))
        name = reply.meta_locations[0].server_name
        return Server(name.host_name, name.port)

    async def all_regions_answer(self, table: str) -> bool:
        """Return whether the regions of a table cover every row, and each region is where hbase:meta says."""
        try:
            regions = await self.regions(table)
            for region in regions:
                look = Look(region, get_of(region.start or b"\x00", (b"o:v",)), 0.0)
                await (await self.connection(region.server, DATA)).ask(look.method, look.request(), _soon())
        except (ServerFailure, NotAppliedError, OutcomeUnknownError, OSError):
            return False
        ends = [region.end for region in regions]
        return [b"", *ends] == [*(region.start for region in regions), b""]

    async def split(self, region: Region, row: bytes) -> None:
        """Split a region before `row`, and wait until it is done."""
        info = RegionInfo(
            region_id=int(region.name.rsplit(b",", 1)[1].split(b".")[0]),
            table_name=table_name(region.table),
            start_key=region.start,
            end_key=region.end,
            offline=False,
            split=False,
            replica_id=0,
        )
        await self._carry_out("SplitRegion", delimited(b"\x0a", info.SerializeToString()) + delimited(b"\x12", row))

    async def merge(self, regions: Sequence[Region]) -> None:
        """Merge neighbouring regions, and wait until it is done."""
        await self._carry_out(
            "MergeTableRegions", b"".join(delimited(b"\x0a", _encoded_specifier(region)) for region in regions)
        )

    async def move(self, region: Region) -> None:
        """Start to move a region to another server of the master's choice. The move continues after this returns."""
        await self._ask("MoveRegion", delimited(b"\x0a", _encoded_specifier(region)))

    async def set_read_only(self, table: str, *, is_read_only: bool) -> None:
        """Make a table read-only or writable, and wait until all its regions are."""
        wanted = TableDescriptorsRequest(table_names=[table_name(table)]).SerializeToString()
        (schema,) = TableDescriptors.FromString(await self._ask("GetTableDescriptors", wanted)).table_schema
        kept = [pair for pair in schema.attributes if pair.first != _READ_ONLY]
        del schema.attributes[:]
        schema.attributes.extend([*kept, BytesBytesPair(first=_READ_ONLY, second=b"%r" % is_read_only)])
        name = table_name(table).SerializeToString()
        await self._carry_out("ModifyTable", delimited(b"\x0a", name) + delimited(b"\x12", schema.SerializeToString()))

    async def _carry_out(self, method: str, request: bytes) -> None:
        procedure = ProcedureResponse.FromString(await self._ask(method, request)).proc_id
        question = ProcedureResultRequest(proc_id=procedure).SerializeToString()
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                result = ProcedureResult.FromString(await self._ask("getProcedureResult", question))
                if result.state != ProcedureResult.RUNNING:
                    break
                await asyncio.sleep(_POLL_S)
        assert not result.HasField("exception"), result.exception

    async def _ask(self, method: str, request: bytes) -> bytes:
        return await (await self.connection(self._master, MASTER)).ask(method, request, _soon())


def _encoded_specifier(region: Region) -> bytes:
    name = region.name.split(b".")[-2]
    return RegionSpecifier(type=RegionSpecifier.ENCODED_REGION_NAME, value=name).SerializeToString()


def _soon() -> Deadline:
    return Deadline.after(SystemClock(), _TIMEOUT_S)
