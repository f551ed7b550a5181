"""Prove that a listener that cannot serve on its address reports an error, on either event loop."""

import asyncio
import ssl
from collections.abc import Callable

import pytest
import uvloop

from hedwig.errors import ConfigurationError
from hedwig.hub.connections.channel import Channel
from hedwig.hub.connections.listening import Listener, serve
from hedwig.hub.connections.tls.listener import TlsListener


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_two_that_took_one_port_do_not_both_serve(
    loop: Callable[[], asyncio.AbstractEventLoop], is_secure: bool
) -> None:
    async def take_and_serve() -> None:
        bind = bind_secure if is_secure else bind_plain
        first = await bind(0)
        port = first.sockets[0].getsockname()[1]
        second = await bind(port)
        try:
            await serve(first, "127.0.0.1", port)
            with pytest.raises(
                ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: (?i:address already in use)"
            ):
                await serve(second, "127.0.0.1", port)
            if not is_secure:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
        finally:
            first.close()
            second.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(take_and_serve())


async def bind_plain(port: int) -> Listener:
    return await asyncio.get_running_loop().create_server(
        asyncio.Protocol, "127.0.0.1", port, reuse_address=True, start_serving=False
    )


async def bind_secure(port: int) -> Listener:
    def refuse() -> Channel:
        raise AssertionError("nobody shakes hands here")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    return await TlsListener.bind("127.0.0.1", port, refuse, context, backlog=10, handshake_s=1.0)
