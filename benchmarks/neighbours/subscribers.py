"""Subscribers that read slowly, never consume, or read all there is."""

import asyncio
from collections.abc import Callable

from hedwig.benchmarks.neighbours.clients import BUSY, KIB, MIB, options, publish_at, read_some, subscribed
from hedwig.client import HedwigClient

__all__ = ["readers_of_a_backlog", "slow_subscribers", "subscribers_that_never_consume"]


async def slow_subscribers(port: int, ready: Callable[[], None]) -> None:
    """50 read 4 KiB every tenth of a second each, of 200 messages of 16 KiB a second."""
    slow = [await subscribed(port, b"slow %d" % number, receive_bytes=4 * KIB) for number in range(50)]
    ready()
    async with HedwigClient(options(port)) as client:
        publishing = asyncio.create_task(publish_at(client, 200, 16 * KIB))
        while not publishing.done():
            await asyncio.sleep(0.1)
            for connection in slow:
                read_some(connection, 4 * KIB)


async def subscribers_that_never_consume(port: int, ready: Callable[[], None]) -> None:
    """200 with a window of 10, and 20 with none that read all, of 100 messages of 1 KiB a second."""
    for number in range(200):
        await subscribed(port, b"window %d" % number, window=10)
    reading = [await subscribed(port, b"none %d" % number) for number in range(20)]
    ready()
    async with HedwigClient(options(port)) as client:
        publishing = asyncio.create_task(publish_at(client, 100, KIB))
        while not publishing.done():
            await asyncio.sleep(0.02)
            for connection in reading:
                read_some(connection, 256 * KIB)


async def readers_of_a_backlog(port: int, ready: Callable[[], None]) -> None:
    """10 read 64 MiB of messages of 4 KiB from the ledgers, again and again, as fast as they can."""
    await subscribed(port, b"owner")
    readers = [await subscribed(port, b"reader %d" % number, window=1) for number in range(10)]
    async with HedwigClient(options(port)) as client:
        async for _ in client.publish_many(BUSY, (bytes(4 * KIB) for _ in range(16 * KIB))):
            pass
    for connection in readers:
        connection.close()
    ready()
    loop = asyncio.get_running_loop()

    async def read(name: bytes) -> None:
        while True:
            connection = await subscribed(port, name, window=0)
            got = 0
            while got < 64 * MIB:
                got += len(await loop.sock_recv(connection, 256 * KIB))
            connection.close()

    await asyncio.gather(*(read(b"reader %d" % number) for number in range(10)))
