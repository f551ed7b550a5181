"""Deployments for tests, one for each test. Tests with `on_both` run with metadata in ZooKeeper and in HBase."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.hub.cluster.support.deployment import Deployment
from tests.metadata.support.backends import BACKENDS, Surroundings
from tests.support.servers import RunningServers

_ROWS = {row.label: row for row in BACKENDS}


@pytest.fixture
def ledgers(request: pytest.FixtureRequest) -> str:
    """Which ledgers the hubs make. They write shared logs unless the test says otherwise."""
    kind: str = getattr(request, "param", "shared")
    return kind


@pytest.fixture
async def deployment(
    request: pytest.FixtureRequest,
    servers: RunningServers,
    ledgers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Deployment]:
    """A deployment without hubs. Its metadata are in ZooKeeper unless the test says otherwise."""
    backend = getattr(request, "param", "zookeeper")
    servers.address("bookkeeper")
    subject = _ROWS[backend].subject(Surroundings(servers, tmp_path))
    async with AsyncExitStack() as stack:
        made = Deployment(servers.address("zookeeper"), backend, ledgers, subject, tmp_path, monkeypatch, stack)
        await made.open()
        yield made
