"""Actions: what can be asked of one row, alone or in a batch with others.

Their requests are put together by hand, field by field, from the numbers in hbase.proto; tests hold them to it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from hedwig.errors import MetadataError
from metadata.attempts import OutcomeUnknownError
from metadata.hbase.driver import Row
from metadata.hbase.native.codec import delimited, varint
from metadata.hbase.native.failures import ServerFailure
from metadata.hbase.native.hbase_pb2 import GetResponse, MutateResponse, RegionActionResult
from metadata.hbase.native.places import Region
from metadata.hbase.native.scanning import row_of

__all__ = ["Action", "Change", "Look", "condition", "delete_of", "get_of", "put_of"]

_FILTERS: Final = "org.apache.hadoop.hbase.filter."
_BINARY: Final = delimited(b"\x0a", (_FILTERS + "BinaryComparator").encode())
_ABSENT: Final = delimited(b"\x2a", delimited(b"\x0a", (_FILTERS + "NullComparator").encode()) + b"\x12\x00")
_EQUAL: Final = b"\x20\x02"
_PUT: Final = b"\x10\x02"
_DELETE: Final = b"\x10\x03"
_SYNC_WAL: Final = b"\x30\x03"
_PROCESSED: Final = {b"\x10\x01": True, b"\x10\x00": False}
_TOO_OLD: Final = "HBase did not say whether a batched condition held; servers before 2.4.0 ignore conditions"


class Action(Protocol):
    """Something asked of one row, and the place for what comes of it."""

    region: Region
    outcome: "asyncio.Future[Any]"
    expires_at: float
    """By the event loop's clock."""

    @property
    def method(self) -> str:
        """Name the call that carries this action alone."""

    def request(self) -> bytes:
        """Return the request of that call."""

    def answer(self, body: bytes) -> Any:
        """Return what that call's response says. Raises DecodeError - it cannot be read."""

    def part(self) -> bytes:
        """Return this action as a RegionAction of a batch."""

    def part_answer(self, result: RegionActionResult) -> Any:
        """Return what a batch's result for it says. Raises ServerFailure - this action, or its region, failed."""


class Change:
    """A conditional put or delete of one row, in all of its families at once. Its outcome is whether it was done."""

    __slots__ = ("column", "condition", "expires_at", "mutation", "outcome", "region", "row")

    method = "Mutate"

    def __init__(
        self, region: Region, row: bytes, column: bytes, expected: bytes | None, mutation: bytes, expires_at: float
    ) -> None:
        self.region = region
        self.row = row
        self.column = column
        self.condition = condition(row, column, expected)
        self.mutation = mutation
        self.expires_at = expires_at
        self.outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def request(self) -> bytes:
        return b"".join(
            (
                delimited(b"\x0a", self.region.specifier),
                delimited(b"\x12", self.mutation),
                delimited(b"\x1a", self.condition),
            )
        )

    def answer(self, body: bytes) -> bool:
        processed = _PROCESSED.get(body)
        return MutateResponse.FromString(body).processed if processed is None else processed

    def part(self) -> bytes:
        return b"".join(
            (
                delimited(b"\x0a", self.region.specifier),
                delimited(b"\x1a", b"\x08\x00" + delimited(b"\x12", self.mutation)),
                delimited(b"\x22", self.condition),
            )
        )

    def part_answer(self, result: RegionActionResult) -> bool:
        _check(result)
        if not result.HasField("processed"):
            raise MetadataError(_TOO_OLD)
        return result.processed


class Look:
    """A read of one row. Its outcome is the row with those of the columns that it has, None if it has none."""

    __slots__ = ("expires_at", "get", "outcome", "region")

    method = "Get"

    def __init__(self, region: Region, get: bytes, expires_at: float) -> None:
        self.region = region
        self.get = get
        self.expires_at = expires_at
        self.outcome: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()

    def request(self) -> bytes:
        return delimited(b"\x0a", self.region.specifier) + delimited(b"\x12", self.get)

    def answer(self, body: bytes) -> Row | None:
        result = GetResponse.FromString(body).result
        return row_of(result) if result.cell else None

    def part(self) -> bytes:
        action = b"\x08\x00" + delimited(b"\x1a", self.get)
        return delimited(b"\x0a", self.region.specifier) + delimited(b"\x1a", action)

    def part_answer(self, result: RegionActionResult) -> Row | None:
        _check(result)
        if not result.result_or_exception:
            raise OutcomeUnknownError("HBase answered a batch without one of its results")
        found = result.result_or_exception[0].result
        return row_of(found) if found.cell else None


def put_of(row: bytes, values: Mapping[bytes, bytes]) -> bytes:
    """Return the encoded mutation that writes `values` (column to value) to a row."""
    return _mutation(row, _PUT, {name: delimited(b"\x12", value) for name, value in values.items()})


def delete_of(row: bytes, cells: Mapping[bytes, int]) -> bytes:
    """Return the encoded mutation that deletes of each column the version at a timestamp (ms) and older ones."""
    return _mutation(row, _DELETE, {name: b"\x18" + varint(at) + b"\x20\x01" for name, at in cells.items()})


def get_of(row: bytes, columns: Sequence[bytes]) -> bytes:
    """Return the encoded Get of some columns of a row."""
    return delimited(b"\x0a", row) + _columns(tuple(columns))


def condition(row: bytes, column: bytes, expected: bytes | None) -> bytes:
    """Return the encoded condition that `column` holds `expected`; None: it is absent or empty."""
    family, qualifier = _split(column)
    comparator = _ABSENT
    if expected is not None:
        value = delimited(b"\x12", delimited(b"\x0a", delimited(b"\x0a", expected)))
        comparator = delimited(b"\x2a", _BINARY + value)
    return b"".join(
        (delimited(b"\x0a", row), delimited(b"\x12", family), delimited(b"\x1a", qualifier), _EQUAL, comparator)
    )


def _mutation(row: bytes, kind: bytes, columns: Mapping[bytes, bytes]) -> bytes:
    by_family: dict[bytes, bytes] = {}
    for name, rest in columns.items():
        family, qualifier = _split(name)
        cell = delimited(b"\x12", delimited(b"\x0a", qualifier) + rest)
        by_family[family] = by_family.get(family, b"") + cell
    cells = [delimited(b"\x1a", delimited(b"\x0a", family) + cells) for family, cells in by_family.items()]
    return b"".join((delimited(b"\x0a", row), kind, *cells, _SYNC_WAL))


@lru_cache(maxsize=256)
def _columns(names: tuple[bytes, ...]) -> bytes:
    by_family: dict[bytes, list[bytes]] = {}
    for name in names:
        family, qualifier = _split(name)
        by_family.setdefault(family, []).append(delimited(b"\x12", qualifier))
    return b"".join(
        delimited(b"\x12", delimited(b"\x0a", family) + b"".join(qualifiers))
        for family, qualifiers in by_family.items()
    )


@lru_cache(maxsize=256)
def _split(column: bytes) -> tuple[bytes, bytes]:
    family, _, qualifier = column.partition(b":")
    return family, qualifier


def _check(result: RegionActionResult) -> None:
    if result.HasField("exception"):
        raise ServerFailure.of_action(result.exception)
    for one in result.result_or_exception:
        if one.HasField("exception"):
            raise ServerFailure.of_action(one.exception)
