"""The three managers: the only door to the metadata.

The protocols define what a hub, a command or a job may ask. The classes that implement them name the operations of a
VersionedTable. Sources: Hedwig `TopicOwnershipManager`, `TopicPersistenceManager`, `SubscriptionDataManager`.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hedwig.errors import InvalidArgumentError
from hedwig.metadata.calls.change import TopicRecords
from hedwig.metadata.contract.operations import Operation, Outcome, RecordKey
from hedwig.metadata.contract.table import VersionedTable
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.versions import NEW, Version, Versioned

__all__ = [
    "Managers",
    "SubscriptionDataManager",
    "TableOwnershipManager",
    "TablePersistenceManager",
    "TableSubscriptionManager",
    "TopicOwnershipManager",
    "TopicPersistenceManager",
]

R = TypeVar("R")


class TopicOwnershipManager(Protocol):
    """Which hub is responsible for a topic."""

    async def read(self, topic: Topic) -> Versioned[HubInfo] | None:
        """Return the owner of `topic`, or None if it has none."""
        ...

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        """Record `hub` as responsible for `topic` if `version` is still current.

        Args: version - NEW to claim an unowned topic, else the version last read.
        Returns: the version of this write; keep it to release the topic.
        Raises: TopicOwnerInfoExistsError - NEW, but present; BadVersionError - another hub wrote first;
            NoTopicOwnerInfoError - the record is gone; UncertainStateError - sent, no answer: read before deciding;
            MetadataUnavailableError - surely not written.
        """
        ...

    async def delete(self, topic: Topic, version: Version) -> None:
        """Release `topic` if `version` is still current. Raises as `write`."""
        ...

    async def apply(self, operations: Sequence[Operation[HubInfo]]) -> list[Outcome[HubInfo]]:
        """Run all operations, in any order; return one outcome each, in the order given."""
        ...

    def topics(self, prefix: bytes | None = None, start_after: Topic | None = None) -> AsyncIterator[Topic]:
        """Iterate over the topics that have an owner, in the backend's key order, page by page."""
        ...


class TopicPersistenceManager(Protocol):
    """Which ledgers hold the messages of a topic. A topic exists while it has this record."""

    async def read(self, topic: Topic) -> Versioned[LedgerRanges] | None:
        """Return the ledger ranges of `topic`, or None if it does not exist."""
        ...

    async def write(self, topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        """Store the ledger ranges of `topic` if `version` is still current; NEW creates the topic.

        Raises: TopicPersistenceInfoExistsError, BadVersionError, NoTopicPersistenceInfoError, UncertainStateError,
            MetadataUnavailableError - each as `TopicOwnershipManager.write`.
        """
        ...

    async def delete(self, topic: Topic, version: Version) -> None:
        """Delete the record, and with it the topic, if `version` is still current."""
        ...

    async def apply(self, operations: Sequence[Operation[LedgerRanges]]) -> list[Outcome[LedgerRanges]]:
        """Run all operations, in any order; return one outcome each, in the order given."""
        ...

    def topics(self, prefix: bytes | None = None, start_after: Topic | None = None) -> AsyncIterator[Topic]:
        """Iterate over the topics that exist, in the backend's key order, page by page."""
        ...


class SubscriptionDataManager(Protocol):
    """Which subscribers a topic has, with which preferences, and how far each has consumed."""

    async def create(self, topic: Topic, subscriber: SubscriberId, data: SubscriptionData) -> Version:
        """Create a subscription. Raises SubscriptionStateExistsError if it exists; else as `update`."""
        ...

    async def update(self, topic: Topic, subscriber: SubscriberId, data: SubscriptionData, version: Version) -> Version:
        """Write the parts that are present in `data`, and leave the others, if `version` is still current.

        Raises: BadVersionError - another client wrote since; NoSubscriptionStateError - it is gone;
            UncertainStateError - sent, no answer; MetadataUnavailableError - surely not written; InvalidArgumentError -
            NEW: use `create`.
        """
        ...

    async def replace(
        self, topic: Topic, subscriber: SubscriberId, data: SubscriptionData, version: Version
    ) -> Version:
        """Write the whole record if `version` is still current. Parts that are absent in `data` are removed."""
        ...

    async def delete(self, topic: Topic, subscriber: SubscriberId, version: Version) -> None:
        """Delete a subscription if `version` is still current."""
        ...

    def of(self, subscriber: SubscriberId) -> TopicRecords[SubscriptionData]:
        """Return the subscriptions of one subscriber, for `change`. A write there is a `create` or an `update`."""
        ...

    async def read(self, topic: Topic, subscriber: SubscriberId) -> Versioned[SubscriptionData] | None:
        """Return one subscription, or None."""
        ...

    def read_subscriptions(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[SubscriptionData]]]:
        """Iterate over the subscriptions of `topic`, page by page; nothing if there are none."""
        ...

    async def count_subscriptions(self, topic: Topic) -> int:
        """Return how many subscriptions `topic` has, including unreadable ones, without reading their data.

        SQLite counts rows, and ZooKeeper knows how many children a node has. HBase has no such count, so the version of
        each subscription is read.

        Raises: MetadataUnavailableError - the store does not answer.
        """
        ...

    @property
    def is_partial_update_supported(self) -> bool:
        """Say whether an update leaves the stored bytes of the other part unchanged. Information only."""
        ...

    async def apply(self, operations: Sequence[Operation[SubscriptionData]]) -> list[Outcome[SubscriptionData]]:
        """Run all operations, in any order; return one outcome each, in the order given."""
        ...

    def topics(self, prefix: bytes | None = None, start_after: Topic | None = None) -> AsyncIterator[Topic]:
        """Iterate over the topics that have a subscription, in the backend's key order, page by page."""
        ...


