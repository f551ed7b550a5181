"""A proxy that changes what a server answers, as a server of another version would."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from metadata.hbase.native.codec import varint
from metadata.hbase.native.hbase_pb2 import MultiResponse
from metadata.hbase.native.places import Server
from tests.faults.wires import Request
from tests.metadata.hbase.native.wire import WRITE, HBaseWire, body_of

__all__ = ["OldServer"]

_CHUNK: Final = 1 << 16
_NEW: Final = b"2.6.1"
_OLD: Final = b"2.3.7"


class OldServer:
    """Stands before a server and makes it one that knows nothing of conditions in batches.

    `batched_puts` counts the batches with a conditional put that came: an old server would carry them out regardless.
    `calls` counts all.
    """

    def __init__(self, server: Server) -> None:
        self._behind = server
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = server
        self.batched_puts = 0
        self.calls = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = Server("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None, "it was entered"
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def route(self, server: Server) -> Server:
        """Return where clients reach `server`: here, if it is the one behind this."""
        return self.address if server.port == self._behind.port else server

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a server runs this in one"
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        server_reader, server_writer = await asyncio.open_connection(self._behind.host, self._behind.port)
        wire, methods = HBaseWire(), dict[int, str]()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    self._forward(reader, server_writer, lambda data: self._requests(wire, methods, data))
                )
                group.create_task(self._forward(server_reader, writer, lambda data: _replies(wire, methods, data)))
        except* OSError:
            pass  # That is how either side ends.
        finally:
            writer.transport.abort()
            server_writer.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]
    ) -> None:
        while data := await reader.read(_CHUNK):
            writer.write(change(data))
            await writer.drain()
        raise ConnectionResetError("one side has ended it, so the other one ends too")

    def _requests(self, wire: HBaseWire, methods: dict[int, str], data: bytes) -> bytes:
        found = wire.requests(data)
        for item in found:
            if isinstance(item, Request):
                self.calls += 1
                methods[item.mark] = method = wire.method_of(item.data)
                self.batched_puts += method == "Multi" and item.name == WRITE
        return b"".join(item.data if isinstance(item, Request) else item for item in found)


def _replies(wire: HBaseWire, methods: dict[int, str], data: bytes) -> bytes:
    frames = []
    for reply in wire.replies(data):
        method = methods.pop(reply.mark or 0, "")
        if method == "Multi":
            frames.append(_without_outcomes(reply.data))
        elif method == "GetClusterStatus":
            frames.append(reply.data.replace(_NEW, _OLD))
        else:
            frames.append(reply.data)
    return b"".join(frames)


def _without_outcomes(frame: bytes) -> bytes:
    """Return a reply to a batch without what it says of conditions."""
    header, body = body_of(frame)
    found = MultiResponse.FromString(body)
    for result in found.region_action_result:
        result.ClearField("processed")
    encoded = found.SerializeToString()
    content = varint(len(header)) + header + varint(len(encoded)) + encoded
    return len(content).to_bytes(4, "big") + content
