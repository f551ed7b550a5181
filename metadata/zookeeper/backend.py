"""An open store in ZooKeeper."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from hedwig.clock import Deadline
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.layout import check_layout
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.contract.scan import SCAN_ROWS, ScannedRecord
from hedwig.metadata.contract.table import VersionedTable
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.zookeeper.layout import KIND, read_layout, record_format
from hedwig.metadata.zookeeper.named_records import ZookeeperNamedRecords
from hedwig.metadata.zookeeper.reads.changes import ZookeeperChanges
from hedwig.metadata.zookeeper.reads.listing import Listing
from hedwig.metadata.zookeeper.reads.tree_scan import TreeScan
from hedwig.metadata.zookeeper.records.hub_info_text import HUB_INFO
from hedwig.metadata.zookeeper.records.paths import Paths, RecordPath, sort_key
from hedwig.metadata.zookeeper.records.records import LEDGER_RANGES, SUBSCRIPTION, Codec
from hedwig.metadata.zookeeper.server_facts import server_facts
from hedwig.metadata.zookeeper.tables import ZnodeTable
from hedwig.metadata.zookeeper.writes.delete_batches import DeleteBatches
from hedwig.metadata.zookeeper.writes.guarded_read import answer, reading
from hedwig.metadata.zookeeper.writes.mutation import TableContext
from hedwig.metadata.zookeeper.writes.tokens import Tokens
from hedwig.model import Topic
from hedwig.zookeeper import Bridge, sync

__all__ = ["PORT", "ZookeeperBackend"]

R = TypeVar("R")

PORT: Final = 2181

_RECORDS: Final = {"hub": OWNERSHIP.name, "ledgers": PERSISTENCE.name, "subscribers": SUBSCRIPTIONS.name}


class ZookeeperBackend:
    """The tables of one store, over one session at a time."""

    partial_update = False
    """A subscription is one node's content, written whole."""
    gathers = False

    def __init__(self, bridge: Bridge, paths: Paths, url: MetadataUrl, options: StoreOptions) -> None:
        self._bridge = bridge
        self._paths = paths
        self._url = url
        self._endpoints = url.endpoints(PORT)
        self._options = options
        self.named_records = ZookeeperNamedRecords(bridge, paths, options)
        self._tokens = Tokens(options.random)
        self._deletes = DeleteBatches(bridge, self._tokens)
        self._listing = Listing(bridge, paths, options, _RECORDS)
        self._contexts: Mapping[str, TableContext[Any]] = {
            "hub": self._context(OWNERSHIP, HUB_INFO),
            "ledgers": self._context(PERSISTENCE, LEDGER_RANGES),
            "subscribers": self._context(SUBSCRIPTIONS, SUBSCRIPTION),
        }
        path_of = {"hub": self._owner_path, "ledgers": self._ranges_path, "subscribers": paths.subscription}
        self._tables: dict[str, ZnodeTable[Any]] = {
            context.kind.name: ZnodeTable(context, path_of[name], name) for name, context in self._contexts.items()
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

    async def catch_up(self) -> None:
        async def attempt(deadline: Deadline) -> None:
            (caught_up,) = await self._bridge.send(deadline, sync(self._paths.prefix))
            answer(caught_up)

        await reading(self._options, "catching up with the leader", attempt)

    def scan_topics(
        self, kinds: Sequence[RecordKind[Any]], prefix: bytes | None, start_after: Topic | None
    ) -> AsyncGenerator[list[ScannedRecord], None]:
        contexts = {name: context for name, context in self._contexts.items() if context.kind in kinds}
        listing = Listing(self._bridge, self._paths, self._options, contexts)
        return TreeScan(contexts, listing).pages(prefix, start_after, SCAN_ROWS)

    def changes(self, kinds: Sequence[RecordKind[Any]]) -> ZookeeperChanges:
        return ZookeeperChanges(kinds, self._bridge, self._paths, self._options)

    async def describe(self) -> Mapping[str, str]:
        hosts = ",".join(f"{host}:{port}" for host, port in self._endpoints)
        layout = await read_layout(self._bridge, self._paths, self._options)
        layout = check_layout(layout, kind=KIND, url=self._url.text)
        return {
            "backend": KIND,
            "format": f"{layout.major}.{layout.minor}",
            "hosts": hosts,
            "prefix": self._paths.prefix,
            **await server_facts(self._endpoints, self._options),
        }

    async def set_format(self, major: int, *, unless: str | None = None) -> bool:
        return await record_format(self._bridge, self._paths, self._options, self._url.text, major, unless)

    async def sweep(self, older_than_s: float, *, dry_run: bool) -> int:
        """Remove nothing: the empty parents that deletes leave hold the guards of versions that callers still have."""
        del older_than_s, dry_run
        return 0

    async def close(self) -> None:
        await self._bridge.close()
        await self._deletes.close()

    def _context(self, kind: RecordKind[R], codec: Codec[R]) -> TableContext[R]:
        return TableContext(self._bridge, self._deletes, self._paths, self._options, self._tokens, kind, codec)

    def _owner_path(self, key: RecordKey) -> RecordPath:
        return self._paths.topic_record(key.topic, "hub")

    def _ranges_path(self, key: RecordKey) -> RecordPath:
        return self._paths.topic_record(key.topic, "ledgers")
