"""A formatted prefix of a real ZooKeeper, reached through the backend and directly."""

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient

from hedwig.metadata import MetadataStore, StoreOptions, format_metadata, open_metadata
from tests.support.servers import RunningServers

__all__ = ["Prefix"]

_CONNECT_S = 30.0


@dataclass(frozen=True)
class Prefix:
    """Where in ZooKeeper a test keeps its nodes."""

    address: str
    path: str

    @property
    def url(self) -> str:
        return f"zookeeper://{self.address}{self.path}"


@pytest.fixture
def prefix(servers: RunningServers) -> Prefix:
    return Prefix(servers.address("zookeeper"), f"/hedwig/{uuid.uuid4().hex}")


@pytest.fixture
async def store(prefix: Prefix) -> AsyncIterator[MetadataStore]:
    await format_metadata(prefix.url)
    async with await open_metadata(prefix.url, StoreOptions(operation_timeout_s=20)) as opened:
        yield opened


@pytest.fixture
def raw(servers: RunningServers) -> Iterator[KazooClient]:
    """Return a separate client that does not know guards. Call it through `asyncio.to_thread`, or between awaits."""
    client = KazooClient(hosts=servers.address("zookeeper"), timeout=_CONNECT_S)
    client.start(timeout=_CONNECT_S)
    yield client
    client.stop()
    client.close()
