"""Streams: whole ranges of a table, read by one scanner in each HBase region, whose cells come in blocks.

A scanner keeps its position between two pages. With a scanner for each page, the server would open its files and find
the position anew each time. The scanner has no filter, since the server would apply it to each row. A caller that
reads a whole table wants nearly all of them.

A server may lose a scanner: its lease of a minute ran out, its region moved, or its connection ended. This costs only
one call, since the next scanner begins directly after the last row that the stream returned.

A page has at most `REPLY_BYTES` and one row, even if the caller asks for more rows.

A server may put its rows into messages all the same, or refuse a connection with cells in blocks (`links`). Its rows
are made into blocks here.
"""

from collections.abc import Callable

from google.protobuf.message import DecodeError

from hedwig.clock import Deadline
from hedwig.errors import RemoteProtocolError
from hedwig.metadata.hbase.cell_blocks import CellBlock
from hedwig.metadata.hbase.driver import ScanRange
from hedwig.metadata.hbase.keys import after
from hedwig.metadata.hbase.native.cluster.cluster import Cluster
from hedwig.metadata.hbase.native.hbase_pb2 import RegionSpecifier, Scan, ScanRequest, ScanResponse
from hedwig.metadata.hbase.native.scanning import METHOD, is_at_its_end, let_go, scan_of
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Region
from hedwig.outcomes import OutcomeUnknownError

__all__ = ["CellStream"]


class CellStream:
    """A RowStream. `deadline_of_call` returns the deadline of one call of an operation with the given deadline."""

    def __init__(
        self,
        cluster: Cluster,
        deadline_of_call: Callable[[Deadline], Deadline],
        table: str,
        rows: ScanRange,
        page_rows: int,
    ) -> None:
        self._cluster = cluster
        self._deadline_of_call = deadline_of_call
        self._table = table
        self._rows = rows
        self._page_rows = page_rows
        self._start = rows.start
        self._is_over = bool(rows.stop) and rows.start >= rows.stop
        self._scanner: _Scanner | None = None

    async def next(self, deadline: Deadline) -> CellBlock | None:
        while not self._is_over:
            if self._scanner is None:
                self._scanner = await self._opened(deadline)
            block = await self._page(self._scanner, deadline)
            if len(block):
                self._start = after(block.last_key)
            if self._scanner.is_over:
                self._leave(self._scanner.region)
            if len(block):
                return block
        return None

    def close(self) -> None:
        if self._scanner is not None:
            self._scanner.close()
            self._scanner = None

    async def _opened(self, deadline: Deadline) -> "_Scanner":
        region = await self._cluster.locate(self._table, self._start, deadline)
        connection = await self._cluster.data_connection(region.server, deadline, in_blocks=True)
        return _Scanner(connection, region, scan_of(self._rows, self._start, Scan.STREAM))

    async def _page(self, scanner: "_Scanner", deadline: Deadline) -> CellBlock:
        try:
            return await scanner.ask(self._page_rows, self._deadline_of_call(deadline))
        except ServerFailure as failure:
            self.close()
            self._cluster.failed(scanner.region, failure)
        except BaseException:
            # It is not known whether the server moved the scanner on, so the call must not be repeated.
            self.close()
            raise

    def _leave(self, region: Region) -> None:
        """Move on to the region after one that has been read."""
        self._scanner = None
        self._start = region.end
        self._is_over = not region.end or (bool(self._rows.stop) and region.end >= self._rows.stop)


class _Scanner:
    """A scanner of one region. The first call opens it."""

    def __init__(self, connection: Connection, region: Region, scan: Scan) -> None:
        self.region = region
        self.is_over = False
        """Whether the scanner has read all of its rows. The server has closed it then."""
        self._connection = connection
        self._scan = scan
        self._id: int | None = None
        self._calls = 0

    async def ask(self, rows: int, deadline: Deadline) -> CellBlock:
        """Return at most `rows` of the next rows. There may be none although the scanner is not over.

        Raises: as a call of the connection; NotAppliedError - the server has closed the scanner.
        """
        reply = await self._connection.ask_whole(METHOD, self._request(rows).SerializeToString(), deadline)
        try:
            answer = ScanResponse.FromString(reply.body)
            if self._id is None:
                self._id = answer.scanner_id
            else:
                self._calls += 1
            self.is_over = is_at_its_end(answer)
            return _block(answer, reply.cells)
        except (DecodeError, RemoteProtocolError) as exc:
            raise OutcomeUnknownError(f"the answer of {self.region.server} cannot be read: {exc}") from exc

    def close(self) -> None:
        """Close the scanner on the server, if it is open there."""
        if self._id is not None and not self.is_over:
            let_go(self._connection, self._id)

    def _request(self, rows: int) -> ScanRequest:
        if self._id is not None:
            return ScanRequest(
                scanner_id=self._id,
                number_of_rows=rows,
                next_call_seq=self._calls,
                client_handles_partials=False,
                client_handles_heartbeats=True,
            )
        return ScanRequest(
            region=RegionSpecifier(type=RegionSpecifier.REGION_NAME, value=self.region.name),
            scan=self._scan,
            number_of_rows=rows,
            client_handles_partials=False,
            client_handles_heartbeats=True,
        )


def _block(answer: ScanResponse, cells: bytes) -> CellBlock:
    """Return the rows of an answer, from its message or from the cells after it. Raises RemoteProtocolError."""
    if not answer.results:
        return CellBlock(cells, list(answer.cells_per_result))
    if cells or answer.cells_per_result:
        raise RemoteProtocolError("HBase sent rows in a message and others behind it")
    return CellBlock.of_cells(
        [
            [(cell.row, cell.family, cell.qualifier, cell.timestamp, cell.value) for cell in result.cell]
            for result in answer.results
        ]
    )
