"""Counting the compare-and-sets that were refused because another client was first."""

from collections.abc import Sequence
from typing import TypeVar

from hedwig.clock import Deadline
from hedwig.errors import BadVersionError, NoRecordError
from hedwig.metadata.contract.operations import Operation, Outcome, RecordKey
from hedwig.metadata.contract.table import TableOver, VersionedTable
from hedwig.versions import Version

__all__ = ["ConflictCountingTable", "Conflicts"]

R = TypeVar("R")


class Conflicts:
    """The number of writes and deletes refused so far."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class ConflictCountingTable(TableOver[R]):
    """A VersionedTable over another. It adds its refused writes and deletes to `conflicts`."""

    def __init__(self, table: VersionedTable[R], conflicts: Conflicts) -> None:
        super().__init__(table)
        self._conflicts = conflicts

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        try:
            return await self._table.write(key, record, version, merge=merge, deadline=deadline)
        except (BadVersionError, NoRecordError):
            self._conflicts.number += 1
            raise

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        try:
            await self._table.delete(key, version, deadline)
        except (BadVersionError, NoRecordError):
            self._conflicts.number += 1
            raise

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        outcomes = await self._table.apply(operations, deadline)
        refused = sum(isinstance(outcome.error, BadVersionError | NoRecordError) for outcome in outcomes)
        self._conflicts.number += refused
        return outcomes
