"""A formatted namespace of a real HBase, reached through the Thrift2 gateway and directly."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import happybase
import pytest

from hedwig.metadata import MetadataStore, StoreOptions, format_metadata, open_metadata
from tests.support.servers import RunningServers


@dataclass(frozen=True)
class Namespace:
    """The namespace of a test's tables."""

    name: str
    gateway: str
    reader: str

    @property
    def url(self) -> str:
        return f"hbase+thrift://{self.gateway}/{self.name}"

    @contextmanager
    def happybase(self) -> Iterator[happybase.Connection]:
        """Open the independent reader's connection."""
        host, _, port = self.reader.rpartition(":")
        connection = happybase.Connection(host, int(port), timeout=30_000)
        try:
            yield connection
        finally:
            connection.close()


@pytest.fixture(scope="module")
def namespace(servers: RunningServers) -> Namespace:
    return Namespace(f"h{uuid.uuid4().hex}", servers.address("thrift2"), servers.address("thrift1"))


@pytest.fixture
async def hbase_store(namespace: Namespace) -> AsyncIterator[MetadataStore]:
    options = StoreOptions(regions=3)
    await format_metadata(namespace.url, options)
    async with await open_metadata(namespace.url, options) as store:
        yield store
