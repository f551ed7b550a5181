"""Prove that a parted network holds all data in the requested directions, and loses none in the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.support.divider import Divider, Way
from tests.faults.support.waiting import until

PATIENCE_S = 30.0


class Echo:
    """An echo server, and the data that it received."""

    def __init__(self) -> None:
        self.heard = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.heard += data
            writer.write(data)
        writer.close()


@asynccontextmanager
async def divided() -> AsyncIterator[tuple[Echo, Divider, str]]:
    echo = Echo()
    async with asyncio.timeout(PATIENCE_S), await asyncio.start_server(echo.serve, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Divider([address]) as divider:
            yield echo, divider, divider.at(address)


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


@pytest.mark.parametrize("way", [Way.TO_SERVER, Way.FROM_SERVER, Way.BOTH])
async def test_nothing_passes_until_it_is_healed_and_then_everything(way: Way) -> None:
    async with divided() as (echo, divider, address):
        reader, writer = await connect(address)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        divider.part(way)
        writer.write(b"two")
        await until(lambda: divider.held == 1, "something held up")
        assert echo.heard == (b"onetwo" if way is Way.FROM_SERVER else b"one")
        answer = asyncio.create_task(reader.readexactly(3))
        assert not answer.done()
        divider.heal()
        assert await answer == b"two"
        assert echo.heard == b"onetwo"
        writer.close()


async def test_a_new_connection_hears_nothing_until_the_network_is_healed() -> None:
    async with divided() as (echo, divider, address):
        divider.part(Way.BOTH)
        reader, writer = await connect(address)
        writer.write(b"one")
        await until(lambda: divider.opened == 1, "the connection")
        assert not echo.heard
        divider.heal()
        assert await reader.readexactly(3) == b"one"
        writer.close()


async def test_an_end_is_not_heard_of_while_the_network_is_parted() -> None:
    async with divided() as (echo, divider, address):
        reader, writer = await connect(address)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        divider.part(Way.TO_SERVER)
        writer.write_eof()
        await until(lambda: divider.held == 1, "the end held up")
        ending = asyncio.create_task(reader.read())
        assert not ending.done()
        divider.heal()
        assert await ending == b""
        assert echo.heard == b"one"
        writer.close()