@dataclass(frozen=True, slots=True)
class Managers:
    """The three managers of one store."""

    ownership: TopicOwnershipManager
    persistence: TopicPersistenceManager
    subscriptions: SubscriptionDataManager


class _TableManager(Generic[R]):
    def __init__(self, table: VersionedTable[R]) -> None:
        self._table = table

    async def apply(self, operations: Sequence[Operation[R]]) -> list[Outcome[R]]:
        return await self._table.apply(operations)

    def topics(self, prefix: bytes | None = None, start_after: Topic | None = None) -> AsyncIterator[Topic]:
        return self._table.topics(prefix, start_after)


class TableOwnershipManager(_TableManager[HubInfo]):
    """A TopicOwnershipManager over any backend's table."""

    async def read(self, topic: Topic) -> Versioned[HubInfo] | None:
        return await self._table.read(RecordKey(topic))

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        return await self._table.write(RecordKey(topic), hub, version)

    async def delete(self, topic: Topic, version: Version) -> None:
        await self._table.delete(RecordKey(topic), version)


class TablePersistenceManager(_TableManager[LedgerRanges]):
    """A TopicPersistenceManager over any backend's table."""

    async def read(self, topic: Topic) -> Versioned[LedgerRanges] | None:
        return await self._table.read(RecordKey(topic))

    async def write(self, topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        return await self._table.write(RecordKey(topic), ranges, version)

    async def delete(self, topic: Topic, version: Version) -> None:
        await self._table.delete(RecordKey(topic), version)


class TableSubscriptionManager(_TableManager[SubscriptionData]):
    """A SubscriptionDataManager over any backend's table."""

    def __init__(self, table: VersionedTable[SubscriptionData], *, partial_update: bool) -> None:
        super().__init__(table)
        self._partial_update = partial_update

    @property
    def is_partial_update_supported(self) -> bool:
        return self._partial_update

    async def create(self, topic: Topic, subscriber: SubscriberId, data: SubscriptionData) -> Version:
        return await self._table.write(RecordKey(topic, subscriber), data, NEW)

    async def update(self, topic: Topic, subscriber: SubscriberId, data: SubscriptionData, version: Version) -> Version:
        return await self._table.write(_existing(topic, subscriber, version), data, version, merge=True)

    async def replace(
        self, topic: Topic, subscriber: SubscriberId, data: SubscriptionData, version: Version
    ) -> Version:
        return await self._table.write(_existing(topic, subscriber, version), data, version)

    async def delete(self, topic: Topic, subscriber: SubscriberId, version: Version) -> None:
        await self._table.delete(RecordKey(topic, subscriber), version)

    def of(self, subscriber: SubscriberId) -> TopicRecords[SubscriptionData]:
        return _OfSubscriber(self, subscriber)

    async def read(self, topic: Topic, subscriber: SubscriberId) -> Versioned[SubscriptionData] | None:
        return await self._table.read(RecordKey(topic, subscriber))

    def read_subscriptions(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[SubscriptionData]]]:
        return self._table.scan(topic)

    async def count_subscriptions(self, topic: Topic) -> int:
        return await self._table.count_of(topic)


@dataclass(frozen=True, slots=True)
class _OfSubscriber:
    manager: TableSubscriptionManager
    subscriber: SubscriberId

    async def read(self, topic: Topic) -> Versioned[SubscriptionData] | None:
        return await self.manager.read(topic, self.subscriber)

    async def write(self, topic: Topic, data: SubscriptionData, version: Version) -> Version:
        if version == NEW:
            return await self.manager.create(topic, self.subscriber, data)
        return await self.manager.update(topic, self.subscriber, data, version)

    async def delete(self, topic: Topic, version: Version) -> None:
        await self.manager.delete(topic, self.subscriber, version)


def _existing(topic: Topic, subscriber: SubscriberId, version: Version) -> RecordKey:
    if version == NEW:
        raise InvalidArgumentError("an update or replacement takes a version or ANY; `create` creates")
    return RecordKey(topic, subscriber)
