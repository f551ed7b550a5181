"""The backends under test, one row for each, and their stores.

To hold another backend to the suite, add a class and a row to `BACKENDS`.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final, Protocol

import pytest

from hedwig.metadata import MetadataStore, MetadataUrl, StoreOptions
from hedwig.metadata.hbase import HBaseFactory
from hedwig.metadata.hbase.native import connect
from hedwig.metadata.hbase.native.cluster.links import Route
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.metadata.testing.probe import Probe
from hedwig.metadata.testing.subject import Subject
from tests.metadata.hbase.native.support.tables import drop_tables
from tests.metadata.support.probe_hbase import HBaseProbe
from tests.metadata.support.probe_sqlite import SqliteProbe, run_in_file, run_in_memory
from tests.metadata.support.probe_zookeeper import ZooKeeperProbe
from tests.simulation.metadata_model import ModelWay, open_model, open_tables
from tests.support.servers import RunningServers

__all__ = [
    "BACKENDS",
    "KEPT_BACKENDS",
    "BackendRow",
    "HBaseSubject",
    "RoutedSubject",
    "Surroundings",
    "as_parameters",
    "marks_of",
    "reached_at",
    "servers_of",
]


_FEW_REGIONS: Final = 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The servers of the run and a directory for the stores of tests."""

    servers: RunningServers
    directory: Path


@dataclass(frozen=True, slots=True)
class HBaseSubject(Subject):
    """A store on HBase, with an index of subscriptions by subscriber if it `is_indexed`.

    Each table has `regions` regions: few, since a run makes many tables on one server.
    """

    regions: int = _FEW_REGIONS
    is_indexed: bool = True

    def with_own(self, options: StoreOptions | None) -> StoreOptions:
        return replace(Subject.with_own(self, options), regions=self.regions, indexes_subscribers=self.is_indexed)


@dataclass(frozen=True, slots=True)
class RoutedSubject(HBaseSubject):
    """A store on an HBase with region servers at `server`. Clients of `open` reach them at `route`, if that is given.

    Both are addresses joined by commas, one for each region server.
    """

    server: str = ""
    route: str = ""

    async def open(self, options: StoreOptions | None = None) -> MetadataStore:
        if not self.route:
            return await Subject.open(self, options)
        chosen, url = self.with_own(options), MetadataUrl.parse(self.url)
        route = reached_at(self.server, self.route)
        factory = HBaseFactory(lambda url, options: connect(url, options, route))
        return MetadataStore(url, await factory.open(url, chosen), chosen)

    async def drop(self) -> None:
        # The servers do not have the memory for the hundreds of HBase regions of all stores of a run.
        if self.regions > _FEW_REGIONS:
            await drop_tables(self.url)


def reached_at(servers: str, routes: str) -> Route:
    """Return the routes of clients that reach each of `servers` at another address, in `routes`."""
    # All servers use the name of this machine, so only the port distinguishes them.
    ports = [int(address.rpartition(":")[2]) for address in servers.split(",")]
    ways = [(host, int(port)) for host, _, port in (route.rpartition(":") for route in routes.split(","))]
    known = {port: Server(*way) for port, way in zip(ports, ways, strict=True)}
    return lambda server: known.get(server.port, server)


class BackendRow(Protocol):
    """A backend under test."""

    @property
    def quick_pairs(self) -> int:
        """Return the number of quick pairs of a deletion and a creation of which none may vanish."""

    @property
    def label(self) -> str:
        """Name the backend in a test's id."""

    @property
    def stores_are_cheap(self) -> bool:
        """Return whether every test can have a store of its own."""

    @property
    def examples(self) -> int:
        """Return the number of examples that a search among sequences of operations may use."""

    @property
    def wrong_urls(self) -> tuple[str, ...]:
        """Name URLs that can never work."""

    def subject(self, surroundings: Surroundings) -> Subject:
        """Choose the address of one store, and create nothing there."""

    def url_at(self, host: str, port: int) -> str | None:
        """Return a URL with another server's address; None if the backend needs no server."""


