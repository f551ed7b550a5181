"""Actions: requests about one row, sent alone or in a batch with others.

The code encodes their requests by hand, field by field, from the numbers in hbase.proto. Tests check the two for
agreement.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from hedwig.errors import MetadataError
from hedwig.metadata.hbase.driver import Row
from hedwig.metadata.hbase.durability import Durability
from hedwig.metadata.hbase.native.hbase_pb2 import GetResponse, MutateResponse, RegionActionResult
from hedwig.metadata.hbase.native.scanning import row_of
from hedwig.metadata.hbase.native.wire.codec import delimited, varint
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Region
from hedwig.outcomes import OutcomeUnknownError

__all__ = ["Action", "Change", "Look", "condition", "delete_of", "get_of", "put_of", "stated"]

_FILTERS: Final = "org.apache.hadoop.hbase.filter."
_EQUALS: Final = delimited(b"\x0a", (_FILTERS + "BinaryComparator").encode())
_ABSENT: Final = delimited(b"\x2a", delimited(b"\x0a", (_FILTERS + "NullComparator").encode()) + b"\x12\x00")
_EQUAL: Final = b"\x20\x02"
_PUT: Final = b"\x10\x02"
_DELETE: Final = b"\x10\x03"
_PROCESSED: Final = {b"\x10\x01": True, b"\x10\x00": False}
_TOO_OLD: Final = "HBase did not say whether a batched condition held; servers before 2.4.0 ignore conditions"


class Action(Protocol):
    """A request about one row, and the future of its outcome."""

    region: Region
    outcome: "asyncio.Future[Any]"
    expires_at: float
    """By the event loop's clock."""

    @property
    def method(self) -> str:
        """Return the name of the call that has only this action."""

    def request(self) -> bytes:
        """Return the request of that call."""

    def answer(self, body: bytes) -> Any:
        """Return the outcome in that call's response. Raises DecodeError - it cannot be read."""

    def part(self) -> bytes:
        """Return this action as a RegionAction of a batch."""

    def part_answer(self, result: RegionActionResult) -> Any:
        """Return the outcome in a batch's result. Raises ServerFailure - this action, or its region, failed."""


class Change:
    """A conditional put or delete of one row, in all of its families at once. Its outcome is whether it was applied.

    A put has a `mark`, a new value that it gives to `column`. It may be sent together with others (`together.py`).
    """

    __slots__ = ("column", "condition", "creates", "expires_at", "mark", "mutation", "outcome", "region", "row")

    method = "Mutate"

    def __init__(
        self,
        region: Region,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        mutation: bytes,
        expires_at: float,
        *,
        mark: bytes | None = None,
    ) -> None:
        self.region = region
        self.row = row
        self.column = column
        self.condition = condition(row, column, expected)
        self.mutation = mutation
        self.mark = mark
        self.creates = expected is None
        self.expires_at = expires_at
        self.outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def request(self) -> bytes:
        return self.region.encoded + delimited(b"\x12", self.mutation) + delimited(b"\x1a", self.condition)

    def answer(self, body: bytes) -> bool:
        processed = _PROCESSED.get(body)
        return MutateResponse.FromString(body).processed if processed is None else processed

    def part(self) -> bytes:
        action = delimited(b"\x1a", b"\x08\x00" + delimited(b"\x12", self.mutation))
        return self.region.encoded + action + delimited(b"\x22", self.condition)

    def part_answer(self, result: RegionActionResult) -> bool:
        _check(result)
        if not result.HasField("processed"):
            raise MetadataError(_TOO_OLD)
        return result.processed


class Look:
    """A read of one row. Its outcome is the row with those of the columns that it has; None if it has none."""

    __slots__ = ("expires_at", "get", "outcome", "region")

    method = "Get"

    def __init__(self, region: Region, get: bytes, expires_at: float) -> None:
        self.region = region
        self.get = get
        self.expires_at = expires_at
        self.outcome: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()

    def request(self) -> bytes:
        return self.region.encoded + delimited(b"\x12", self.get)

    def answer(self, body: bytes) -> Row | None:
        result = GetResponse.FromString(body).result
        return row_of(result) if result.cell else None

    def part(self) -> bytes:
        action = b"\x08\x00" + delimited(b"\x1a", self.get)
        return self.region.encoded + delimited(b"\x1a", action)

    def part_answer(self, result: RegionActionResult) -> Row | None:
        _check(result)
        if not result.result_or_exception:
            raise OutcomeUnknownError("HBase answered a batch without one of its results")
        row = result.result_or_exception[0].result
        return row_of(row) if row.cell else None


