"""A formatted namespace of a real HBase, and direct access to it for the driver's own tests."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from hedwig.clock import Deadline, SystemClock
from hedwig.metadata import MetadataUrl, StoreOptions, format_metadata
from hedwig.metadata.hbase.native import NativeDriver, connect
from hedwig.metadata.hbase.native.cluster.links import Route
from hedwig.metadata.hbase.native.wire.regions import Region
from tests.metadata.hbase.native.support.administrator import Administrator
from tests.support.servers import RunningServers

OPTIONS = StoreOptions(regions=3)


def soon() -> Deadline:
    """Return a deadline that no test reaches."""
    return Deadline.after(SystemClock(), 30.0)


@dataclass(frozen=True)
class Namespace:
    """The tables of a test: namespace `name`, on the servers of the run."""

    name: str
    servers: RunningServers

    @property
    def url(self) -> str:
        return f"hbase://{self.servers.address('zookeeper')}/{self.name}"

    @property
    def table(self) -> str:
        """Return the table into which the tests write rows."""
        return f"{self.name}:ownership"

    @property
    def master(self) -> str:
        return self.servers.address("hbase")

    @property
    def region_server(self) -> str:
        return self.servers.launcher.address("regionserver")


class Doors:
    """Opens drivers and administrators of a namespace, and closes them at the end of the test."""

    def __init__(self, namespace: Namespace, stack: AsyncExitStack) -> None:
        self._namespace = namespace
        self._stack = stack

    async def driver(self, route: Route = lambda server: server, options: StoreOptions = OPTIONS) -> NativeDriver:
        driver = await connect(MetadataUrl.parse(self._namespace.url), options, route)
        self._stack.push_async_callback(driver.close)
        return driver

    async def administrator(self) -> Administrator:
        return await self._stack.enter_async_context(Administrator(self._namespace.master))

    async def regions(self) -> list[Region]:
        return await (await self.administrator()).regions(self._namespace.table)


@pytest.fixture(scope="module")
def namespace(servers: RunningServers) -> Namespace:
    servers.address("hbase")
    made = Namespace(f"v{uuid.uuid4().hex}", servers)
    with asyncio.Runner() as runner:
        runner.run(format_metadata(made.url, OPTIONS))
    return made


@pytest.fixture
async def doors(namespace: Namespace) -> AsyncIterator[Doors]:
    async with AsyncExitStack() as stack:
        yield Doors(namespace, stack)
