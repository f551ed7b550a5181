"""Connections to all bookies. Each is made when it is needed, and again after it ended."""

import asyncio
import logging
from collections import deque
from typing import Final

from hedwig.hub.ledgers.bookkeeper.bookies.bookies import Addresses
from hedwig.hub.ledgers.bookkeeper.bookies.connection import BOUNDS, BookieConnection
from hedwig.hub.ledgers.bookkeeper.wire.codec import encode_request
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import BookieAnswer, Done, Request
from hedwig.store_access import TlsFiles

__all__ = ["BookieLinks"]

_log = logging.getLogger(__name__)

_RECONNECT_PAUSE_S: Final = 0.2


class BookieLinks:
    """Bookies, each over one connection, with TLS if `tls` has files for it. For one event loop; close it at the end.

    `addresses` says where they listen.
    """

    def __init__(self, addresses: Addresses, *, tls: TlsFiles | None = None, connect_timeout_s: float = 3.0) -> None:
        self._addresses = addresses
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._links: dict[str, _Link] = {}
        self._closed = False

    def send(self, bookie: str, request: Request, timeout_s: float, done: Done) -> None:
        if self._closed:
            answer = BookieAnswer(outcome=BookieOutcome.NOT_SENT, why="the client was closed")
            asyncio.get_running_loop().call_soon(done, answer)
            return
        link = self._links.get(bookie)
        if link is None:
            link = self._links[bookie] = _Link(bookie, self._addresses, self._tls, self._connect_timeout_s)
        link.send(request, timeout_s, done)

    async def aclose(self) -> None:
        """End all connections; requests in flight are UNANSWERED. May be called twice."""
        self._closed = True
        links = list(self._links.values())
        self._links.clear()
        for link in links:
            await link.aclose()


class _Link:
    """One bookie: its connection, or the requests that wait for one."""

    def __init__(self, bookie: str, addresses: Addresses, tls: TlsFiles | None, connect_timeout_s: float) -> None:
        self._bookie = bookie
        self._addresses = addresses
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._loop = asyncio.get_running_loop()
        self._connection: BookieConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[Request, float, Done]] = deque()
        self._refused_until = 0.0
        self._refusal = ""

    def send(self, request: Request, timeout_s: float, done: Done) -> None:
        if self._connection is not None:
            self._connection.send(request, timeout_s, done)
            return
        if self._connecting is None and self._loop.time() < self._refused_until:
            self._answer(done, BookieOutcome.NOT_SENT, self._refusal)
            return
        if len(self._waiting) >= BOUNDS.calls_max:
            self._answer(
                done, BookieOutcome.BUSY, f"{len(self._waiting)} requests wait for a connection to {self._bookie}"
            )
            return
        # A request that is too large for any bookie must raise now, as it does with a connection.
        encode_request(0, request)
        self._waiting.append((request, self._loop.time() + timeout_s, done))
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    async def aclose(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
            self._refuse("the client was closed")
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                host, port = await self._addresses.resolve(self._bookie)
                connection = await BookieConnection.open(self._bookie, host, port, self._ended, self._tls)
            if connection.ended is not None:
                raise ConnectionError(connection.ended)
        except Exception as exc:
            # Catch every error: a name that no resolver takes raises many kinds. Waiting requests need an answer.
            reason = str(exc) or f"no connection within {self._connect_timeout_s:g} s"
            _log.info("cannot connect to bookie %s: %s", self._bookie, reason)
            self._refused_until = self._loop.time() + _RECONNECT_PAUSE_S
            self._connecting = None
            self._refuse(f"{self._bookie}: {reason}")
            return
        _log.info("connected to bookie %s", self._bookie)
        self._connection = connection
        self._connecting = None
        now = self._loop.time()
        waiting, self._waiting = self._waiting, deque()
        for request, deadline, done in waiting:
            if deadline <= now:
                self._answer(done, BookieOutcome.NOT_SENT, f"{self._bookie}: connecting took too long")
            else:
                connection.send(request, deadline - now, done)

    def _refuse(self, why: str) -> None:
        self._refusal = why
        waiting, self._waiting = self._waiting, deque()
        for _, _, done in waiting:
            self._answer(done, BookieOutcome.NOT_SENT, why)

    def _ended(self, connection: BookieConnection) -> None:
        _log.info("bookie %s", connection.ended)
        if self._connection is connection:
            self._connection = None

    def _answer(self, done: Done, outcome: BookieOutcome, why: str) -> None:
        self._loop.call_soon(done, BookieAnswer(outcome=outcome, why=why))
