"""An open store in ZooKeeper."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, TypeVar, cast

from hedwig.model import Topic
from hedwig.zookeeper import Bridge
from metadata.backend import StoreOptions
from metadata.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from metadata.operations import RecordKey
from metadata.table import VersionedTable
from metadata.zookeeper.delete_lanes import DeleteLanes
from metadata.zookeeper.hub_info_text import HUB_INFO
from metadata.zookeeper.listing import Listing
from metadata.zookeeper.mutation import Ground
from metadata.zookeeper.named_records import ZookeeperNamedRecords
from metadata.zookeeper.names import Place, Places, sort_key
from metadata.zookeeper.records import LEDGER_RANGES, SUBSCRIPTION, Codec
from metadata.zookeeper.server_facts import server_facts
from metadata.zookeeper.tables import ZnodeTable
from metadata.zookeeper.tokens import Tokens

__all__ = ["ZookeeperBackend"]

R = TypeVar("R")

_RECORDS: Final = {"hub": OWNERSHIP.name, "ledgers": PERSISTENCE.name, "subscribers": SUBSCRIPTIONS.name}


class ZookeeperBackend:
    """The tables of one store, over one session at a time."""

    partial_update = False
    """A subscription is one node's content, written whole."""
    gathers = False

    def __init__(
        self, bridge: Bridge, places: Places, endpoints: tuple[tuple[str, int], ...], options: StoreOptions
    ) -> None:
        self._bridge = bridge
        self._places = places
        self._endpoints = endpoints
        self._options = options
        self.named_records = ZookeeperNamedRecords(bridge, places, options)
        self._tokens = Tokens(options.random)
        self._lanes = DeleteLanes(bridge, self._tokens)
        self._listing = Listing(bridge, places, options, _RECORDS)
        self._tables: dict[str, ZnodeTable[Any]] = {
            OWNERSHIP.name: ZnodeTable(self._ground(OWNERSHIP, HUB_INFO), self._owner_place, "hub"),
            PERSISTENCE.name: ZnodeTable(self._ground(PERSISTENCE, LEDGER_RANGES), self._ranges_place, "ledgers"),
            SUBSCRIPTIONS.name: ZnodeTable(
                self._ground(SUBSCRIPTIONS, SUBSCRIPTION), places.subscription, "subscribers"
            ),
        }

    def table(self, kind: RecordKind[R]) -> VersionedTable[R]:
        return cast(VersionedTable[R], self._tables[kind.name])

    def sort_key(self, topic: Topic) -> bytes:
        return sort_key(topic)

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncGenerator[Topic, None]:
        return self._listing.topics(prefix, start_after)

    async def count(self, advance: Callable[[int], None]) -> Mapping[str, int]:
        counts = await self._listing.count(advance)
        return {kind: counts[name] for name, kind in _RECORDS.items()}

    async def describe(self) -> Mapping[str, str]:
        hosts = ",".join(f"{host}:{port}" for host, port in self._endpoints)
        return {
            "backend": "zookeeper",
            "hosts": hosts,
            "prefix": self._places.prefix,
            **await server_facts(self._endpoints, self._options),
        }

    async def sweep(self, older_than_s: float) -> int:
        """Remove nothing: the empty parents that deletes leave behind hold the guards of versions that somebody has."""
        del older_than_s
        return 0

    async def close(self) -> None:
        await self._bridge.close()
        await self._lanes.close()

    def _ground(self, kind: RecordKind[R], codec: Codec[R]) -> Ground[R]:
        return Ground(self._bridge, self._lanes, self._places, self._options, self._tokens, kind, codec)

    def _owner_place(self, key: RecordKey) -> Place:
        return self._places.topic_record(key.topic, "hub")

    def _ranges_place(self, key: RecordKey) -> Place:
        return self._places.topic_record(key.topic, "ledgers")