@dataclass(frozen=True, slots=True)
class _SqliteFile:
    label: str = "sqlite"
    quick_pairs: int = 500
    stores_are_cheap: bool = True
    examples: int = 20
    wrong_urls: tuple[str, ...] = (
        "sqlite://host/path/to/file",
        "sqlite:///no/such/directory/at/all/file",
        "sqlite:///no/such/directory/file?sync=off",
        "sqlite:///no/such/directory/file?create=maybe",
    )

    def subject(self, surroundings: Surroundings) -> Subject:
        path = surroundings.directory / f"{uuid.uuid4().hex}.db"
        return Subject(f"sqlite://{path}?create=false", lambda _: SqliteProbe(run_in_file(str(path))))

    def url_at(self, host: str, port: int) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class _SqliteMemory:
    label: str = "memory"
    quick_pairs: int = 500
    stores_are_cheap: bool = True
    examples: int = 60
    wrong_urls: tuple[str, ...] = ("sqlite://?sync=off",)

    gather: bool = False

    def subject(self, surroundings: Surroundings) -> Subject:
        return Subject("sqlite://", _probe_memory, kept=False, gather=self.gather)

    def url_at(self, host: str, port: int) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class _ModelSubject(Subject):
    """A store in the model, which the simulation uses."""

    async def open(self, options: StoreOptions | None = None) -> MetadataStore:
        tables = open_tables()
        return open_model(ModelWay(tables, Random(0), 0.0), self.with_own(options))


@dataclass(frozen=True, slots=True)
class _Model(_SqliteMemory):
    """The model, without losses on the way to it."""

    label: str = "model"
    wrong_urls: tuple[str, ...] = ()

    def subject(self, surroundings: Surroundings) -> Subject:
        return _ModelSubject("sqlite://", _probe_memory, kept=False)


def _probe_memory(store: MetadataStore | None) -> Probe:
    assert store is not None, "a database in memory can be looked at through an open store only"
    return SqliteProbe(run_in_memory(store))


@dataclass(frozen=True, slots=True)
class _ZooKeeper:
    label: str = "zookeeper"
    quick_pairs: int = 500
    stores_are_cheap: bool = True
    examples: int = 12
    wrong_urls: tuple[str, ...] = (
        "zookeeper:///hedwig/standalone",
        "zookeeper://localhost:port/hedwig/standalone",
        "zookeeper://localhost:2181,:1/hedwig/standalone",
        "zookeeper://localhost:99999/hedwig/standalone",
        "zookeeper://localhost:2181",
        "zookeeper://localhost:2181/hedwig/../standalone",
        "zookeeper://localhost:2181/hedwig//standalone",
        "zookeeper://localhost:2181/hedwig/standalone?sync=off",
    )

    def subject(self, surroundings: Surroundings) -> Subject:
        address = surroundings.servers.address("zookeeper")
        root = f"/hedwig/{uuid.uuid4().hex}"
        return Subject(
            f"zookeeper://{address}{root}",
            lambda _: ZooKeeperProbe(address, root),
            stores_file=surroundings.servers.stores_file,
        )

    def url_at(self, host: str, port: int) -> str | None:
        return f"zookeeper://{host}:{port}/hedwig/standalone"


