"""The cluster: its servers and the locations of regions, which failures correct."""

from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeVar

from hedwig.clock import Clock, Deadline
from hedwig.errors import LayoutMissingError, MetadataError
from hedwig.metadata.hbase.native.cluster.batching import Batcher, Gathering
from hedwig.metadata.hbase.native.cluster.links import DATA, MASTER, Links, Route
from hedwig.metadata.hbase.native.cluster.locations import Locations
from hedwig.metadata.hbase.native.cluster.meta import find_region, has_table, list_regions, meta_region
from hedwig.metadata.hbase.native.cluster.registry import Registry
from hedwig.metadata.hbase.native.hbase_pb2 import (
    CoprocessorServiceCall,
    CoprocessorServiceRequest,
    CoprocessorServiceResponse,
    GetAuthenticationTokenResponse,
    RegionSpecifier,
)
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.failures import Meaning, ServerFailure
from hedwig.metadata.hbase.native.wire.identity import Identity
from hedwig.metadata.hbase.native.wire.regions import META_TABLE, NowhereError, Region, Server
from hedwig.metadata.hbase.native.wire.tokens import Token
from hedwig.outcomes import ForbiddenError, NotAppliedError, OutcomeUnknownError

__all__ = ["Cluster"]

T = TypeVar("T")

_LOOK_TIMEOUT_S: Final = 10.0
_TOKENS: Final = "AuthenticationService"
_NEW_TOKEN: Final = "GetAuthenticationToken"


