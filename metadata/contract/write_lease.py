"""The lease under which a process writes. Once it has run out, no write begins, and no lost write is repeated.

A hub that has lost a topic to another hub may not know it yet. Compare-and-set stops only its writes to records that
were changed since. So a write checks the lease after all waiting here, at the moment it begins. Each attempt of it must
be sent and answered before the lease, as known then, runs out.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias, TypeVar

from hedwig.clock import Clock, Deadline
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.contract.operations import Operation, Outcome, Read, RecordKey
from hedwig.metadata.contract.table import TableOver, VersionedTable
from hedwig.metadata.contract.write_gate import reads_only
from hedwig.versions import Version

__all__ = ["LeasedTable", "WriteLease", "check_lease", "within_lease"]

R = TypeVar("R")

WriteLease: TypeAlias = Callable[[], float]
"""Returns for how many seconds from now writes may be sent, as far as known now: infinity if there is no limit.

Once it has returned 0, it returns 0 for good.
"""

_NO_LEASE: Final = "this process cannot prove any more that it may write"

# LeasedTable sets it for each write. The attempts below read it, in the same task or in one created there.
_lease: ContextVar[WriteLease | None] = ContextVar("the lease of the write under way", default=None)


def check_lease() -> None:
    """Raise MetadataUnavailableError if the write under way may not be attempted any more."""
    if (lease := _lease.get()) is not None:
        _check(lease)


def within_lease(clock: Clock, deadline: Deadline) -> Deadline:
    """Return the deadline by which an attempt of the write under way must be answered: `deadline` at the latest."""
    lease = _lease.get()
    left_s = math.inf if lease is None else lease()
    return deadline if left_s >= deadline.remaining_s() else Deadline.after(clock, left_s)


def _check(lease: WriteLease) -> None:
    if lease() <= 0:
        raise MetadataUnavailableError(_NO_LEASE)


@contextmanager
def _writing(lease: WriteLease) -> Iterator[None]:
    """Begin a write under `lease`. Raises MetadataUnavailableError - the lease has run out, and nothing was sent."""
    _check(lease)
    token = _lease.set(lease)
    try:
        yield
    finally:
        _lease.reset(token)


class LeasedTable(TableOver[R]):
    """A VersionedTable over another. Its writes begin and are repeated only under a lease; reads need none.

    Tables above it may let operations wait. The table below sends them, and waits at most as long as the lease.
    """

    def __init__(self, table: VersionedTable[R], lease: WriteLease) -> None:
        super().__init__(table)
        self._lease = lease

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        with _writing(self._lease):
            return await self._table.write(key, record, version, merge=merge, deadline=deadline)

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        with _writing(self._lease):
            await self._table.delete(key, version, deadline)

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        if all(isinstance(operation, Read) for operation in operations):
            return await self._table.apply(operations, deadline)
        try:
            _check(self._lease)
        except MetadataUnavailableError as exc:
            return await reads_only(self._table, operations, exc, deadline)
        with _writing(self._lease):
            return await self._table.apply(operations, deadline)
