"""The other end of a connection. It sends the answers of a test, at the times that the test chooses."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as pb

__all__ = ["ScriptedPeer", "listening"]

_DEADLINE_S = 20


class ScriptedPeer:
    """Accepts connections on loopback and records the requests that arrive."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[tuple[pb.Request, asyncio.StreamWriter]] = asyncio.Queue()
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self._port = 0

    async def resolve(self, bookie: str) -> tuple[str, int]:
        return "127.0.0.1", self._port

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and end the connections."""
        assert self._server is not None
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def next(self) -> tuple[pb.Request, asyncio.StreamWriter]:
        async with asyncio.timeout(_DEADLINE_S):
            return await self.requests.get()

    def answer(self, request: pb.Request, writer: asyncio.StreamWriter, **fields: Any) -> None:
        header = pb.Header(version=3, operation=request.header.operation, txnId=request.header.txnId)
        body = pb.Response(header=header, **fields).SerializeToString()
        writer.write(struct.pack(">I", len(body)) + body)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">I", await reader.readexactly(4))
                self.requests.put_nowait((pb.Request.FromString(await reader.readexactly(size)), writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[ScriptedPeer]:
    peer = ScriptedPeer()
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()
