"""How a listener that took its address at the start begins to answer there."""

import errno
import os
import socket
from collections.abc import Sequence
from typing import Protocol

from hedwig.errors import ConfigurationError

__all__ = ["Listener", "serve"]


class Listener(Protocol):
    """What has taken an address, as an asyncio.Server does."""

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """Those that it listens with."""
        ...

    async def start_serving(self) -> None:
        """Answer from now on. Raises OSError."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


async def serve(server: Listener, host: str, port: int) -> None:
    """Answer on the address that `server` was bound to.

    Sockets that were bound and do not listen yet share a port, so another of them may have come before.

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
    # uvloop raises nothing where it cannot listen: it closes the socket, and says that there is none.
    return listener is not None and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
