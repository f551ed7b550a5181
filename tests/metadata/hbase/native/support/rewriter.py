"""Proxies that change the replies of a server, so that it seems to have another version or to fail."""

import asyncio
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeAlias

from hedwig.metadata.hbase.native.hbase_pb2 import (
    CoprocessorServiceResponse,
    ExceptionResponse,
    MultiResponse,
    MutateRowsResponse,
    NameBytesPair,
    RegionActionResult,
    ResponseHeader,
)
from hedwig.metadata.hbase.native.wire.codec import varint
from hedwig.metadata.hbase.native.wire.regions import Server
from tests.faults.support.wires import Request
from tests.metadata.hbase.native.support.wire import WRITE, HBaseWire, body_of
from tests.support.endings import end_all

__all__ = ["FailingServer", "OldServer", "Rewriter"]

_CHUNK: Final = 1 << 16
_NEW: Final = b"2.6.1"
_OLD: Final = b"2.3.7"

Change: TypeAlias = Callable[[str, bytes], bytes]
"""Takes a method and the frame of the reply to its call, and returns the frame for the client."""


class Rewriter:
    """Stands before a server and changes its replies. `calls` counts the calls by method."""

    def __init__(self, server: Server, change: Change) -> None:
        self._behind = server
        self._change = change
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = server
        self.calls: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = Server("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None, "it was entered"
        self._server.close()
        await end_all(self._tasks)

    def route(self, server: Server) -> Server:
        """Return the address at which clients reach `server`: this proxy, if it stands before that server."""
        return self.address if server.port == self._behind.port else server

    def note(self, method: str, request: Request) -> None:
        """Count a call."""
        self.calls[method] += 1

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
                group.create_task(self._forward(server_reader, writer, lambda data: self._replies(wire, methods, data)))
        except* OSError:
            pass  # Either side ends a connection in this way.
        except* asyncio.CancelledError:
            pass  # Only __aexit__ cancels, and no caller waits for the task of a connection.
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
        items = wire.requests(data)
        for item in items:
            if isinstance(item, Request):
                methods[item.mark] = method = wire.method_of(item.data)
                self.note(method, item)
        return b"".join(item.data if isinstance(item, Request) else item for item in items)

    def _replies(self, wire: HBaseWire, methods: dict[int, str], data: bytes) -> bytes:
        return b"".join(self._change(methods.pop(reply.mark or 0, ""), reply.data) for reply in wire.replies(data))


class OldServer(Rewriter):
    """Makes a server one that does not know conditions in batches.

    `batched_puts` counts the batches with a conditional put that arrived. An old server would apply them without the
    condition.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(server, _aged)
        self.batched_puts = 0

    def note(self, method: str, request: Request) -> None:
        super().note(method, request)
        self.batched_puts += method in ("Multi", "ExecService") and request.name == WRITE


class FailingServer(Rewriter):
    """Makes a server answer every read of rows with `failure` while it is set, alone and in a batch."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, self._failed)
        self.failure: ExceptionResponse | None = None

    def _failed(self, method: str, frame: bytes) -> bytes:
        if self.failure is None or method not in ("Get", "Multi"):
            return frame
        raw, body = body_of(frame)
        header = ResponseHeader.FromString(raw)
        if method == "Get":
            header.exception.CopyFrom(self.failure)
            return _frame(header.SerializeToString())
        pair = NameBytesPair(name=self.failure.exception_class_name, value=self.failure.stack_trace.encode())
        count = len(MultiResponse.FromString(body).region_action_result)
        answer = MultiResponse(region_action_result=[RegionActionResult(exception=pair)] * count)
        return _frame(raw, answer.SerializeToString())


def _aged(method: str, frame: bytes) -> bytes:
    if method == "GetClusterStatus":
        return frame.replace(_NEW, _OLD)
    if method == "ExecService":
        return _silenced(frame)
    if method != "Multi":
        return frame
    header, body = body_of(frame)
    reply = MultiResponse.FromString(body)
    for result in reply.region_action_result:
        result.ClearField("processed")
    return _frame(header, reply.SerializeToString())


def _silenced(frame: bytes) -> bytes:
    """Return the reply to a change of several rows as a server before 2.4.5 sends it: without the outcome."""
    header, body = body_of(frame)
    if ResponseHeader.FromString(header).HasField("exception"):
        return frame
    reply = CoprocessorServiceResponse.FromString(body)
    reply.value.value = MutateRowsResponse().SerializeToString()
    return _frame(header, reply.SerializeToString())


def _frame(header: bytes, body: bytes | None = None) -> bytes:
    """Return the frame of a reply. A reply with an exception has no body."""
    content = varint(len(header)) + header
    if body is not None:
        content += varint(len(body)) + body
    return len(content).to_bytes(4, "big") + content
