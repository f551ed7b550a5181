"""A table can be read in full from servers that send no cells in blocks, because they refuse or ignore the request."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from enum import Enum, auto
from typing import Final, cast

import pytest

from hedwig.clock import Deadline
from hedwig.metadata import StoreOptions
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.hbase.driver import ScanRange
from hedwig.metadata.hbase.native.cluster.cluster import Cluster
from hedwig.metadata.hbase.native.cluster.links import DATA, Links
from hedwig.metadata.hbase.native.hbase_pb2 import (
    Cell,
    CellBlockMeta,
    ConnectionHeader,
    ExceptionResponse,
    RequestHeader,
    ResponseHeader,
    Result,
    ScanRequest,
    ScanResponse,
)
from hedwig.metadata.hbase.native.streams import CellStream
from hedwig.metadata.hbase.native.wire.codec import FATAL_CALL, varint
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.regions import Region, Server
from hedwig.outcomes import OutcomeUnknownError
from tests.metadata.hbase.native.support.wire import body_of
from tests.metadata.hbase.support.blocks import block_of

COLUMNS: Final = (b"o:v", b"o:d")
KEYS: Final = [b"row-%02d" % number for number in range(11)]
ROWS: Final = [(key, {b"o:v": b"version of " + key, b"o:d": b""}) for key in KEYS]
OPTIONS: Final = StoreOptions(operation_timeout_s=10.0)
FATAL: Final = ExceptionResponse(
    exception_class_name="org.apache.hadoop.hbase.ipc.UnsupportedCellCodecException", stack_trace="no such class"
)


class Habit(Enum):
    """The answer of a server to a connection that asks for cells in blocks."""

    HEEDS = auto()
    HEEDS_NOT = auto()
    DOES_BOTH = auto()
    CLOSES = auto()
    CLOSES_WITH_A_WORD = auto()
    CLOSES_AFTER_EACH_REPLY = auto()
    CLOSES_SCANNERS = auto()


class RegionServer:
    """A server of one table in one HBase region. `in_blocks` and `others` count its connections."""

    def __init__(self, habit: Habit) -> None:
        self._habit = habit
        self.in_blocks = self.others = 0
        self.tasks: list[asyncio.Task[None]] = []

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Start to serve a connection."""
        self.tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(6)
            header = ConnectionHeader.FromString((await _frame(reader))[4:])
            is_asked = header.HasField("cell_block_codec_class")
            self.in_blocks += is_asked
            self.others += not is_asked
            if is_asked and self._habit is Habit.CLOSES:
                return
            if is_asked and self._habit is Habit.CLOSES_WITH_A_WORD:
                fatal = ResponseHeader(call_id=FATAL_CALL, exception=FATAL).SerializeToString()
                writer.write(_framed(varint(len(fatal)) + fatal))
                await writer.drain()
                return
            start = b""
            while True:
                raw, body = body_of(await _frame(reader))
                call = RequestHeader.FromString(raw).call_id
                request = ScanRequest.FromString(body)
                if request.HasField("scan"):
                    start = request.scan.start_row
                elif self._habit is Habit.CLOSES_SCANNERS:
                    # HBase gives this answer when a client continues with a scanner that HBase has closed.
                    writer.write(_answer(call, ScanResponse()))
                    continue
                wanted = [row for row in ROWS if row[0] >= start]
                page = wanted[: request.number_of_rows]
                start = page[-1][0] + b"\0" if page else start
                writer.write(self._reply(call, page, len(wanted) > len(page), is_asked=is_asked))
                await writer.drain()
                if is_asked and self._habit is Habit.CLOSES_AFTER_EACH_REPLY:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # A client leaves in this way.
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _reply(self, call: int, page: list[tuple[bytes, dict[bytes, bytes]]], more: bool, *, is_asked: bool) -> bytes:
        answer = ScanResponse(scanner_id=7, more_results=True, more_results_in_region=more)
        cells = b""
        if not is_asked or self._habit in (Habit.HEEDS_NOT, Habit.DOES_BOTH):
            answer.results.extend(Result(cell=_cells(key, values)) for key, values in page)
        if is_asked and self._habit is not Habit.HEEDS_NOT and page:
            block = block_of(page)
            cells = block.data
            answer.cells_per_result.extend(block.counts)
        return _answer(call, answer, cells)


