"""Prove that thousands of closed connections do not fill the hub's log."""

import asyncio
import re
from typing import Final

import pytest

from hedwig.wire import HUB_FRAME_BYTES_MAX
from tests.faults.support.waiting import until
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.running import RunningHub

CONNECTIONS: Final = 2_000
AT_ONCE: Final = 20

SENT: Final[dict[str, tuple[bytes, str]]] = {
    "noise": (b"\xff" * 64, "closing the connection"),
    "no request": (b"\0\0\0\x02\xff\xff", "closing the connection"),
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", "closing the connection"),
    "half a frame": ((HUB_FRAME_BYTES_MAX - 4).to_bytes(4, "big"), "ended inside a frame"),
}


@pytest.mark.parametrize("kind", SENT)
async def test_connections_that_are_closed_by_the_thousand_are_counted(
    hub: RunningHub, good: GoodTopic, kind: str
) -> None:
    sent, said = SENT[kind]
    before = hub.log
    left = CONNECTIONS
    began = asyncio.get_running_loop().time()

    async def connect() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
            writer.write(sent)
            try:
                writer.write_eof()
                await reader.read()
            except OSError:
                pass  # The hub closed the connection while the client was sending.
            writer.close()

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(connect())
    await good.exchange(5)

    def lines() -> list[str]:
        return [line for line in hub.log[len(before) :].splitlines() if said in line]

    await until(lambda: _counted(lines()) == CONNECTIONS, "the log tells of all of them")
    # There is one line at once, and one each second. The last second may end only now.
    assert len(lines()) <= 3 + asyncio.get_running_loop().time() - began


def _counted(lines: list[str]) -> int:
    """Return the number of connections that these lines report."""
    matches = [re.search(r"\[and ([\d,]+) more", line) for line in lines]
    return sum(1 + (int(match[1].replace(",", "")) if match else 0) for match in matches)
