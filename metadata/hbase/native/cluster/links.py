"""Links: the connections to all servers of a cluster, which open on first use."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from hedwig.clock import Deadline
from hedwig.concurrency.shared_work import SharedWork
from hedwig.errors import ConfigurationError
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.outcomes import AbortedError, NotAppliedError
from hedwig.reasons import reason_of
from hedwig.store_access import NO_HBASE_ACCESS, HBaseAccess

__all__ = ["ADMIN", "DATA", "MASTER", "REGISTRY", "Link", "Links", "Route"]

DATA: Final = "ClientService"
ADMIN: Final = "AdminService"
MASTER: Final = "MasterService"
REGISTRY: Final = "ClientMetaService"

_log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S: Final = 5.0
_DROPS: Final = 2
"""A server that goes down may drop one connection. A server that drops N in a row does not accept their kind."""
_UNSUPPORTED: Final = "UnsupportedCellCodecException"

Route: TypeAlias = Callable[[Server], Server]


class Link:
    """The link to one service of one server: a connection that is replaced after its end."""

    def __init__(
        self,
        server: Server,
        address: Server,
        service: str,
        user: str,
        on_loss: Callable[[Server], None],
        access: HBaseAccess = NO_HBASE_ACCESS,
        *,
        in_blocks: bool = False,
    ) -> None:
        self.server = server
        self._access = access
        self._address = address
        self._service = service
        self._user = user
        self._in_blocks = in_blocks
        self._on_loss = on_loss
        self._connection: Connection | None = None
        self._opening: SharedWork[Connection] = SharedWork(f"connect to {service} at {address}")
        self._drops = 0
        self.refuses_blocks = False
        """Whether the server takes no connection on which cells come in blocks."""

    @property
    def connection(self) -> Connection | None:
        """The present connection, or None."""
        return self._connection

    async def ask(self, method: str, request: bytes, deadline: Deadline) -> bytes:
        """Return the response message of one call.

        Raises: ServerFailure, NotAppliedError, OutcomeUnknownError, AbortedError, as `wire/connection.py` says;
            LocalProtocolError - the call is too large.
        """
        return await (await self.connect(deadline)).ask(method, request, deadline)

    async def connect(self, deadline: Deadline) -> Connection:
        """Return the connection. Open it first if there is none.

        Raises: NotAppliedError - the server cannot be reached; AbortedError - the link was closed.
        """
        if self._connection is not None:
            return self._connection
        return await self._opening.join(self._open, deadline)

    async def close(self) -> None:
        """End the connection. The link takes no calls afterwards. May be called twice."""
        await self._opening.close()
        if self._connection is not None:
            self._connection.close()

    async def _open(self) -> Connection:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                connection = await Connection.open(
                    self._address, self._service, self._user, self._ended, self._access, in_blocks=self._in_blocks
                )
        except (OSError, TimeoutError, ConfigurationError) as exc:
            self._on_loss(self.server)
            why = reason_of(exc) or f"no connection within {_CONNECT_TIMEOUT_S:g} s"
            raise NotAppliedError(f"cannot connect to {self._service} at {self._address}: {why}") from exc
        if connection.ended is None:
            self._connection = connection
        return connection

    def _ended(self, connection: Connection) -> None:
        if self._connection is connection:
            self._connection = None
        if self._in_blocks:
            self._judge(connection)
        self._on_loss(self.server)

    def _judge(self, connection: Connection) -> None:
        """Decide, at the end of a connection with cells in blocks, whether the server refuses all such connections.

        Servers that lack the codec close the connection when they read its header, mostly without a reason.
        """
        self._drops = self._drops + 1 if connection.was_dropped else 0
        is_unsupported = connection.refusal is not None and connection.refusal.java_class == _UNSUPPORTED
        if not self.refuses_blocks and (is_unsupported or self._drops == _DROPS):
            self.refuses_blocks = True
            _log.warning("%s takes no cells in blocks (%s); its rows are read one by one", connection, connection.ended)


class Links:
    """One link for each server and service.

    A service may have a second link, on which cells come in blocks, as long as the server does not refuse that.

    Args: on_loss - called with a server whose connection ended, or that could not be reached; route - returns the
        address at which to reach a server, which is its own unless a proxy is in front of it; user - the user name
        that the servers get; access - what connections show to servers.
    """

    def __init__(
        self, on_loss: Callable[[Server], None], route: Route, user: str, access: HBaseAccess = NO_HBASE_ACCESS
    ) -> None:
        self._access = access
        self._route = route
        self._user = user
        self._on_loss = on_loss
        self._links: dict[tuple[Server, str, bool], Link] = {}
        self._closed = False

    def to(self, server: Server, service: str, *, in_blocks: bool = False) -> Link:
        """Return the link to a service. Raises AbortedError if the links were closed."""
        link = self._links.get((server, service, in_blocks))
        if link is not None and link.refuses_blocks:
            return self.to(server, service)
        if link is None:
            if self._closed:
                raise AbortedError("the store was closed", sent=False)
            address = self._route(server)
            link = Link(server, address, service, self._user, self._on_loss, self._access, in_blocks=in_blocks)
            self._links[server, service, in_blocks] = link
        return link

    async def close(self) -> None:
        """End every connection; calls in flight are aborted. May be called twice."""
        self._closed = True
        for link in self._links.values():
            await link.close()