@dataclass(frozen=True, slots=True)
class _HBaseThrift:
    label: str = "hbase+thrift"
    quick_pairs: int = 2000
    stores_are_cheap: bool = False
    examples: int = 8
    wrong_urls: tuple[str, ...] = (
        "hbase+thrift:///hedwig",
        "hbase+thrift://localhost:port/hedwig",
        "hbase+thrift://localhost:99999/hedwig",
        "hbase+thrift://localhost:9090",
        "hbase+thrift://localhost:9090/",
        "hbase+thrift://localhost:9090/two/levels",
        "hbase+thrift://localhost:9090/not:a:namespace",
        "hbase+thrift://localhost:9090/hedwig?sync=off",
    )

    def subject(self, surroundings: Surroundings) -> Subject:
        address, reader = (surroundings.servers.address(name) for name in ("thrift2", "thrift1"))
        namespace = f"t{uuid.uuid4().hex}"
        return HBaseSubject(f"hbase+thrift://{address}/{namespace}", lambda _: HBaseProbe(reader, namespace))

    def url_at(self, host: str, port: int) -> str | None:
        return f"hbase+thrift://{host}:{port}/hedwig"


@dataclass(frozen=True, slots=True)
class _HBaseNative:
    label: str = "hbase"
    quick_pairs: int = 2000
    stores_are_cheap: bool = False
    examples: int = 8
    wrong_urls: tuple[str, ...] = (
        "hbase:///hedwig",
        "hbase://localhost:port/hedwig",
        "hbase://localhost:2181,:1/hedwig",
        "hbase://localhost:99999/hedwig",
        "hbase://localhost:2181",
        "hbase://localhost:2181/",
        "hbase://localhost:2181/two/levels",
        "hbase://localhost:2181/not:a:namespace",
        "hbase://localhost:2181/hedwig?sync=off",
        "hbase://localhost:2181/hedwig?registry=dns",
        "hbase://localhost:2181/hedwig?durability=none",
        "hbase://localhost:2181/hedwig?znode=hbase",
        "hbase://localhost:16000/hedwig?registry=rpc&znode=/hbase",
    )

    regions: int = _FEW_REGIONS

    def subject(self, surroundings: Surroundings) -> Subject:
        running = servers_of(self, surroundings.servers)
        _, quorum = (running.address(name) for name in ("hbase", "zookeeper"))
        namespace = f"t{uuid.uuid4().hex}"
        return RoutedSubject(
            f"hbase://{quorum}/{namespace}",
            lambda _: HBaseProbe(running.address("thrift1"), namespace),
            stores_file=running.stores_file,
            regions=self.regions,
            server=running.launcher.address("regionserver"),
        )

    def url_at(self, host: str, port: int) -> str | None:
        return f"hbase://{host}:{port}/hedwig"


@dataclass(frozen=True, slots=True)
class _HBaseOnThree(_HBaseNative):
    """The native driver on three region servers, with tables of many HBase regions."""

    label: str = "hbase-on-three"
    wrong_urls: tuple[str, ...] = ()
    regions: int = 64

    def url_at(self, host: str, port: int) -> str | None:
        return None


def servers_of(row: BackendRow, servers: RunningServers) -> RunningServers:
    """Return the servers of a run on which a backend's stores are."""
    return servers.on_three if isinstance(row, _HBaseOnThree) else servers


def as_parameters(rows: Iterable[BackendRow]) -> list[object]:
    """Return backends as the parameters of a fixture."""
    return [pytest.param(row, id=row.label, marks=marks_of(row)) for row in rows]


def marks_of(row: BackendRow) -> list[pytest.MarkDecorator]:
    """Return the marks of tests over a backend. A backend that differs from another only in size is for long runs."""
    return [pytest.mark.full] if isinstance(row, _HBaseOnThree) else []


BACKENDS: Final[tuple[BackendRow, ...]] = (
    _SqliteFile(),
    _SqliteMemory(),
    # Gathering works the same in front of any backend, so the suite runs with it in front of the cheapest one.
    _SqliteMemory(label="gathering", examples=30, gather=True),
    _Model(),
    _ZooKeeper(),
    _HBaseThrift(),
    _HBaseNative(),
    _HBaseOnThree(),
)
"""Every backend that the suite runs over."""

KEPT_BACKENDS: Final = tuple(row for row in BACKENDS if not isinstance(row, _SqliteMemory))
"""Those whose stores outlive the last client."""
