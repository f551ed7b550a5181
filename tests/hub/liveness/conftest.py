"""A deployment's prefix in a real ZooKeeper, hubs that register there, and a client beside them."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev import DevServers
from hedwig.hub.liveness import LivenessOptions
from tests.hub.liveness.support.hubs import SESSION_S, Hubs
from tests.support.servers import RunningServers


@pytest.fixture
def options(servers: RunningServers) -> LivenessOptions:
    """Return the options of a deployment of its own, with sessions as short as the server grants."""
    return LivenessOptions(
        zookeeper=servers.address("zookeeper"),
        prefix=f"/hedwig/{uuid.uuid4().hex}",
        session_timeout_s=SESSION_S,
        refresh_s=0.5,
    )


@pytest.fixture
async def hubs(options: LivenessOptions) -> AsyncIterator[Hubs]:
    async with AsyncExitStack() as stack:
        yield Hubs(options, stack)


@pytest.fixture
def raw(options: LivenessOptions) -> Iterator[KazooClient]:
    """Return a client beside the code under test. Call it between awaits: it answers at once."""
    client = KazooClient(options.zookeeper)
    client.start(30)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[DevServers]:
    """Three servers of one ZooKeeper."""
    launcher = DevServers(tmp_path / "quorum")
    try:
        launcher.up(["zookeeper"], zookeepers=3)
        yield launcher
    finally:
        launcher.down()
