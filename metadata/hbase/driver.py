"""The driver seam: all that an access path to HBase must offer.

A driver is get, put-if, delete-if, scan and a little administration. The tables, the codec and the rule for lost
replies stand above it, once for all drivers. Columns are named `family:qualifier`. A data call fails in one of these
ways:

    NotAppliedError       nothing happened, and another try may succeed (not connected, busy, moving)
    OutcomeUnknownError   the driver sent the call and got no answer
    LayoutMissingError    the table does not exist; the text names the command that makes it
    MetadataError         the server refuses the request for good
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from hedwig.clock import Deadline
from hedwig.metadata.calls.attempts import Refusal
from hedwig.metadata.hbase.cell_blocks import CellBlock

__all__ = [
    "LONG_AGO_MS",
    "TIME_MAX_MS",
    "Cell",
    "ConditionalPut",
    "HBaseDriver",
    "Row",
    "RowStream",
    "RowValues",
    "ScanRange",
    "TableDescription",
    "TableSpec",
]

LONG_AGO_MS: Final = 1
"""A time before every cell that a region server wrote."""

TIME_MAX_MS: Final = (1 << 63) - 1
"""The end of a range of times that has no end."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A stored value and the time in ms at which the region server wrote it."""

    value: bytes
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it was read. It has those cells of the requested columns that exist."""

    key: bytes
    cells: Mapping[bytes, Cell]

    def value(self, column: bytes) -> bytes | None:
        """Return the value of a column; None if it is absent or empty, as in HBase's own conditions."""
        cell = self.cells.get(column)
        return cell.value or None if cell is not None else None


