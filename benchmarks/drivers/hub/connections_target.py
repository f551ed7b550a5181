"""Idle connections, to measure what one costs a hub."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

__all__ = ["hold_connections"]

_OPENING: Final = 200
_PER_ADDRESS: Final = 1000
"""Connections from one address of the loopback network at most; a hub keeps its last slots for other addresses."""
_ADDRESSES: Final = 250
"""Addresses used of each network of 256."""


class _Idle(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_lost = False

    def connection_lost(self, _: Exception | None) -> None:
        self.is_lost = True


async def hold_connections(
    host: str, port: int, count: int, ready: Callable[[], None], done: Callable[[], Awaitable[object]]
) -> None:
    """Open `count` connections, call `ready`, and hold them until `done` returns.

    Raises: OSError - one could not be opened; RuntimeError - the hub has closed some.
    """
    loop = asyncio.get_running_loop()
    room = asyncio.Semaphore(_OPENING)
    is_loopback = host.startswith("127.")

    async def open_one(number: int) -> tuple[asyncio.BaseTransport, _Idle]:
        network, address = divmod(number // _PER_ADDRESS, _ADDRESSES)
        local = (f"127.0.{network}.{1 + address}", 0) if is_loopback else None
        async with room:
            return await loop.create_connection(_Idle, host, port, local_addr=local)

    async with asyncio.TaskGroup() as group:
        opening = [group.create_task(open_one(number)) for number in range(count)]
    opened = [task.result() for task in opening]
    try:
        ready()
        await done()
        if lost := sum(channel.is_lost for _, channel in opened):
            raise RuntimeError(f"the hub closed {lost} of {count} connections that did nothing")
    finally:
        for transport, _ in opened:
            transport.close()
