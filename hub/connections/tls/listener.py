"""The TLS listener of a hub. Its connections count from the accept on, not only from the end of their handshake."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol, Self, cast

__all__ = ["Accepted", "TlsListener"]

_log = logging.getLogger(__name__)

_ACCEPTED_MAX: Final = 8
"""How many connections the hub accepts in one turn of the event loop."""
_HANDSHAKES_MAX: Final = 1024
"""How many handshakes may run at once, because each takes some 50 KiB. The oldest makes room for the next."""
_REST_S: Final = 1.0
"""How long the hub accepts no connection after an accept failed."""
_FOR_EVER_S: Final = 365 * 86_400.0


class Accepted(Protocol):
    """The protocol of a connection, an asyncio.BaseProtocol that hears of its connection at the accept."""

    peer: str

    @property
    def is_made(self) -> bool:
        """Whether the connection was ever ready for requests."""
        ...

    def accepted(self, connection: socket.socket) -> bool:
        """Record the connection before its TLS handshake; return whether it may stay."""
        ...

    def abort(self) -> None:
        """End the connection at once."""
        ...

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection. It is called once for each that may stay."""
        ...


class TlsListener:
    """Listens as an asyncio.Server does, but reports each connection at its accept.

    An asyncio.Server reports a connection only once its handshake is over. Until then the hub could not count it, or
    log its end.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        factory: Callable[[], Accepted],
        context: ssl.SSLContext,
        *,
        backlog: int,
        handshake_s: float,
    ) -> None:
        """Take bound sockets. Use `bind` to make a listener."""
        self.sockets = sockets
        self.failed = 0
        """How many handshakes failed, took too long, or made room for others."""
        self._factory = factory
        self.context = context
        """The settings of connections from now on."""
        self._backlog = backlog
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], Accepted] = {}

    @classmethod
    async def bind(
        cls,
        host: str,
        port: int,
        factory: Callable[[], Accepted],
        context: ssl.SSLContext,
        *,
        backlog: int,
        handshake_s: float,
    ) -> Self:
        """Bind the address; `start_serving` then answers. `handshake_s` of 0 means no limit. Raises: OSError."""
        # The server resolves the host name to sockets.
        server = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, host, port, reuse_address=True, start_serving=False
        )
        try:
            sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in server.sockets]
        finally:
            server.close()
        for each in sockets:
            each.setblocking(False)
        return cls(sockets, factory, context, backlog=backlog, handshake_s=handshake_s)

    @property
    def handshakes(self) -> int:
        """How many handshakes are running."""
        return len(self._handshakes)

    async def start_serving(self) -> None:
        """Accept connections from now on. Raises: OSError."""
        for each in self.sockets:
            each.listen(self._backlog)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Accept no more connections, and end the running handshakes."""
        for each in self.sockets:
            self._loop.remove_reader(each)
            each.close()
        self.sockets = []
        for channel in self._handshakes.values():
            channel.abort()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_MAX):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                _log.warning("no TLS connection can be accepted: %s", exc)
                self._loop.remove_reader(listener)
                self._loop.call_later(_REST_S, self._go_on, listener)
                return
            connection.setblocking(False)
            channel = self._factory()
            if not channel.accepted(connection):
                connection.close()
                continue
            if len(self._handshakes) >= _HANDSHAKES_MAX:
                self._end_oldest()
            task = self._loop.create_task(self._shake_hands(channel, connection))
            self._handshakes[task] = channel
            task.add_done_callback(self._forget)

    def _end_oldest(self) -> None:
        oldest = self._handshakes.pop(next(iter(self._handshakes)))
        self.failed += 1
        _log.warning(
            "%s: closing the connection: of %d TLS handshakes, its own is the oldest", oldest.peer, _HANDSHAKES_MAX
        )
        oldest.abort()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)

    def _go_on(self, listener: socket.socket) -> None:
        if listener in self.sockets:
            self._loop.add_reader(listener, self._accept, listener)

    async def _shake_hands(self, channel: Accepted, connection: socket.socket) -> None:
        error: Exception | None = None
        try:
            await self._loop.connect_accepted_socket(
                lambda: cast("asyncio.BaseProtocol", channel),
                connection,
                ssl=self.context,
                ssl_handshake_timeout=self._handshake_s or _FOR_EVER_S,
            )
        except OSError as exc:
            error = exc
        finally:
            if not channel.is_made:
                self._give_up(channel, error)

    def _give_up(self, channel: Accepted, error: Exception | None) -> None:
        if isinstance(error, ConnectionAbortedError):
            self.failed += 1
            _log.warning("%s: closing the connection: no TLS handshake within %g s", channel.peer, self._handshake_s)
        elif isinstance(error, ssl.SSLError):
            self.failed += 1
            _log.warning(
                "%s: closing the connection: the TLS handshake failed: %s", channel.peer, error.reason or error
            )
        else:
            # A program that only checks whether the port is open ends its connection this way, and so does the hub.
            _log.debug("%s: the connection ended before its TLS handshake", channel.peer)
        channel.connection_lost(error)
