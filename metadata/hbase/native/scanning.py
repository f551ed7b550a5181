"""Scanning one HBase region: the first call opens a scanner, and further calls continue it."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar

from hedwig.clock import Deadline
from hedwig.metadata.hbase.driver import TIME_MAX_MS, Cell, Row, RowValues, ScanRange
from hedwig.metadata.hbase.native.filters import filter_of
from hedwig.metadata.hbase.native.hbase_pb2 import Column, RegionSpecifier, Scan, ScanRequest, ScanResponse, TimeRange
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.regions import Region
from hedwig.outcomes import NotAppliedError

__all__ = ["METHOD", "REPLY_BYTES", "is_at_its_end", "let_go", "row_of", "scan_of", "scan_region", "values_of"]

T = TypeVar("T")

METHOD: Final = "Scan"
REPLY_BYTES: Final = 4 << 20
"""A server ends a reply with the row that takes it beyond this number of bytes of cells, as they are in its memory."""


def scan_of(rows: ScanRange, start: bytes, read_type: "Scan.ReadType") -> Scan:
    """Return the Scan of a range, from `start` on. A stream gets whole column families.

    If the scan names columns, the server searches files and memory after each cell for the next column, or the next
    row. This is a fifth of the time that it takes to read a table.
    """
    return Scan(
        column=_families(rows.columns) if read_type == Scan.STREAM else _columns(rows.columns),
        start_row=start,
        stop_row=rows.stop,
        filter=filter_of(rows),
        time_range=TimeRange(start=rows.since_ms, end=TIME_MAX_MS) if rows.since_ms else None,
        # A stream reads many blocks once. In the cache they would displace the blocks that other reads need.
        cache_blocks=read_type != Scan.STREAM,
        read_type=read_type,
        max_result_size=REPLY_BYTES,
    )


async def scan_region(
    connection: Connection,
    region: Region,
    scan: Scan,
    limit: int,
    deadline_of_call: Callable[[], Deadline],
    make: Callable[[Any], T],
) -> list[T]:
    """Return the first `limit` rows of a scan in one region; fewer only if the region has no more of them.

    `make` turns a Result that has cells into a row: `row_of`, or `values_of` some columns.

    A server sends fewer rows if they take too long or get too large. The next call continues after them.

    Raises: as a call of the connection, SCANNER_LOST among its failures; NotAppliedError - the server has closed the
        scanner. After either, begin again after the last known row.
    """
    request = ScanRequest(
        region=RegionSpecifier(type=RegionSpecifier.REGION_NAME, value=region.name),
        scan=scan,
        number_of_rows=limit,
        limit_of_rows=limit,
        client_handles_partials=False,
        client_handles_heartbeats=True,
    )
    rows: list[T] = []
    scanner: int | None = None
    sequence = 0
    try:
        while True:
            body = await connection.ask(METHOD, request.SerializeToString(), deadline_of_call())
            answer = ScanResponse.FromString(body)
            rows += map(make, answer.results)
            if is_at_its_end(answer) or len(rows) >= limit:
                # The server closed the scanner by itself, at the end of the region or at the limit of rows.
                scanner = None
                return rows
            scanner = answer.scanner_id if scanner is None else scanner
            request = ScanRequest(
                scanner_id=scanner,
                number_of_rows=limit - len(rows),
                limit_of_rows=limit - len(rows),
                next_call_seq=sequence,
                client_handles_partials=False,
                client_handles_heartbeats=True,
            )
            sequence += 1
    finally:
        if scanner is not None:
            let_go(connection, scanner)


def is_at_its_end(answer: ScanResponse) -> bool:
    """Say whether the scan has read all of the range in this region. The server has closed the scanner then.

    Raises: NotAppliedError - the answer does not say. Each page does, so the answer is no page. HBase answers so to a
        call for a scanner that it has closed. A caller that took it for an empty page would repeat the call for ever.
    """
    if answer.HasField("more_results") and not answer.more_results:
        return True
    if not answer.HasField("more_results_in_region"):
        raise NotAppliedError("HBase has closed the scanner")
    return not answer.more_results_in_region


def let_go(connection: Connection, scanner: int) -> None:
    """Ask the server to close a scanner early, without waiting. If the call gets lost, its lease closes it."""
    request = ScanRequest(scanner_id=scanner, number_of_rows=0, close_scanner=True).SerializeToString()
    if connection.ended is None:
        connection.send(METHOD, request, 5.0, lambda _: None)


def row_of(result: Any) -> Row:
    """Return the row in a Result that has cells."""
    cells: Sequence[Any] = result.cell
    return Row(
        cells[0].row,
        {cell.family + b":" + cell.qualifier: Cell(cell.value, cell.timestamp) for cell in cells},
    )


def values_of(columns: Sequence[bytes]) -> Callable[[Any], RowValues]:
    """Return a function that turns a Result of a scan for `columns`, at least two, into their values, in their order.

    A server sends the cells of a row in the order of family and qualifier, one for each requested column. So if all
    are present, the function need not look at their names.
    """
    names = [name.partition(b":")[::2] for name in columns]
    ordered = sorted(names)
    in_their_order = itemgetter(*(ordered.index(name) for name in names))
    number = len(columns)

    def values(result: Any) -> RowValues:
        cells = result.cell
        if len(cells) == number:
            return cells[0].row, in_their_order([cell.value for cell in cells])
        by_name = {(cell.family, cell.qualifier): cell.value for cell in cells}
        return cells[0].row, tuple(by_name.get(name) for name in names)

    return values


def _families(names: Sequence[bytes]) -> list[Column]:
    return [Column(family=family) for family in sorted({name.partition(b":")[0] for name in names})]


def _columns(names: Sequence[bytes]) -> list[Column]:
    by_family: dict[bytes, list[bytes]] = {}
    for name in names:
        family, _, qualifier = name.partition(b":")
        by_family.setdefault(family, []).append(qualifier)
    return [Column(family=family, qualifier=qualifiers) for family, qualifiers in by_family.items()]
