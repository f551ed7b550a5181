"""Places: where a test keeps a store, and how it reaches it, one row for each backend.

To hold another backend to the suite, add a class and a row to `BACKENDS`.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from metadata import MetadataStore, MetadataUrl, StoreOptions, format_metadata, open_metadata
from metadata.hbase import HBaseFactory
from metadata.hbase.native import connect
from metadata.hbase.native.places import Server
from tests.metadata.probe import Probe
from tests.metadata.probe_hbase import HBaseProbe
from tests.metadata.probe_sqlite import SqliteProbe, run_in_file, run_in_memory
from tests.metadata.probe_zookeeper import ZooKeeperProbe
from tests.servers import RunningServers

__all__ = ["BACKENDS", "KEPT_BACKENDS", "BackendRow", "Place", "RoutedPlace", "Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What places are made of: the servers of the run, and a directory."""

    servers: RunningServers
    directory: Path


@dataclass(frozen=True, slots=True)
class Place:
    """One store, which nobody else uses.

    `url` opens it; `kept` says whether it outlives the last client; `probe` looks at it past the code under test, and
    takes an open store because a database in memory has no other door; `gather` opens it with that option.
    """

    url: str
    probe: Callable[[MetadataStore | None], Probe]
    kept: bool = True
    gather: bool = False

    async def format(self, options: StoreOptions | None = None, *, wipe: bool = False) -> None:
        """Lay the store out."""
        await format_metadata(self.url, _few_regions(options), wipe=wipe)

    async def open(self, options: StoreOptions | None = None) -> MetadataStore:
        """Open the store."""
        return await open_metadata(self.url, replace(_few_regions(options), gather=self.gather))


@dataclass(frozen=True, slots=True)
class RoutedPlace(Place):
    """A place on an HBase whose region server, at `server`, clients of `open` reach at `route` if that is given."""

    server: str = ""
    route: str = ""

    async def open(self, options: StoreOptions | None = None) -> MetadataStore:
        if not self.route:
            return await Place.open(self, options)
        chosen, url = _few_regions(options), MetadataUrl.parse(self.url)
        factory = HBaseFactory(lambda url, options: connect(url, options, self._reach))
        return MetadataStore(url, await factory.open(url, chosen), chosen)

    def _reach(self, server: Server) -> Server:
        # The server calls itself by the name of this machine, so only the port tells it from others.
        if server.port != int(self.server.rpartition(":")[2]):
            return server
        host, _, port = self.route.rpartition(":")
        return Server(host, int(port))


class BackendRow(Protocol):
    """A backend under test."""

    @property
    def quick_pairs(self) -> int:
        """Say of how many quick pairs of a deletion and a creation none may vanish."""

    @property
    def label(self) -> str:
        """Name the backend in a test's id."""

    @property
    def places_are_cheap(self) -> bool:
        """Say whether every test can have a place of its own."""

    @property
    def examples(self) -> int:
        """Say how many examples a search among sequences of operations may take."""

    @property
    def wrong_urls(self) -> tuple[str, ...]:
        """Name URLs that can never work."""

    def place(self, surroundings: Surroundings) -> Place:
        """Choose a place for one store, and lay nothing out there."""

    def url_at(self, host: str, port: int) -> str | None:
        """Return a URL with another server's address; None if the backend needs no server."""


@dataclass(frozen=True, slots=True)
class _SqliteFile:
    label: str = "sqlite"
    quick_pairs: int = 500
    places_are_cheap: bool = True
    examples: int = 60
    wrong_urls: tuple[str, ...] = (
        "sqlite://host/path/to/file",
        "sqlite:///no/such/directory/at/all/file",
        "sqlite:///no/such/directory/file?sync=off",
        "sqlite:///no/such/directory/file?create=maybe",
    )

    def place(self, surroundings: Surroundings) -> Place:
        path = surroundings.directory / f"{uuid.uuid4().hex}.db"
        return Place(f"sqlite://{path}?create=false", lambda _: SqliteProbe(run_in_file(str(path))))

    def url_at(self, host: str, port: int) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class _SqliteMemory:
    label: str = "memory"
    quick_pairs: int = 500
    places_are_cheap: bool = True
    examples: int = 60
    wrong_urls: tuple[str, ...] = ("sqlite://?sync=off",)

    gather: bool = False

    def place(self, surroundings: Surroundings) -> Place:
        return Place("sqlite://", _probe_memory, kept=False, gather=self.gather)

    def url_at(self, host: str, port: int) -> str | None:
        return None


def _probe_memory(store: MetadataStore | None) -> Probe:
    assert store is not None, "a database in memory can be looked at through an open store only"
    return SqliteProbe(run_in_memory(store))


@dataclass(frozen=True, slots=True)
class _ZooKeeper:
    label: str = "zookeeper"
    quick_pairs: int = 500
    places_are_cheap: bool = True
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

    def place(self, surroundings: Surroundings) -> Place:
        address = surroundings.servers.address("zookeeper")
        root = f"/hedwig/{uuid.uuid4().hex}"
        return Place(f"zookeeper://{address}{root}", lambda _: ZooKeeperProbe(address, root))

    def url_at(self, host: str, port: int) -> str | None:
        return f"zookeeper://{host}:{port}/hedwig/standalone"


@dataclass(frozen=True, slots=True)
class _HBaseThrift:
    label: str = "hbase+thrift"
    quick_pairs: int = 2000
    places_are_cheap: bool = False
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

    def place(self, surroundings: Surroundings) -> Place:
        address, reader = (surroundings.servers.address(name) for name in ("thrift2", "thrift1"))
        namespace = f"t{uuid.uuid4().hex}"
        return Place(f"hbase+thrift://{address}/{namespace}", lambda _: HBaseProbe(reader, namespace))

    def url_at(self, host: str, port: int) -> str | None:
        return f"hbase+thrift://{host}:{port}/hedwig"


@dataclass(frozen=True, slots=True)
class _HBaseNative:
    label: str = "hbase"
    quick_pairs: int = 2000
    places_are_cheap: bool = False
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
        "hbase://localhost:2181/hedwig?znode=hbase",
        "hbase://localhost:16000/hedwig?registry=rpc&znode=/hbase",
    )

    def place(self, surroundings: Surroundings) -> Place:
        _, quorum, reader = (surroundings.servers.address(name) for name in ("hbase", "zookeeper", "thrift1"))
        namespace = f"t{uuid.uuid4().hex}"
        server = surroundings.servers.launcher.address("regionserver")
        return RoutedPlace(f"hbase://{quorum}/{namespace}", lambda _: HBaseProbe(reader, namespace), server=server)

    def url_at(self, host: str, port: int) -> str | None:
        return f"hbase://{host}:{port}/hedwig"


_REGIONS: Final = 3

BACKENDS: Final[tuple[BackendRow, ...]] = (
    _SqliteFile(),
    _SqliteMemory(),
    # Gathering stands in front of any backend alike, so it is held to the suite in front of the cheapest.
    _SqliteMemory(label="gathering", gather=True),
    _ZooKeeper(),
    _HBaseThrift(),
    _HBaseNative(),
)
"""Every backend that the suite runs over."""

KEPT_BACKENDS: Final = tuple(row for row in BACKENDS if not isinstance(row, _SqliteMemory))
"""Those whose stores outlive the last client."""


def _few_regions(options: StoreOptions | None) -> StoreOptions:
    """Return the options with few HBase regions: a test run makes many tables on one small server."""
    return replace(options or StoreOptions(), regions=_REGIONS)
