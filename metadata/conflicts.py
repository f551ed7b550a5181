"""Counting the compare-and-sets that were refused: how often somebody else was first."""

from collections.abc import Sequence
from typing import TypeVar

from hedwig.errors import BadVersionError, NoRecordError
from hedwig.versions import Version
from metadata.operations import Operation, Outcome, RecordKey
from metadata.table import TableOver, VersionedTable

__all__ = ["ConflictCountingTable"]

R = TypeVar("R")


class ConflictCountingTable(TableOver[R]):
    """A VersionedTable over another; `conflicts` is how many of its writes and deletes were refused."""

    def __init__(self, table: VersionedTable[R]) -> None:
        super().__init__(table)
        self.conflicts = 0

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
