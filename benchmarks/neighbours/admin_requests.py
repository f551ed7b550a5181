"""Requests to the admin endpoint that have no end."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from hedwig.benchmarks.neighbours.clients import KIB

__all__ = ["endless_posts"]

_BYTES = 10**10


async def endless_posts(_port: int, ready: Callable[[], None]) -> None:
    """4 at a time post 10^10 bytes to the admin endpoint, half of them in chunks, as often as they are thrown out."""
    host, _, admin_port = os.environ["HEDWIG_ADMIN"].rpartition(":")
    block = bytes(64 * KIB)
    ready()

    async def send(length: bytes, piece: bytes) -> None:
        while True:
            _, writer = await asyncio.open_connection(host, int(admin_port))
            with suppress(OSError):
                writer.write(b"POST /read-only?state=off HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n\r\n")
                for _number in range(_BYTES // len(block)):
                    writer.write(piece)
                    await writer.drain()
            writer.close()

    announced = b"Content-Length: %d" % _BYTES, block
    chunked = b"Transfer-Encoding: chunked", b"%x\r\n%s\r\n" % (len(block), block)
    await asyncio.gather(*(send(*each) for each in (announced, chunked) * 2))
