"""Healing servers after a test that harmed them."""

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
"""The names of services that differ from their kind of server."""

_ROUND_S: Final = 0.5


def heal(launcher: DevServers, timeout_s: float = 180.0) -> None:
    """Resume paused servers, start ended ones in their places, and wait until all answer. Raises DevError."""
    known = launcher.status()
    for server in known:
        if server.state is ServerState.PAUSED:
            launcher.resume(server.name)
    dead = [server for server in known if server.state is ServerState.DEAD]
    if keepers := [server.name for server in dead if server.kind == "zookeeper"]:
        # Without ZooKeeper the other servers are not even prepared.
        for name in keepers:
            launcher.start(name, wait=False)
        launcher.up(["zookeeper"], timeout_s=timeout_s)
    for server in dead:
        if server.name not in keepers:
            launcher.start(server.name, wait=False)
    launcher.up(list(dict.fromkeys(_SERVICES.get(server.kind, server.kind) for server in known)), timeout_s=timeout_s)


@asynccontextmanager
async def tended(launcher: DevServers) -> AsyncIterator[None]:
    """Restart servers that end by themselves meanwhile, as a region server does after it was away for too long."""

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
