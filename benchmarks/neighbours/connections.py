"""Connections that send nothing, or noise."""

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hedwig.benchmarks.drivers.hub.connections_target import hold_connections
from hedwig.benchmarks.neighbours.clients import BUSY, KIB, Neighbour, request
from hedwig.wire import HUB_FRAME_BYTES_MAX, Message, Publish, encode_frame, encode_request

__all__ = ["handshakes", "idle_connections", "one_address", "random_bytes", "unfinished_frames"]

_OPENING: Final = 100
_AGAIN_S: Final = 0.1


def idle_connections(count: int) -> Neighbour:
    """Return a neighbour that holds so many connections, and sends nothing on them."""

    async def hold(port: int, ready: Callable[[], None]) -> None:
        await hold_connections("127.0.0.1", port, count, ready, asyncio.Event().wait)

    return hold


async def random_bytes(port: int, ready: Callable[[], None]) -> None:
    """10 at a time connect, send up to 64 KiB of noise, and are thrown out, as often as they can."""
    source = random.Random(1)
    ready()

    async def send() -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(source.randbytes(source.randrange(1, 64 * KIB)))
            try:
                if writer.can_write_eof():
                    writer.write_eof()
                await reader.read()
            except OSError:
                pass  # Thrown out while it was sending.
            writer.close()

    await asyncio.gather(*(send() for _ in range(10)))


def one_address(count: int, source: str, *, publishes: bool) -> Neighbour:
    """Return a neighbour that holds so many connections from one address, as far as the hub lets it.

    It publishes once on each, or never. What the hub closes it opens again.
    """
    frame = encode_frame(encode_request(request(BUSY, Publish(Message(b"m")))), HUB_FRAME_BYTES_MAX)
    return _kept(count, source, frame if publishes else b"")


def handshakes(count: int) -> Neighbour:
    """Return a neighbour that keeps so many connections to the TLS port, and begins no handshake."""
    return _kept(count, "127.0.0.1", b"")


def unfinished_frames(count: int) -> Neighbour:
    """Return a neighbour that keeps so many large frames unfinished, by one byte each."""
    publish = Publish(Message(bytes(HUB_FRAME_BYTES_MAX - KIB)))
    return _kept(count, "127.0.0.1", encode_frame(encode_request(request(BUSY, publish)), HUB_FRAME_BYTES_MAX)[:-1])


def _kept(count: int, source: str, sent: bytes) -> Neighbour:
    """Return a neighbour that keeps so many connections open, sends the same on each, and reads what is answered."""

    async def work(port: int, ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        opening = asyncio.Semaphore(_OPENING)
        tried = 0
        all_tried = asyncio.Event()

        async def keep() -> None:
            nonlocal tried
            while True:
                with suppress(OSError), socket.socket() as connection:
                    connection.setblocking(False)
                    async with opening:
                        connection.bind((source, 0))
                        await loop.sock_connect(connection, ("127.0.0.1", port))
                        await loop.sock_sendall(connection, sent)
                    tried += 1
                    if tried >= count:
                        all_tried.set()
                    while await loop.sock_recv(connection, KIB):
                        pass
                await asyncio.sleep(_AGAIN_S)

        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(keep())
            await all_tried.wait()
            ready()

    return work