class Cluster:
    """One HBase cluster as this process sees it.

    Callers report every failure to it. It then drops the locations that the failure proves wrong.
    """

    def __init__(
        self,
        make_registry: Callable[[Links], Registry],
        clock: Clock,
        in_flight_max: int,
        advice: str,
        route: Route,
        gathering: Gathering,
        identity: Identity,
    ) -> None:
        self._clock = clock
        self._in_flight_max = in_flight_max
        self._advice = advice
        self._gathering = gathering
        self._identity = identity
        self._links = Links(self._lost, route, identity.user, identity.access)
        self.registry = make_registry(self._links)
        self._batchers: dict[Server, Batcher] = {}
        self._locations: dict[str, Locations] = {}
        self._meta: Region | None = None
        self._master: Server | None = None

    def describe(self) -> str:
        """Say how the cluster is reached, for people."""
        return self.registry.describe()

    def known(self, table: str, row: bytes) -> Region | None:
        """Return the known region that holds `row`, or None. This asks no server."""
        locations = self._locations.get(table)
        return None if locations is None else locations.find(row)

    async def locate(self, table: str, row: bytes, deadline: Deadline) -> Region:
        """Return the region that holds `row`.

        Raises: LayoutMissingError - there is no such table; NotAppliedError - the region is open nowhere for now;
            AbortedError - the cluster was closed.
        """
        known = self._locations.get(table)
        if known is None:
            known = self._locations[table] = Locations(table, self, self._clock)
        region = known.find(row)
        if region is not None:
            return region
        await known.look_up(row, deadline)
        region = known.find(row)
        if region is not None:
            return region
        # A table may exist with all its HBase regions closed.
        if known.is_missing and not await self.table_exists(table, deadline):
            raise LayoutMissingError(f"HBase has no table {table}; {self._advice}")
        raise NowhereError(table)

    def batcher(self, server: Server) -> Batcher:
        """Return the batcher for actions on rows to a region server."""
        batcher = self._batchers.get(server)
        if batcher is None:
            link = self._links.to(server, DATA)
            batcher = self._batchers[server] = Batcher(link, self._clock, self._in_flight_max, self._gathering)
        return batcher

    async def data_connection(self, server: Server, deadline: Deadline, *, in_blocks: bool = False) -> Connection:
        """Return the connection for data to a region server. With `in_blocks` it is the one for cells in blocks."""
        return await self._links.to(server, DATA, in_blocks=in_blocks).connect(deadline)

    async def regions(self, table: str, deadline: Deadline | None = None) -> list[Region]:
        """Return the open regions of a table as hbase:meta has them now; none if there is no such table."""
        return await self._ask_meta(
            lambda connection, meta, until: list_regions(connection, meta, table, until), deadline
        )

    async def region(self, table: str, row: bytes) -> Region | None:
        """Return the open region that holds `row` as hbase:meta has it now; None if there is no such table."""
        return await self._ask_meta(lambda connection, meta, until: find_region(connection, meta, table, row, until))

    async def ask_master(self, method: str, request: bytes, deadline: Deadline) -> bytes:
        """Return the active master's answer to a call.

        Raises: ServerFailure - the master answered with an exception that no other try would change; ForbiddenError -
            the user has no right to that; NotAppliedError, OutcomeUnknownError, AbortedError.
        """
        until = Deadline.after(self._clock, min(_LOOK_TIMEOUT_S, deadline.remaining_s()))
        if self._master is None:
            self._master = await self.registry.master(until)
        master = self._master
        try:
            return await self._links.to(master, MASTER).ask(method, request, until)
        except ServerFailure as failure:
            text = f"the master at {master} answers {failure.java_class}: {failure}"
            if failure.meaning in (Meaning.STARTING, Meaning.NOT_YET, Meaning.ENDING):
                # A standby master gives the same answer as a master that starts, so ask the registry again.
                self._master = None
                raise NotAppliedError(text) from failure
            if failure.meaning is Meaning.UNKNOWN:
                raise OutcomeUnknownError(text) from failure
            if failure.meaning is Meaning.FORBIDDEN:
                raise ForbiddenError(f"{text}; {self._identity.advice_for_tables}") from failure
            raise
        except (NotAppliedError, OutcomeUnknownError):
            self._master = None
            raise

    async def table_exists(self, table: str, deadline: Deadline) -> bool:
        """Say whether a table exists, as hbase:meta has it now."""
        return await self._ask_meta(lambda connection, meta, until: has_table(connection, meta, table, until), deadline)

    def failed(self, region: Region, failure: ServerFailure) -> NoReturn:
        """Drop what a failure of a call to `region` proves wrong, and raise the error that it means for the caller.

        Raises: NotAppliedError, OutcomeUnknownError; ForbiddenError - the user has no right to that; MetadataError -
            the failure is final.
        """
        text = f"{region.server} answers {failure.java_class}: {failure}"
        match failure.meaning:
            case Meaning.ELSEWHERE:
                self._misplaced(region, failure.address)
            case Meaning.ENDING:
                self._lost(region.server)
            case Meaning.UNKNOWN:
                raise OutcomeUnknownError(text) from failure
            case Meaning.FORBIDDEN:
                raise ForbiddenError(f"{text}; {self._identity.advice_for_records}") from failure
            case Meaning.REFUSED:
                raise MetadataError(f"HBase refuses the request: {text}") from failure
            case Meaning.NO_TABLE | Meaning.STARTING:
                self._misplaced(region, None)
            case Meaning.NOT_YET | Meaning.SCANNER_LOST:
                pass
        raise NotAppliedError(text) from failure

    async def new_token(self, deadline: Deadline) -> Token:
        """Return a token for the user who has logged in by Kerberos, from the server of hbase:meta.

        Raises: NotAppliedError - it gives none, or does not answer.
        """

        async def ask(connection: Connection, meta: Region, until: Deadline) -> Token:
            call = CoprocessorServiceCall(row=b"", service_name=_TOKENS, method_name=_NEW_TOKEN, request=b"")
            region = RegionSpecifier(type=RegionSpecifier.REGION_NAME, value=meta.name)
            request = CoprocessorServiceRequest(region=region, call=call)
            body = await connection.ask("ExecService", request.SerializeToString(), until)
            value = CoprocessorServiceResponse.FromString(body).value.value
            token = GetAuthenticationTokenResponse.FromString(value).token
            return Token(token.identifier, token.password)

        return await self._ask_meta(ask, deadline)

    async def close(self) -> None:
        """End every connection. May be called twice."""
        for locations in self._locations.values():
            await locations.close()
        await self._links.close()
        for batcher in self._batchers.values():
            await batcher.close()

    async def _ask_meta(
        self,
        ask: Callable[[Connection, Region, Deadline], Awaitable[T]],
        deadline: Deadline | None = None,
    ) -> T:
        until = deadline or Deadline.after(self._clock, _LOOK_TIMEOUT_S)
        if self._meta is None:
            self._meta = meta_region(await self.registry.meta_server(until))
        meta = self._meta
        try:
            return await ask(await self.data_connection(meta.server, until), meta, until)
        except ServerFailure as failure:
            if failure.meaning is Meaning.UNKNOWN:
                # A read changes nothing, and a write that waits for the location has not been sent.
                raise NotAppliedError(f"hbase:meta cannot be read: {failure.java_class}: {failure}") from failure
            self.failed(meta, failure)
        except NowhereError:
            raise  # It is a NotAppliedError, but hbase:meta was read.
        except (NotAppliedError, OutcomeUnknownError) as exc:
            raise NotAppliedError(f"hbase:meta cannot be read: {exc}") from exc

    def _misplaced(self, region: Region, address: tuple[str, int] | None) -> None:
        if region.table == META_TABLE:
            if self._meta is region:
                self._meta = None
        elif region.table in self._locations:
            if address is not None:
                self._locations[region.table].move(region, Server(*address))
            else:
                self._locations[region.table].forget(region)

    def _lost(self, server: Server) -> None:
        for locations in self._locations.values():
            locations.forget_server(server)
        if self._meta is not None and self._meta.server == server:
            self._meta = None
        if self._master == server:
            self._master = None
