"""The backends that clients reach over a network, and how a proxy stands between them and a client."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hedwig.metadata import MetadataUrl
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.proxy import Plan, Proxy
from tests.faults.support.wires import ThriftWire, Wire, ZooKeeperWire
from tests.metadata.hbase.native.support.wire import WRITE, HBaseWire
from tests.metadata.support.backends import BACKENDS, BackendRow, RoutedSubject

__all__ = ["NETWORKED", "Networked"]


@dataclass(frozen=True, slots=True)
class Networked:
    """A backend over a network: its protocol, and the name of its conditional writes there.

    `decisive` gives, for each kind of write, which of its requests of that name may be applied; a kind that is absent
    sends other writes with it. `one_connection` makes a URL that asks for a single connection.
    """

    row: BackendRow
    wire: Callable[[], Wire]
    write: str
    decisive: Mapping[str, int]
    one_connection: str = ""

    @property
    def label(self) -> str:
        """Name the backend in a test's id."""
        return self.row.label

    def proxy(self, subject: Subject, plan: Plan) -> Proxy:
        """Return a proxy to the server of `subject`."""
        return Proxy(MetadataUrl.parse(subject.url).hosts, self.wire, plan, subject.stores_file)

    def behind(self, proxy: Proxy, subject: Subject) -> Subject:
        """Return `subject` as clients reach it through `proxy`."""
        return replace(subject, url=subject.url.replace(MetadataUrl.parse(subject.url).hosts, proxy.address, 1))


@dataclass(frozen=True, slots=True)
class _NetworkedHBase(Networked):
    """HBase without a gateway: the proxy stands before the region servers, whose addresses clients find elsewhere."""

    def proxy(self, subject: Subject, plan: Plan) -> Proxy:
        assert isinstance(subject, RoutedSubject), "its rows make no others"
        return Proxy(subject.server, self.wire, plan, subject.stores_file)

    def behind(self, proxy: Proxy, subject: Subject) -> Subject:
        assert isinstance(subject, RoutedSubject), "its rows make no others"
        return replace(subject, route=proxy.address)


_ROWS: Final = {row.label: row for row in BACKENDS}

NETWORKED: Final = (
    # The first creation under a topic makes the nodes above it by requests of the same name.
    Networked(_ROWS["zookeeper"], ZooKeeperWire, "multi", {"create again": 1, "update": 1, "delete": 1}),
    # A client that creates a record again first tries an empty row, and so finds the tombstone.
    Networked(
        _ROWS["hbase+thrift"],
        ThriftWire,
        "checkAndMutate",
        {"create": 1, "create again": 2, "update": 1, "delete": 1},
        "?connections=1",
    ),
    *(
        _NetworkedHBase(_ROWS[label], HBaseWire, WRITE, {"create": 1, "create again": 2, "update": 1, "delete": 1})
        for label in ("hbase", "hbase-on-three")
    ),
)
"""Every backend over a network."""
