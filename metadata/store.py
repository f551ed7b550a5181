"""A metadata store: the three managers over one backend, chosen by URL."""

import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from importlib.metadata import entry_points
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from hedwig.errors import ConfigurationError, CorruptRecordError, InvalidArgumentError
from hedwig.extras import needed
from hedwig.metadata.calls.conflicts import ConflictCountingTable, Conflicts
from hedwig.metadata.calls.gathering import GatheringTable
from hedwig.metadata.calls.indexed_table import IndexedTable
from hedwig.metadata.contract.backend import (
    Backend,
    BackendFactory,
    CatchesUp,
    Estimate,
    Estimates,
    IndexState,
    KeepsSubscriberIndex,
    ListsBySubscriber,
    StoreOptions,
)
from hedwig.metadata.contract.changes import Changes, TracksChanges
from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.kinds import (
    BY_SUBSCRIBER,
    KINDS,
    OWNERSHIP,
    PERSISTENCE,
    SUBSCRIPTIONS,
    RecordKind,
    kind_named,
)
from hedwig.metadata.contract.layout import FORMAT_MAJOR, LOGS_PREFIX, Layout
from hedwig.metadata.contract.named_records import NamedRecords
from hedwig.metadata.contract.operations import Outcome, Read, RecordKey
from hedwig.metadata.contract.packed import PackedPage, ScansPacked
from hedwig.metadata.contract.scan import ScannedRecord, ScansTopics, merge_records
from hedwig.metadata.contract.table import VersionedTable
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.contract.write_gate import GatedTable, WriteGate
from hedwig.metadata.contract.write_lease import LeasedTable, WriteLease
from hedwig.metadata.freezing import read_freeze
from hedwig.metadata.managers import (
    Managers,
    SubscriptionDataManager,
    TableOwnershipManager,
    TablePersistenceManager,
    TableSubscriptionManager,
    TopicOwnershipManager,
    TopicPersistenceManager,
)
from hedwig.metadata.standalone import StandaloneHub, read_standalone, register_standalone
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.versions import Version

__all__ = ["MetadataStore", "backend_schemes", "factory_of", "format_metadata", "open_metadata", "read_layout"]

R = TypeVar("R")

_BUILT_IN: Final = {
    "sqlite": ("hedwig.metadata.sqlite", "metadata"),
    "zookeeper": ("hedwig.metadata.zookeeper", "zookeeper"),
    "hbase": ("hedwig.metadata.hbase.native", "metadata"),
    "hbase+thrift": ("hedwig.metadata.hbase.thrift2", "thrift"),
}
"""URL scheme to (module that holds `FACTORY`, extra that installs its client library)."""

_TOMBSTONE_AGE_S: Final = 3600.0