def _cells(key: bytes, values: dict[bytes, bytes]) -> list[Cell]:
    return [
        Cell(row=key, family=name[:1], qualifier=name[2:], timestamp=1, value=values[name]) for name in sorted(values)
    ]


def _answer(call: int, answer: ScanResponse, cells: bytes = b"") -> bytes:
    meta = CellBlockMeta(length=len(cells)) if cells else None
    header = ResponseHeader(call_id=call, cell_block_meta=meta).SerializeToString()
    body = answer.SerializeToString()
    return _framed(varint(len(header)) + header + varint(len(body)) + body + cells)


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


async def _frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


class OneRegion:
    """The parts of a cluster that a stream needs, with all rows in one HBase region."""

    def __init__(self, links: Links, server: Server) -> None:
        self._links = links
        self._region = Region(b"t,,1.hash.", "t", b"", b"", server)

    async def locate(self, table: str, row: bytes, deadline: Deadline) -> Region:
        return self._region

    async def data_connection(self, server: Server, deadline: Deadline, *, in_blocks: bool = False) -> Connection:
        return await self._links.to(server, DATA, in_blocks=in_blocks).connect(deadline)


@asynccontextmanager
async def stream_of(server: RegionServer) -> AsyncIterator[CellStream]:
    """Open a stream of all rows, with four rows a page."""
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    links = Links(lambda _: None, lambda one: one, "me")
    try:
        at = Server("127.0.0.1", listening.sockets[0].getsockname()[1])
        cluster = cast(Cluster, OneRegion(links, at))
        everything = ScanRange(start=b"", stop=b"", columns=COLUMNS)
        with closing(CellStream(cluster, lambda deadline: deadline, "t", everything, 4)) as stream:
            yield stream
    finally:
        await links.close()
        listening.close()
        await asyncio.gather(*server.tasks)


async def rows_of(server: RegionServer) -> list[tuple[bytes, dict[bytes, bytes | None]]]:
    """Return the rows of a stream, with their values."""
    rows = []
    async with stream_of(server) as stream:
        while (block := await Attempts(OPTIONS, "stream").read(stream.next)) is not None:
            assert len(block) <= 4
            rows += block.rows(COLUMNS)
    return [(key, dict(zip(COLUMNS, values, strict=True))) for key, values in rows]


async def test_rows_that_come_in_messages_though_blocks_were_asked_for_are_read() -> None:
    server = RegionServer(Habit.HEEDS_NOT)
    assert await rows_of(server) == ROWS
    assert (server.in_blocks, server.others) == (1, 0)


async def test_an_answer_with_rows_in_both_places_is_not_taken_for_either() -> None:
    async with stream_of(RegionServer(Habit.DOES_BOTH)) as stream:
        with pytest.raises(OutcomeUnknownError, match="in a message and others behind it"):
            await stream.next(Deadline.after(OPTIONS.clock, 10.0))


@pytest.mark.parametrize(("habit", "tries"), [(Habit.CLOSES, 2), (Habit.CLOSES_WITH_A_WORD, 1)])
async def test_a_server_that_refuses_blocks_is_read_without_and_that_is_told_once(
    habit: Habit, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = RegionServer(habit)
    with caplog.at_level(logging.INFO, "hedwig.metadata.hbase.native"):
        assert await rows_of(server) == ROWS
    assert (server.in_blocks, server.others) == (tries, 1)
    (message,) = caplog.messages
    assert "takes no cells in blocks" in message


async def test_connections_that_end_once_they_have_answered_are_no_refusals(caplog: pytest.LogCaptureFixture) -> None:
    server = RegionServer(Habit.CLOSES_AFTER_EACH_REPLY)
    assert await rows_of(server) == ROWS
    assert server.in_blocks > 2
    assert server.others == 0
    assert caplog.messages == []


async def test_a_server_that_heeds_it_needs_one_connection() -> None:
    server = RegionServer(Habit.HEEDS)
    assert await rows_of(server) == ROWS
    assert (server.in_blocks, server.others) == (1, 0)


async def test_an_answer_for_a_scanner_that_is_closed_is_no_page_without_rows() -> None:
    server = RegionServer(Habit.CLOSES_SCANNERS)
    assert await rows_of(server) == ROWS
    assert (server.in_blocks, server.others) == (1, 0)
