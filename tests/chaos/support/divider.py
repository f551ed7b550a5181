"""A network that can be parted: TCP connections through it stand still, in one direction or both, until it is healed.

No connection is reset and no data is lost. Data sent meanwhile waits in this process and in the kernel. It arrives when
the network is whole again, like segments that TCP retransmits. New connections are accepted, but receive nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from enum import Flag, auto
from types import TracebackType
from typing import Final, Self

from tests.support.endings import end_all

__all__ = ["Divider", "Way"]

_LOOPBACK: Final = "127.0.0.1"
_CHUNK: Final = 1 << 16


class Way(Flag):
    """A direction, seen from the client."""

    TO_SERVER = auto()
    FROM_SERVER = auto()
    BOTH = TO_SERVER | FROM_SERVER


class Divider:
    """Forwards to each of some addresses of loopback, in the event loop that it was entered in.

    `held` counts the chunks that waited, `opened` the connections that were made.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        """`addresses`: host:port of each server."""
        self._addresses = list(addresses)
        self._ports: dict[str, int] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = {Way.TO_SERVER: asyncio.Event(), Way.FROM_SERVER: asyncio.Event()}
        self.heal()
        self.held = 0
        self.opened = 0

    async def __aenter__(self) -> Self:
        for address in self._addresses:

            async def accept(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str = address
            ) -> None:
                await self._accept(address, reader, writer)

            server = await asyncio.start_server(accept, _LOOPBACK, 0)
            self._servers.append(server)
            self._ports[address] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        await end_all(self._tasks)

    def at(self, address: str) -> str:
        """Return host:port at which a server is reached through here."""
        return f"{_LOOPBACK}:{self._ports[address]}"

    @property
    def routes(self) -> Mapping[int, str]:
        """The ports of the servers, each with host:port at which it is reached through here."""
        return {int(address.rpartition(":")[2]): self.at(address) for address in self._addresses}

    def part(self, way: Way) -> None:
        """Hold all data in these directions from now on."""
        for direction, event in self._open.items():
            if direction in way:
                event.clear()

    def heal(self) -> None:
        """Let all data through, including held data."""
        for event in self._open.values():
            event.set()

    async def _accept(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.opened += 1
        try:
            await self._serve(address, reader, writer)
        except asyncio.CancelledError:
            return  # The test has ended; no code waits for the task of a connection.
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = address.rpartition(":")
        # A new connection to the server is not made either, as if its first segment were lost.
        await self._open[Way.TO_SERVER].wait()
        try:
            server_reader, server_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return
        pumps = [
            asyncio.create_task(self._pump(Way.TO_SERVER, reader, server_writer)),
            asyncio.create_task(self._pump(Way.FROM_SERVER, server_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server_writer.transport.abort()
            await end_all(pumps)

    async def _pump(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward in one direction until either end closes; a close is not noticed while the network is parted."""
        event = self._open[way]
        try:
            while True:
                data = await reader.read(_CHUNK)
                if not event.is_set():
                    self.held += 1
                    await event.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            await event.wait()