class MetadataStore:
    """An open store. Use it as an async context manager, or close it."""

    ownership: TopicOwnershipManager
    persistence: TopicPersistenceManager
    subscriptions: SubscriptionDataManager

    def __init__(self, url: MetadataUrl, backend: Backend, options: StoreOptions) -> None:
        self.url = url
        self._backend = backend
        self._options = options
        self._conflicts = Conflicts()
        managers = self._managers(None)
        self.ownership, self.persistence = managers.ownership, managers.persistence
        self.subscriptions = managers.subscriptions

    def leased(self, lease: WriteLease) -> Managers:
        """Return managers that begin and repeat writes only while `lease` has time left.

        Afterwards they refuse writes with MetadataUnavailableError, or UncertainStateError if an attempt was lost
        before.
        """
        return self._managers(lease)

    def _managers(self, lease: WriteLease | None) -> Managers:
        partial_update = self._backend.partial_update
        return Managers(
            TableOwnershipManager(self._table(OWNERSHIP, lease)),
            TablePersistenceManager(self._table(PERSISTENCE, lease)),
            TableSubscriptionManager(self._subscriptions(lease), partial_update=partial_update),
        )

    def _subscriptions(self, lease: WriteLease | None) -> VersionedTable[SubscriptionData]:
        table = self._table(SUBSCRIPTIONS, lease)
        if self.index_state in (None, IndexState.OFF):
            return table
        return IndexedTable(table, self._table(BY_SUBSCRIBER, lease), self._options)

    def _table(self, kind: RecordKind[R], lease: WriteLease | None) -> VersionedTable[R]:
        table = self._backend.table(kind)
        if lease is not None:
            # Innermost, so that the lease is checked after all waiting, when the write begins.
            table = LeasedTable(table, lease)
        if self._options.gate is not None:
            # Below gathering, so that the gate sees the writes that are really sent. They outlive a cancelled caller.
            table = GatedTable(table, self._options.gate)
        if not self._options.gather:
            return table
        gathering = table if self._backend.gathers else GatheringTable(kind, table, self._options)
        return ConflictCountingTable(gathering, self._conflicts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection and end every thread. May be called twice."""
        await self._backend.close()

    async def topics(self, prefix: bytes | None = None, start_after: Topic | None = None) -> AsyncIterator[Topic]:
        """Iterate over every topic that any manager has a record of, each once, in the backend's key order."""
        async with aclosing(self._backend.topics(prefix, start_after)) as topics:
            async for topic in topics:
                yield topic

    async def has_topic(self, topic: Topic) -> bool:
        """Say whether any manager has a record of `topic`, as of this call. A topic with ledger ranges costs one read.

        Raises: MetadataError - the store cannot say.
        """
        # A topic whose messages are kept has ledger ranges from its first claim on. Others may have only an owner.
        if await self.persistence.read(topic) is not None:
            return True
        if isinstance(self._backend, CatchesUp):
            await self._backend.catch_up()
            if await self.persistence.read(topic) is not None:
                return True
        if await self.ownership.read(topic) is not None:
            return True
        return await self.subscriptions.count_subscriptions(topic) > 0

    @property
    def index_state(self) -> IndexState | None:
        """What is known of the index of subscriptions by subscriber; None if this backend has none to keep."""
        return self._backend.index_state if isinstance(self._backend, KeepsSubscriberIndex) else None

    async def set_index_state(self, state: IndexState) -> None:
        """Record what is known of the index, and make one that is to be kept. Stores that are open do not hear of it.

        Raises: InvalidArgumentError - this backend has none to keep; MetadataUnavailableError, UncertainStateError -
            not recorded, or not known: repeat it.
        """
        await self._kept_index().set_index_state(state)

    @property
    def index_entries(self) -> VersionedTable[None]:
        """Return the entries of the index, for its repair. Raises InvalidArgumentError - this backend has none."""
        self._kept_index()
        return self._table(BY_SUBSCRIBER, None)

    def stray_entries(self, older_than_s: float) -> AsyncGenerator[list[tuple[RecordKey, Version]], None]:
        """Iterate over pages of subscriptions that do not exist but have an entry, and the versions of the entries.

        Close the iterator if you leave it early.

        Args: older_than_s - only entries written so long ago, by the clock here, that nobody is still making the
            subscription.
        Raises: InvalidArgumentError - this backend has no index to keep; MetadataUnavailableError.
        """
        return self._kept_index().stray_entries(older_than_s)

    def _kept_index(self) -> KeepsSubscriberIndex:
        if not isinstance(self._backend, KeepsSubscriberIndex):
            raise InvalidArgumentError(f"{self._title} need no index of subscribers: it is for HBase")
        return self._backend

    async def subscriptions_of(
        self, subscriber: SubscriberId, start_after: Topic | None = None, advance: Callable[[int], None] | None = None
    ) -> AsyncGenerator[list[ScannedRecord], None]:
        """Iterate over pages of the subscriptions of a subscriber, on topics after one. Close it if you leave it early.

        With an index they are in the order of the topics' bytes. Without one, this reads all subscriptions, in the
        backend's key order. `advance` receives the number that each step read.

        Raises: MetadataUnavailableError - the store does not answer.
        """
        if isinstance(self._backend, ListsBySubscriber) and self.index_state in (None, IndexState.WHOLE):
            async with aclosing(self._backend.topics_of(subscriber, start_after)) as pages:
                async for topics in pages:
                    (advance or _tell_nobody)(len(topics))
                    if page := await self._read_subscriptions(subscriber, topics):
                        yield page
            return
        async with aclosing(self.scan(start_after=start_after, kinds=(SUBSCRIPTIONS,))) as scanned:
            async for records in scanned:
                (advance or _tell_nobody)(len(records))
                if page := [record for record in records if record.key.subscriber == subscriber]:
                    yield page

    async def _read_subscriptions(self, subscriber: SubscriberId, topics: Sequence[Topic]) -> list[ScannedRecord]:
        """Return the subscriptions of a subscriber that exist on `topics`."""
        keys = [RecordKey(topic, subscriber) for topic in topics]
        outcomes = await self.subscriptions.apply([Read(key) for key in keys])
        found = []
        for key, outcome in zip(keys, outcomes, strict=True):
            if outcome.error is not None and not isinstance(outcome.error, CorruptRecordError):
                outcome.check()
            if outcome != Outcome():
                found.append(ScannedRecord(SUBSCRIPTIONS, key, outcome))
        return found

    def scan(
        self,
        prefix: bytes | None = None,
        start_after: Topic | None = None,
        *,
        kinds: Sequence[RecordKind[Any]] = KINDS,
    ) -> AsyncGenerator[list[ScannedRecord], None]:
        """Iterate over pages of all records, topic by topic in the backend's key order, and within one by KINDS.

        A page has at most SCAN_ROWS records and may end in the middle of a topic. To continue an iteration that was
        left, pass as `start_after` the topic before the last one returned. Close the iterator if you leave it early.

        Args: prefix - only topics that begin with it; start_after - only topics after this one, which need not exist;
            kinds - only records of these kinds.
        Raises: MetadataUnavailableError - the store stopped answering. An unreadable record is no error here: it is
            returned as a ScannedRecord that says so.
        """
        wanted = [kind for kind in KINDS if kind in kinds]
        if wanted and isinstance(self._backend, ScansTopics):
            return self._backend.scan_topics(wanted, prefix, start_after)
        tables = [(kind, self._backend.table(kind)) for kind in wanted]
        return merge_records(tables, self._backend.sort_key, prefix, start_after)

    async def key_ranges(
        self, kind: RecordKind[Any], parts: int, prefix: bytes | None = None, *, rows_min: int = 1
    ) -> list[KeyRange]:
        """Cut the records of `kind` into ranges that can be read side by side, also by other processes.

        HBase cuts between its regions where it can, and inside of regions that are too large. SQLite walks over its
        keys. ZooKeeper cannot read a part of a node's names, so it lists all topics here, and each range names its own.

        Args: parts - at most this number of ranges; prefix - only topics that begin with it; rows_min - about the least
            number of records in a range, as far as the backend can tell without reading all.
        Returns: at least one range; together they hold each record once. A record that is created later is in one of
            them, unless the backend had to list the topics.
        Raises: MetadataUnavailableError - the store does not answer; TooManyNamesError - ZooKeeper would return too
            many names in one reply.
        """
        if parts < 1 or rows_min < 1:
            raise InvalidArgumentError("ask for at least 1 range of at least 1 record")
        return await self._backend.table(kind).key_ranges(parts, prefix, rows_min)

    async def scan_range(self, keys: KeyRange) -> AsyncGenerator[list[ScannedRecord], None]:
        """Iterate over pages of the records in a range, as `scan`. Close the iterator if you leave it early."""
        kind = kind_named(keys.kind)
        async with aclosing(self._backend.table(kind).range_records(keys)) as pages:
            async for page in pages:
                yield [ScannedRecord(kind, key, outcome) for key, outcome in page]

    def packed_range(self, keys: KeyRange) -> AsyncGenerator[PackedPage, None] | None:
        """Iterate over pages of the records in a range as they are stored; None if this backend has another form.

        Close the iterator if you leave it early.
        """
        table = self._backend.table(kind_named(keys.kind))
        return table.packed_range(keys) if isinstance(table, ScansPacked) else None

    def changes(self, kinds: Sequence[RecordKind[Any]] = KINDS) -> Changes | None:
        """Return the feed of changed records of `kinds`; None if this backend cannot report them exactly."""
        return self._backend.changes(kinds) if isinstance(self._backend, TracksChanges) else None

    async def count(self, advance: Callable[[int], None] | None = None) -> Mapping[str, int]:
        """Return how many records each manager keeps, by the manager's name.

        SQLite knows that at once. HBase and ZooKeeper have to be read through, and `advance` is called with the number
        of records that each step counted.
        """
        return await self._backend.count(advance or _tell_nobody)

    async def estimate(self, advance: Callable[[int], None] | None = None) -> Mapping[str, Estimate]:
        """Return about how many records each manager keeps, by the manager's name.

        HBase reads at most some hundred thousand of them, and counts no more than so many exactly. The other backends
        count all, as `count`.

        Raises: MetadataUnavailableError - the store does not answer.
        """
        if isinstance(self._backend, Estimates):
            return await self._backend.estimate()
        return {name: Estimate(number, is_exact=True) for name, number in (await self.count(advance)).items()}

    @property
    def conflicts(self) -> int:
        """Return how many writes and deletes through this store were refused because others had changed the record.

        They are counted only with `gather`, that is in a process with many callers.
        """
        return self._conflicts.number

    async def sweep(self, older_than_s: float = _TOMBSTONE_AGE_S, *, dry_run: bool = False) -> int:
        """Remove what deleted records left behind; return the number of those records. Safe while hubs are running.

        With `dry_run`, only count what would be removed now.

        Raises: InvalidArgumentError - less than an hour: younger remnants may still have to stop a write on its way.
        """
        if older_than_s < _TOMBSTONE_AGE_S:
            raise InvalidArgumentError(f"a store keeps remnants of deleted records for at least {_TOMBSTONE_AGE_S:g} s")
        return await self._backend.sweep(older_than_s, dry_run=dry_run)

    async def describe(self) -> Mapping[str, Any]:
        """Return facts about the store, for people."""
        facts = dict(await self._backend.describe())
        try:
            freeze = await read_freeze(self.named_records)
        except CorruptRecordError as exc:
            facts["state"] = str(exc)
        else:
            facts["state"] = "open"
            if freeze is not None and freeze.forbids_writes:
                facts |= {"state": freeze.state.value, "target": freeze.target}
        try:
            hub = await self.standalone_hub()
        except CorruptRecordError as exc:
            facts["standalone hub"] = str(exc)
        else:
            if hub is not None:
                facts["standalone hub"] = f"{hub.hub_id} at {hub.address}, start {hub.starts}"
        return facts

    async def register_standalone(self, hub_id: str, address: str, *, replace: bool = False) -> int:
        """Register one start of the standalone hub `hub_id`, which serves at `address`.

        Args: replace - take over from another standalone hub, which must be gone for good.
        Returns: the start count, which is the hub's epoch. It is greater than that of every earlier registration of any
            hub. A wipe of the store does not reset it, and a lost answer may skip a count. Another registration may
            have followed at once: `standalone_hub` returns the latest.
        Raises: StandaloneHubExistsError - another hub is registered, and not `replace`; InvalidArgumentError - the id
            or the address is no printable text of 1 to 255 characters; CorruptRecordError - the record cannot be read;
            MetadataUnavailableError - surely not registered; UncertainStateError - sent, no answer: register again.
        """
        return await register_standalone(
            self._backend.named_records,
            self._title,
            hub_id,
            address,
            replace=replace,
            timeout_s=self._options.operation_timeout_s,
            random=self._options.random,
        )

    async def standalone_hub(self) -> StandaloneHub | None:
        """Return the standalone hub that is registered, or None.

        Raises: CorruptRecordError - the record cannot be read; MetadataUnavailableError - the store does not answer.
        """
        return await read_standalone(self._backend.named_records, self._title)

    async def set_format(self, major: int, *, unless: str | None = None) -> bool:
        """Record `major` as the format of the store; return whether this call did. It may be repeated.

        Args: unless - record nothing if a named record begins with it, or if anybody has called this, for whatever
            format, since these were listed. So whoever writes such a record first, and records a format then, has the
            last word.
        Raises: LayoutError - the layout is gone, or of a format that is not known here; MetadataUnavailableError,
            UncertainStateError - not recorded, or not everywhere, or not known: repeat it.
        """
        gate = self._options.gate
        if gate is None:
            return await self._backend.set_format(major, unless=unless)
        await gate.enter()
        with gate.under_way():
            return await self._backend.set_format(major, unless=unless)

    @property
    def named_records(self) -> NamedRecords:
        """Return the records of the store as a whole, which a wipe leaves alone."""
        return self._backend.named_records

    @property
    def write_gate(self) -> WriteGate | None:
        """Return the gate of all writes of this process; None if it has none."""
        return self._options.gate

    @property
    def _title(self) -> str:
        """Return the name of the store for errors."""
        return f"the metadata at {self.url.text}"


async def open_metadata(url: str, options: StoreOptions | None = None) -> MetadataStore:
    """Open the metadata store at `url`.

    Raises: ConfigurationError - the URL cannot work, or its extra is not installed; LayoutMissingError,
        LayoutMismatchError - the store was not formatted, or not by this backend; MetadataUnavailableError - it does
        not answer within the operation timeout.
    """
    parsed = MetadataUrl.parse(url)
    options = options or StoreOptions()
    return MetadataStore(parsed, await factory_of(parsed).open(parsed, options), options)


async def read_layout(url: str, options: StoreOptions | None = None) -> Layout | None:
    """Return the layout of the metadata store at `url`, or None if it was not formatted.

    Raises: ConfigurationError, MetadataUnavailableError - as `open_metadata`.
    """
    parsed = MetadataUrl.parse(url)
    return await factory_of(parsed).read_layout(parsed, options or StoreOptions())


async def format_metadata(url: str, options: StoreOptions | None = None, *, wipe: bool = False) -> Layout:
    """Create what is missing of the store at `url`; with `wipe`, delete all of its records first.

    A wipe keeps the registration of the standalone hub, because its start count must never repeat. It keeps the records
    of shared logs too, because their ledgers are still there. Only a wiped store without them gets the first format.

    Raises: as `open_metadata`, but for LayoutMissingError.
    """
    parsed, options = MetadataUrl.parse(url), options or StoreOptions()
    factory = factory_of(parsed)
    layout = await factory.format(parsed, options, wipe=wipe)
    if wipe and layout.major != FORMAT_MAJOR:
        async with MetadataStore(parsed, await factory.open(parsed, options), options) as store:
            if await store.set_format(FORMAT_MAJOR, unless=LOGS_PREFIX):
                return replace(layout, major=FORMAT_MAJOR)
    return layout


def _tell_nobody(_number: int) -> None:
    """Ignore the progress."""


def factory_of(url: MetadataUrl) -> BackendFactory:
    """Return the backend of a URL. Raises ConfigurationError - there is none, or its extra is not installed."""
    if url.scheme in _BUILT_IN:
        module, extra = _BUILT_IN[url.scheme]
        with needed(extra, f"{url.scheme}:// needs the package"):
            factory: BackendFactory = importlib.import_module(module).FACTORY
        return factory
    for entry in entry_points(group="hedwig.metadata", name=url.scheme):
        third_party: BackendFactory = entry.load()
        return third_party
    known = ", ".join(sorted(backend_schemes()))
    raise ConfigurationError(f"no metadata backend for {url.scheme!r} in {url.text!r}; there are {known}")


def backend_schemes() -> frozenset[str]:
    """Return the URL schemes for which there is a backend, whether or not its extra is installed."""
    return frozenset(_BUILT_IN) | entry_points(group="hedwig.metadata").names
