"""A connection to the admin endpoint. The hub cuts it if a request has too many bytes, or the client reads no answer.

The HTTP library bounds each line, and the endpoint bounds the content of the body. Neither bounds the other bytes of a
chunked body, nor the time that an answer waits for its client to read it.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from hedwig.hub.connections.slots import address_of, peer_of

__all__ = ["AdminConnection"]

_REQUEST_BYTES_MAX: Final = 256 << 10
"""Room for a request with its longest line, its headers and its body."""
_TAKE_S: Final = 30.0
"""How long an answer may wait for a client that does not read it."""


class AdminConnection(asyncio.Protocol):
    """Passes the bytes of a connection to `http`, as long as they are within the bounds."""

    def __init__(
        self,
        http: asyncio.Protocol,
        opened: "Callable[[AdminConnection], None]",
        lost: "Callable[[AdminConnection], None]",
    ) -> None:
        """Prepare for one connection; `opened` is called at its start, and `lost` at its end.

        With TLS, it starts before the handshake.
        """
        self.peer = ""
        """Where it comes from, as host:port."""
        self._accepted: socket.socket | None = None
        self._http = http
        self._opened = opened
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._received = 0
        self._deadline: asyncio.TimerHandle | None = None

    def received(self) -> None:
        """Restart the count of bytes: a request is complete, so all further bytes belong to the next one."""
        self._received = 0

    def abort(self) -> None:
        """End the connection at once, and drop the unsent output."""
        if self._transport is not None:
            self._transport.abort()
        elif self._accepted is not None:
            with contextlib.suppress(OSError):  # It may have ended already.
                self._accepted.shutdown(socket.SHUT_RDWR)

    def accepted(self, connection: socket.socket) -> bool:
        """Record a connection before its TLS handshake; return whether it may stay."""
        try:
            self.peer = peer_of(connection.getpeername())
        except OSError:
            return False  # The connection is over already.
        self._accepted = connection
        self._opened(self)
        return True

    @property
    def is_made(self) -> bool:
        """Whether the connection was ever ready for requests."""
        return self._transport is not None

    @property
    def peer_host(self) -> str:
        """The IP address of the client."""
        return self.peer.rpartition(":")[0]

    @property
    def address(self) -> str | bytes:
        """From where the client comes, as limits count it."""
        return address_of(self.peer)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The certificate of the client, which the hub has checked; None if it has shown none."""
        return self._transport.get_extra_info("peercert") or None if self._transport is not None else None

    @property
    def certificate_der(self) -> bytes | None:
        """The same as bytes."""
        secure = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        return None if secure is None else cast("ssl.SSLObject", secure).getpeercert(binary_form=True)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport is one, though not by its type.
        if self._accepted is None:
            self.peer = peer_of(transport.get_extra_info("peername"))
            self._opened(self)
        self._accepted = None
        self._http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > _REQUEST_BYTES_MAX:
            self.abort()
        else:
            self._http.data_received(data)

    def eof_received(self) -> bool | None:
        return self._http.eof_received()

    def pause_writing(self) -> None:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(_TAKE_S, self.abort)
        self._http.pause_writing()

    def resume_writing(self) -> None:
        self._stop_waiting()
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._lost(self)
        if self._transport is not None:
            self._http.connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
