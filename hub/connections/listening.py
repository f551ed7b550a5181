"""Start to answer on an address that a listener bound at the start of the hub."""

import errno
import os
import socket
from collections.abc import Sequence
from typing import Protocol

from hedwig.errors import ConfigurationError

__all__ = ["Listener", "serve"]


class Listener(Protocol):
    """A listener that has bound an address, such as an asyncio.Server."""

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """The sockets that it listens with."""
        ...

    async def start_serving(self) -> None:
        """Start to answer. Raises: OSError."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


async def serve(server: Listener, host: str, port: int) -> None:
    """Answer on the address that `server` was bound to.

    Sockets that are bound and do not listen yet can share a port, so another process may have been first.

    Raises: ConfigurationError - something else listens there.
    """
    why = os.strerror(errno.EADDRINUSE)
    try:
        await server.start_serving()
    except OSError as exc:
        why = exc.strerror or str(exc)
    else:
        if all(map(_listens, server.sockets)):
            return
    raise ConfigurationError(f"cannot listen on {host}:{port}: {why}")


def _listens(listener: socket.socket | None) -> bool:
    # If uvloop cannot listen, it does not raise: it closes the socket, and returns None for it.
    return listener is not None and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