def put_of(row: bytes, values: Mapping[bytes, bytes]) -> bytes:
    """Return the encoded mutation that writes `values` (column to value) to a row."""
    families: dict[bytes, bytes] = {}
    for column, value in values.items():
        family, head = _cell_head(column, len(value))
        families[family] = families.get(family, family) + head + value
    return _mutation(row, _PUT, families)


def delete_of(row: bytes, cells: Mapping[bytes, int]) -> bytes:
    """Return the encoded mutation that deletes, of each column, the version at a timestamp (ms) and older ones."""
    families: dict[bytes, bytes] = {}
    for column, at in cells.items():
        family, qualifier = _fields(column)
        cell = delimited(b"\x12", qualifier + b"\x18" + varint(at) + b"\x20\x01")
        families[family] = families.get(family, family) + cell
    return _mutation(row, _DELETE, families)


def stated(durability: Durability) -> bytes:
    """Return the field of a mutation that states its durability. It may follow the other fields."""
    return b"\x30" + varint(durability)


def get_of(row: bytes, columns: Sequence[bytes]) -> bytes:
    """Return the encoded Get of some columns of a row."""
    return delimited(b"\x0a", row) + _columns(tuple(columns))


def condition(row: bytes, column: bytes, expected: bytes | None) -> bytes:
    """Return the encoded condition that `column` holds `expected`; None: it is absent or empty."""
    if expected is None:
        return delimited(b"\x0a", row) + _compared(column) + _ABSENT
    return delimited(b"\x0a", row) + _compared(column) + _equals_head(len(expected)) + expected


def _mutation(row: bytes, kind: bytes, families: Mapping[bytes, bytes]) -> bytes:
    """Return an encoded mutation of families. Each family is its encoded name and cells."""
    cells = b"".join([delimited(b"\x1a", family) for family in families.values()])
    return delimited(b"\x0a", row) + kind + cells


# Columns and sizes are the same for every record, so the bytes around a value are encoded once.


@lru_cache(maxsize=1024)
def _cell_head(column: bytes, size: int) -> tuple[bytes, bytes]:
    """Return the name of a column's family, and the bytes before a value of `size` bytes in a put."""
    family, qualifier = _fields(column)
    head = qualifier + b"\x12" + varint(size)
    return family, b"\x12" + varint(len(head) + size) + head


@lru_cache(maxsize=256)
def _equals_head(size: int) -> bytes:
    """Return the bytes before the value of `size` bytes that a condition expects."""
    comparable = b"\x0a" + varint(size)
    comparator = b"\x0a" + varint(len(comparable) + size) + comparable
    head = _EQUALS + b"\x12" + varint(len(comparator) + size) + comparator
    return b"\x2a" + varint(len(head) + size) + head


@lru_cache(maxsize=256)
def _compared(column: bytes) -> bytes:
    """Return the fields of a condition on a column between the row and the value."""
    family, _, qualifier = column.partition(b":")
    return delimited(b"\x12", family) + delimited(b"\x1a", qualifier) + _EQUAL


@lru_cache(maxsize=256)
def _columns(names: tuple[bytes, ...]) -> bytes:
    by_family: dict[bytes, bytes] = {}
    for name in names:
        family, _, qualifier = name.partition(b":")
        by_family[family] = by_family.get(family, delimited(b"\x0a", family)) + delimited(b"\x12", qualifier)
    return b"".join([delimited(b"\x12", column) for column in by_family.values()])


@lru_cache(maxsize=256)
def _fields(column: bytes) -> tuple[bytes, bytes]:
    """Return the names of a column's family and qualifier, each as the first field of a message."""
    family, _, qualifier = column.partition(b":")
    return delimited(b"\x0a", family), delimited(b"\x0a", qualifier)


def _check(result: RegionActionResult) -> None:
    if result.HasField("exception"):
        raise ServerFailure.of_action(result.exception)
    for one in result.result_or_exception:
        if one.HasField("exception"):
            raise ServerFailure.of_action(one.exception)
