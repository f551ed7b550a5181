"""Making servers well again after a test that harmed them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from hedwig.cli.dev import DevServers, ServerState

__all__ = ["heal", "tended"]

_SERVICES: Final = {
    "hbase-master": "hbase",
    "regionserver": "hbase",
    "bookie": "bookkeeper",
    "bookie43": "bookkeeper43",
}
"""The services of those kinds of server that have another name."""

_ROUND_S: Final = 0.5


def heal(launcher: DevServers, timeout_s: float = 180.0) -> None:
    """Let paused servers go on, start those that ended where they were, and wait until all answer. Raises DevError."""
    known = launcher.status()
    for server in known:
        if server.state is ServerState.PAUSED:
            launcher.resume(server.name)
    dead = [server for server in known if server.state is ServerState.DEAD]
    if keepers := [server.name for server in dead if server.kind == "zookeeper"]:
        # The others are not even prepared without it.
        for name in keepers:
            launcher.start(name, wait=False)
        launcher.up(["zookeeper"], timeout_s=timeout_s)
    for server in dead:
        if server.name not in keepers:
            launcher.start(server.name, wait=False)
    launcher.up(list(dict.fromkeys(_SERVICES.get(server.kind, server.kind) for server in known)), timeout_s=timeout_s)


@asynccontextmanager
async def tended(launcher: DevServers) -> AsyncIterator[None]:
    """Start servers that end by themselves meanwhile: a region server does so when it was away for too long."""

    async def tend() -> None:
        while True:
            if any(server.state is ServerState.DEAD for server in await asyncio.to_thread(launcher.status)):
                await asyncio.to_thread(heal, launcher)
            await asyncio.sleep(_ROUND_S)

    nurse = asyncio.create_task(tend())
    try:
        yield
    finally:
        nurse.cancel()
        await asyncio.wait((nurse,))
