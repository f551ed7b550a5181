"""A metadata store with known delays, stalls and failures, and true compare-and-set, in memory."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import Operation, Outcome, RecordKey
from hedwig.metadata.contract.table import carry_out_all
from hedwig.metadata.managers import TableOwnershipManager, TablePersistenceManager, TableSubscriptionManager
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.versions import NEW, Version, Versioned

__all__ = ["KnownStore"]

R = TypeVar("R")


class KnownStore:
    """Answers reads after `read_s`, writes and deletes after `write_s`; an answer due in a stall, at its end.

    stalls: (from, to) in seconds since the store was made. fails: returns whether an operation on a record fails.
    """

    def __init__(
        self,
        read_s: float,
        write_s: float,
        *,
        stalls: Sequence[tuple[float, float]] = (),
        fails: Callable[[RecordKey], bool] = lambda _: False,
    ) -> None:
        self.delays = _Delays(stalls, fails)
        self.owners = _KnownTable[HubInfo](OWNERSHIP, read_s, write_s, self.delays)
        self.ranges = _KnownTable[LedgerRanges](PERSISTENCE, read_s, write_s, self.delays)
        self.subscribers = _KnownTable[SubscriptionData](SUBSCRIPTIONS, read_s, write_s, self.delays)
        self.ownership = TableOwnershipManager(self.owners)
        self.persistence = TablePersistenceManager(self.ranges)
        self.subscriptions = TableSubscriptionManager(self.subscribers, partial_update=True)


class _Delays:
    def __init__(self, stalls: Sequence[tuple[float, float]], fails: Callable[[RecordKey], bool]) -> None:
        self._stalls = stalls
        self.fails = fails
        self.began: float | None = None
        """Stalls are counted from here."""

    async def wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        for begin, end in self._stalls if self.began is not None else ():
            if self.began is not None and begin <= until - self.began < end:
                until = self.began + end
        await asyncio.sleep(until - loop.time())


class _KnownTable(Generic[R]):
    """A VersionedTable. A write takes effect at its end."""

    def __init__(self, kind: RecordKind[R], read_s: float, write_s: float, delays: _Delays) -> None:
        self._kind = kind
        self._read_s = read_s
        self._write_s = write_s
        self._delays = delays
        self.held: dict[RecordKey, Versioned[R]] = {}
        self.writes = 0
        self._last = 0

    async def read(self, key: RecordKey, deadline: Deadline | None = None) -> Versioned[R] | None:
        del deadline  # The read is over soon.
        await self._wait(key, self._read_s)
        return self.held.get(key)

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        del merge, deadline
        await self._wait(key, self._write_s)
        current = self.held.get(key)
        if current is not None and (version == NEW or current.version != version):
            raise self._kind.exists_error("it is at another version", current)
        if current is None and version != NEW:
            raise self._kind.missing_error("it is gone")
        self._last += 1
        self.writes += 1
        self.held[key] = Versioned(record, Version(f"v{self._last}".encode()))
        return self.held[key].version

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        del deadline
        await self._wait(key, self._write_s)
        current = self.held.get(key)
        if current is None:
            raise self._kind.missing_error("it is gone")
        if current.version != version:
            raise self._kind.exists_error("it is at another version", current)
        del self.held[key]

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        return await carry_out_all(self, operations, deadline)

    async def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        await self._wait(RecordKey(topic), self._read_s)
        for key, stored in list(self.held.items()):
            if key.topic == topic and key.subscriber is not None:
                yield key.subscriber, stored

    async def count_of(self, topic: Topic) -> int:
        return len([each async for each in self.scan(topic)])

    async def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        assert prefix is None
        await asyncio.sleep(self._read_s)
        for topic in sorted({key.topic for key in self.held}):
            if start_after is None or topic > start_after:
                yield topic

    def records(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Any]:
        raise AssertionError("no workload scans")

    async def key_ranges(self, parts: int, prefix: bytes | None, rows_min: int) -> list[KeyRange]:
        raise AssertionError("no workload scans")

    def range_records(self, keys: KeyRange) -> AsyncGenerator[Any, None]:
        raise AssertionError("no workload scans")

    async def count(self) -> int:
        return len(self.held)

    async def _wait(self, key: RecordKey, seconds: float) -> None:
        await self._delays.wait(seconds)
        if self._delays.fails(key):
            raise MetadataUnavailableError("it is broken")
