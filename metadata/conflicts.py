"""Counting the compare-and-sets that were refused: how often somebody else was first."""

from collections.abc import AsyncIterator, Sequence
from typing import Generic, TypeVar

from hedwig.errors import BadVersionError, NoRecordError
from hedwig.model import SubscriberId, Topic
from hedwig.versions import Version, Versioned
from metadata.operations import Operation, Outcome, RecordKey
from metadata.table import VersionedTable

__all__ = ["ConflictCountingTable"]

R = TypeVar("R")


class ConflictCountingTable(Generic[R]):
    """A VersionedTable over another; `conflicts` is how many of its writes and deletes were refused."""

    def __init__(self, table: VersionedTable[R]) -> None:
        self._table = table
        self.conflicts = 0

    async def read(self, key: RecordKey) -> Versioned[R] | None:
        return await self._table.read(key)

    async def write(self, key: RecordKey, record: R, version: Version, *, merge: bool = False) -> Version:
        try:
            return await self._table.write(key, record, version, merge=merge)
        except (BadVersionError, NoRecordError):
            self.conflicts += 1
            raise

    async def delete(self, key: RecordKey, version: Version) -> None:
        try:
            await self._table.delete(key, version)
        except (BadVersionError, NoRecordError):
            self.conflicts += 1
            raise

    async def apply(self, operations: Sequence[Operation[R]]) -> list[Outcome[R]]:
        outcomes = await self._table.apply(operations)
        self.conflicts += sum(isinstance(outcome.error, BadVersionError | NoRecordError) for outcome in outcomes)
        return outcomes

    def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        return self._table.scan(topic)

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        return self._table.topics(prefix, start_after)

    def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        return self._table.records(prefix, start_after)

    async def count(self) -> int:
        return await self._table.count()