RowValues: TypeAlias = tuple[bytes, tuple[bytes | None, ...]]
"""A row as its key and the values of the requested columns, in that order; None or empty where there is none.

Where a driver can, it makes this without looking at the names of the cells. Over millions of rows that counts.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalPut:
    """One compare-and-set of a row: if `column` holds `expected` (None: absent or empty), write all of `values`.

    `values` must give `column` a value that the row never held before. Then a late duplicate of the request cannot
    match again. `token` is unique to this write and the same in each attempt of it. `show` are the columns that a
    refusal returns.
    """

    table: str
    row: bytes
    column: bytes
    expected: bytes | None
    values: Mapping[bytes, bytes]
    token: bytes
    show: Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRange:
    """Rows from `start` (included) to `stop` (excluded) and which of their columns to read.

    The server applies four filters:

    - `marked` is a column and a letter. Only rows in which the column's value begins with the letter pass.
    - `name_prefix`, which needs `marked`, compares the bytes of the key after the four characters of the hash. The
      server may leave out rows in which these do not begin with the prefix.
    - `containing`, which needs `marked`, is a column and some bytes. The server may leave out rows in which the
      column's value does not contain them.
    - `since_ms` is a time by the region server's clock. Only cells that were written then or later pass. A row without
      such a cell in the columns does not.
    """

    start: bytes
    stop: bytes
    columns: Sequence[bytes]
    marked: tuple[bytes, bytes] | None = None
    name_prefix: bytes = b""
    containing: tuple[bytes, bytes] | None = None
    since_ms: int = 0


class RowStream(Protocol):
    """The rows of a range in key order, page by page. The server continues each page where the one before ended."""

    async def next(self, deadline: Deadline) -> CellBlock | None:
        """Return at least one of the next rows; None after the last.

        After an error no row is lost or returned twice. The next call continues behind the last row that was returned.
        """
        ...

    def close(self) -> None:
        """Release what the server keeps for the stream. May be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A table to create: its full name (`namespace:table`), its families, and the row keys between its regions."""

    name: str
    families: Sequence[bytes]
    family_attributes: Mapping[str, str]
    table_attributes: Mapping[str, str]
    split_points: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """A table as it is: its families with their attributes, and the server of each of its HBase regions."""

    name: str
    families: Mapping[str, Mapping[str, str]]
    region_servers: Sequence[str]


class HBaseDriver(Protocol):
    """An access path to one HBase cluster."""

    async def get(self, table: str, row: bytes, columns: Sequence[bytes], deadline: Deadline) -> Row | None:
        """Return the row with those of `columns` that it has, or None if it has none of them."""
        ...

    async def put_if(self, put: ConditionalPut, deadline: Deadline) -> Refusal[Row] | None:
        """Run one conditional put. Return None if it was applied, else the Refusal with the row as it is."""
        ...

    async def get_all(
        self, table: str, rows: Sequence[bytes], columns: Sequence[bytes], deadline: Deadline
    ) -> list[Row | Exception | None]:
        """Read rows at once, each as `get`. Where `get` would raise, the result is the error.

        There may be thousands of rows, so a driver lets them share calls where it can.
        """
        ...

    async def put_all(
        self, puts: Sequence[ConditionalPut], deadline: Deadline
    ) -> list[Refusal[Row] | Exception | None]:
        """Run puts at once, in no order, each as `put_if`. Where `put_if` would raise, the result is the error.

        There may be thousands of puts, so a driver lets them share calls where it can.
        """
        ...

    async def delete_if(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes,
        cells: Mapping[bytes, int],
        deadline: Deadline,
    ) -> bool:
        """Delete `cells` (column to timestamp in ms: that version and older ones) if `column` holds `expected`."""
        ...

    async def scan(self, table: str, rows: ScanRange, limit: int, deadline: Deadline) -> list[Row]:
        """Return the first `limit` rows of the range in key order; fewer only if there are no more."""
        ...

    async def scan_values(self, table: str, rows: ScanRange, limit: int, deadline: Deadline) -> list[RowValues]:
        """Return the same rows as `scan`, but only the key of each and the values of `rows.columns` in that order."""
        ...

    def stream(self, table: str, rows: ScanRange, page_rows: int) -> RowStream | None:
        """Return the rows of a range as a stream of pages, each of at most `page_rows` rows. The caller must close it.

        The rows have all cells of the column families of `rows.columns`, also of columns that are not in it.

        None means that this access path has no streams. The caller then reads with `scan_values`, page by page.
        """
        ...

    async def region_starts(self, table: str, deadline: Deadline) -> list[bytes]:
        """Return the start keys of the HBase regions of a table, in order; the first is empty."""
        ...

    async def wait_for_writes(self, table: str, column: bytes, deadline: Deadline) -> None:
        """Return once every write of `table` that a region server had begun is visible to reads, or never will be.

        `column` is one that no row has. Deleting it from a row of each HBase region changes nothing. A server answers
        the delete only once all writes of the region that were logged before are visible.
        Source: HBase, MultiVersionConcurrencyControl.completeAndWait.
        """
        ...

    async def flush_table(self, table: str, deadline: Deadline) -> None:
        """Make region servers write what they keep of a table in memory into files, and wait until they have.

        This changes nothing but how long searches by time take. In such a search a server skips old files, but reads
        all of its memory. An access path that has no such call does nothing.
        """
        ...

    async def create_namespace(self, namespace: str, deadline: Deadline) -> None:
        """Create a namespace; harmless if it exists."""
        ...

    async def create_table(self, spec: TableSpec, deadline: Deadline) -> None:
        """Create a table; harmless if it exists."""
        ...

    async def drop_table(self, table: str, deadline: Deadline) -> None:
        """Disable and delete a table; harmless if it does not exist."""
        ...

    async def table_exists(self, table: str, deadline: Deadline) -> bool:
        """Say whether a table exists."""
        ...

    async def describe_table(self, table: str, deadline: Deadline) -> TableDescription:
        """Return a table as it is."""
        ...

    async def describe(self, deadline: Deadline) -> Mapping[str, str]:
        """Return facts about the access path and the cluster, for people."""
        ...

    async def close(self) -> None:
        """End every connection and thread. May be called twice."""
        ...
