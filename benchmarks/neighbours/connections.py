"""Connections that send nothing, or noise."""

import asyncio
import random
from collections.abc import Callable

from benchmarks.connections_target import hold_connections
from benchmarks.neighbours.clients import KIB, Neighbour

__all__ = ["idle_connections", "random_bytes"]


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
