"""The seam between the managers and a backend: one versioned table for each kind of record.

A backend implements compare-and-set here once, and the three managers are names for it. The truth table that `write`
and `delete` follow is in docs/explanation/metadata.md and in the conformance suite:

    given version   record    write             delete
    NEW             absent    created           refused as an argument
    NEW             present   exists error      refused as an argument
    a version       the same  done              done
    a version       another   BadVersionError   BadVersionError
    a version       absent    missing error     missing error
    ANY             present   written           deleted
    ANY             absent    created           missing error

The other errors are these. MetadataUnavailableError: the store could not be asked. UncertainStateError: the outcome
could not be learned. InvalidArgumentError: nothing was sent. CorruptRecordError: stored bytes cannot be read.

Every operation on one record or one topic ends within the timeout that the backend was opened with. An operation that
has waited elsewhere before is given a deadline instead. `apply` has a millisecond more for each of its operations.
`scan` and `count_of` end within the timeout over all of their pages (see `ListingTime`). In operations on the whole
table, each request has the timeout.

Each operation may be cancelled at any await. Then the outcome of a write is unknown, and the table stays usable.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Generic, Protocol, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import HedwigError
from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.operations import Delete, Operation, Outcome, Read, RecordKey, Write
from hedwig.model import SubscriberId, Topic
from hedwig.versions import Version, Versioned

__all__ = ["TableOver", "VersionedTable", "carry_out", "carry_out_all"]

R = TypeVar("R")


class VersionedTable(Protocol[R]):
    """Records of one kind, each changed only by compare-and-set."""

    async def read(self, key: RecordKey, deadline: Deadline | None = None) -> Versioned[R] | None:
        """Return the record at `key`, or None."""
        ...

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        """Store `record` if `version` is still current; with `merge`, only its present parts."""
        ...

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        """Delete the record if `version` is still current."""
        ...

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        """Run all `operations`, in any order; return one outcome each, in the order given."""
        ...

    def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        """Iterate over the records of `topic` that have a subscriber, page by page, in the backend's order."""
        ...

    async def count_of(self, topic: Topic) -> int:
        """Return the number of records that `scan` would return, without reading their content."""
        ...

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        """Iterate over the topics that have a record here, each once, in the backend's key order, page by page.

        Each topic that exists from start to end of the iteration is returned. `start_after` need not exist.
        """
        ...

    def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        """Iterate over pages of the records of these topics, topic by topic in the order of `topics`.

        A topic's subscriptions are in the order of `scan`, and may continue on the next page. An outcome has the record
        or, if it cannot be read, its CorruptRecordError. That does not end the iteration.
        """
        ...

    async def key_ranges(self, parts: int, prefix: bytes | None, rows_min: int) -> list[KeyRange]:
        """Return 1 to `parts` ranges that together hold all records of topics that begin with `prefix`.

        They are about equal, and have about `rows_min` records at least, as far as the backend can tell without reading
        all records.
        """
        ...

    def range_records(self, keys: KeyRange) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        """Iterate over pages of the records in one range, as `records`. Close the iterator if you leave it early."""
        ...

    async def count(self) -> int:
        """Return the number of records, as cheaply as the backend can."""
        ...


class TableOver(Generic[R]):
    """A VersionedTable that passes every call on to another. Subclasses override some of them."""

    def __init__(self, table: VersionedTable[R]) -> None:
        self._table = table

    async def read(self, key: RecordKey, deadline: Deadline | None = None) -> Versioned[R] | None:
        return await self._table.read(key, deadline)

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        return await self._table.write(key, record, version, merge=merge, deadline=deadline)

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        await self._table.delete(key, version, deadline)

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        return await self._table.apply(operations, deadline)

    def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        return self._table.scan(topic)

    async def count_of(self, topic: Topic) -> int:
        return await self._table.count_of(topic)

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        return self._table.topics(prefix, start_after)

    def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        return self._table.records(prefix, start_after)

    async def key_ranges(self, parts: int, prefix: bytes | None, rows_min: int) -> list[KeyRange]:
        return await self._table.key_ranges(parts, prefix, rows_min)

    def range_records(self, keys: KeyRange) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        return self._table.range_records(keys)

    async def count(self) -> int:
        return await self._table.count()


async def carry_out_all(
    table: VersionedTable[R], operations: Sequence[Operation[R]], deadline: Deadline | None = None
) -> list[Outcome[R]]:
    """Run `operations` concurrently, one call each: the `apply` of a backend that has no batches of its own."""
    return list(await asyncio.gather(*(carry_out(table, operation, deadline) for operation in operations)))


async def carry_out(table: VersionedTable[R], operation: Operation[R], deadline: Deadline | None = None) -> Outcome[R]:
    """Run one operation; return an error that it raises as its outcome."""
    try:
        match operation:
            case Read(key):
                return Outcome(record=await table.read(key, deadline))
            case Write(key, record, version, merge):
                return Outcome(version=await table.write(key, record, version, merge=merge, deadline=deadline))
            case Delete(key, version):
                await table.delete(key, version, deadline)
                return Outcome()
    except HedwigError as exc:
        return Outcome(error=exc)
