"""Prove that a listener that cannot answer on its address says so, whichever event loop it has."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from hedwig.errors import ConfigurationError
from hub.listening import serve


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_two_that_took_one_port_do_not_both_serve(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def take_and_serve() -> None:
        first = await bound(0)
        port = first.sockets[0].getsockname()[1]
        second = await bound(port)
        try:
            await serve(first, "127.0.0.1", port)
            with pytest.raises(
                ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: (?i:address already in use)"
            ):
                await serve(second, "127.0.0.1", port)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
        finally:
            first.close()
            second.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(take_and_serve())


async def bound(port: int) -> asyncio.Server:
    return await asyncio.get_running_loop().create_server(
        asyncio.Protocol, "127.0.0.1", port, reuse_address=True, start_serving=False
    )
