"""The least protocol of numbered calls, and its other end, which answers when a test says so.

A call is its number in four bytes, and four of padding. An answer is the number of its call and a value, in four bytes
each; END as the value is no answer of the protocol.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hedwig.errors import RemoteProtocolError
from hedwig.rpc import Bounds, Call, RpcConnection

__all__ = ["END", "Caller", "Peer", "connected"]

END = 0xFFFFFFFF
_DEADLINE_S = 20
_PAIR = struct.Struct(">II")


class _Pairs:
    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> list[tuple[int, int | str]]:
        data = self._rest + data
        whole = len(data) - len(data) % _PAIR.size
        self._rest = data[whole:]
        answers: list[tuple[int, int | str]] = []
        for number, value in _PAIR.iter_unpack(data[:whole]):
            if value == END:
                raise RemoteProtocolError("that is no value")
            answers.append((number, value))
        return answers


class Caller(RpcConnection[int | str]):
    """A connection whose calls come to the value that was answered, or to the word for why there is none."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(_Pairs(), bounds, lambda _: None)
        self.strays: list[int] = []

    def call(self, done: Callable[[int | str], None], timeout_s: float = 30.0, *, content: bytes = bytes(4)) -> int:
        number = self._number
        self._submit((struct.pack(">I", number), content), 4 + len(content), timeout_s, done)
        return number

    async def ask(self, timeout_s: float = 30.0) -> int | str:
        answer: asyncio.Future[int | str] = self._loop.create_future()
        self.call(answer.set_result, timeout_s)
        return await answer

    def close(self) -> None:
        self._end("closed here")

    def _unanswered(self, call: Call[int | str], *, has_left: bool) -> str:
        return f"{'left' if has_left else 'kept'}: {self.ended or 'expired'}"

    def _unclaimed(self, number: int, answer: int | str) -> None:
        self.strays.append(number)


class Peer:
    """The other end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def next(self) -> int:
        """Return the number of the next call."""
        async with asyncio.timeout(_DEADLINE_S):
            number, _ = _PAIR.unpack(await self._reader.readexactly(_PAIR.size))
        return int(number)

    def answer(self, number: int, value: int) -> None:
        self.writer.write(_PAIR.pack(number, value))


@asynccontextmanager
async def connected(bounds: Bounds) -> AsyncIterator[tuple[Caller, Peer]]:
    """A connection over loopback, and its other end."""
    came: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set_result(Peer(reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, caller = await asyncio.get_running_loop().create_connection(lambda: Caller(bounds), "127.0.0.1", port)
    peer = await came
    try:
        yield caller, peer
    finally:
        caller.close()
        peer.writer.transport.abort()
        server.close()
        await server.wait_closed()
