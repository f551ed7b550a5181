"""Streams return every row once, in order, in pages of bounded size, even if the server forgets the scan meanwhile."""

from collections.abc import AsyncIterator
from contextlib import closing
from typing import Final

from hedwig.metadata import StoreOptions
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.hbase.cell_blocks import CellBlock
from hedwig.metadata.hbase.driver import ConditionalPut, ScanRange
from hedwig.metadata.hbase.native import NativeDriver
from hedwig.metadata.hbase.native.cluster.links import DATA
from hedwig.metadata.hbase.native.hbase_pb2 import ScanRequest
from hedwig.metadata.hbase.native.scanning import METHOD, REPLY_BYTES
from hedwig.metadata.hbase.native.streams import CellStream
from tests.metadata.hbase.native.conftest import OPTIONS, Doors, Namespace, soon

COLUMNS: Final = (b"o:v", b"o:d")


async def fill(driver: NativeDriver, namespace: Namespace, rows: list[bytes], size: int = 1) -> None:
    """Write rows. Each has its key as its version, and a value of `size` bytes."""
    puts = [
        ConditionalPut(
            table=namespace.table,
            row=row,
            column=b"o:v",
            expected=None,
            values={b"o:v": row, b"o:d": bytes(size)},
            token=row,
            show=COLUMNS,
        )
        for row in rows
    ]
    assert await driver.put_all(puts, soon()) == [None] * len(rows)


async def pages(stream: CellStream, options: StoreOptions = OPTIONS) -> AsyncIterator[CellBlock]:
    while (block := await Attempts(options, "stream").read(stream.next)) is not None:
        yield block


def keys_of(block: CellBlock) -> list[bytes]:
    return [key for key, _ in block.rows(COLUMNS)]


async def test_a_stream_has_the_rows_of_its_range_through_all_regions(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    rows = [b"%04xsome" % (number << 10) for number in range(64)]
    await fill(driver, namespace, rows)
    assert len(await doors.regions()) > 1
    for first, last in ((0, 64), (1, 63), (20, 21), (30, 30)):
        stop = rows[last] if last < len(rows) else b"g"
        wanted = ScanRange(start=rows[first], stop=stop, columns=COLUMNS)
        for page_rows in (1, 7, 1000):
            with closing(driver.stream(namespace.table, wanted, page_rows)) as stream:
                blocks = [block async for block in pages(stream)]
            assert all(1 <= len(block) <= page_rows for block in blocks)
            values = [row for block in blocks for row in block.rows(COLUMNS)]
            assert [key for key, _ in values if key.endswith(b"some")] == rows[first:last]
            assert all(value == (key, b"\0") for key, value in values if key.endswith(b"some"))


async def test_what_others_have_written_into_the_same_families_comes_along(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    row, receipt = b"fffe-with a receipt", b"o:~token"
    put = ConditionalPut(
        table=namespace.table,
        row=row,
        column=b"o:v",
        expected=None,
        values={b"o:v": b"1", b"o:d": b"2", receipt: b"3"},
        token=row,
        show=COLUMNS,
    )
    assert await driver.put_all([put], soon()) == [None]
    wanted = ScanRange(start=row, stop=row + b"\0", columns=COLUMNS)
    with closing(driver.stream(namespace.table, wanted, 10)) as stream:
        (block,) = [block async for block in pages(stream)]
    assert block.rows((*COLUMNS, receipt)) == [(row, (b"1", b"2", b"3"))]


async def test_a_page_is_bounded_in_bytes(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    size = 400 << 10
    rows = [b"0000large-%02d" % number for number in range(30)]
    for start in range(0, len(rows), 5):
        await fill(driver, namespace, rows[start : start + 5], size)
    wanted = ScanRange(start=rows[0], stop=rows[-1] + b"\0", columns=COLUMNS)
    with closing(driver.stream(namespace.table, wanted, 1000)) as stream:
        blocks = [block async for block in pages(stream)]
    assert [key for block in blocks for key in keys_of(block)] == rows
    assert len(blocks) > 1
    assert max(len(block.data) for block in blocks) <= REPLY_BYTES + size + 200


async def test_a_scanner_that_the_server_forgot_is_taken_up_where_it_stood(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    rows = [b"0000forgotten-%02d" % number for number in range(20)]
    await fill(driver, namespace, rows)
    wanted = ScanRange(start=rows[0], stop=rows[-1] + b"\0", columns=COLUMNS)
    (region, *_) = await doors.regions()
    connection = await (await doors.administrator()).connection(region.server, DATA)
    met: list[bytes] = []
    scanners: set[int] = set()
    with closing(driver.stream(namespace.table, wanted, 4)) as stream:
        async for block in pages(stream):
            met += keys_of(block)
            # This is as if the scanner's lease had run out.
            scanner = stream._scanner
            if scanner is not None and scanner._id is not None:
                scanners.add(scanner._id)
                request = ScanRequest(scanner_id=scanner._id, number_of_rows=0, close_scanner=True)
                await connection.ask(METHOD, request.SerializeToString(), soon())
    assert met == rows
    assert len(scanners) > 1


async def test_a_stream_outlives_its_connection(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    rows = [b"0000cut-%02d" % number for number in range(12)]
    await fill(driver, namespace, rows)
    wanted = ScanRange(start=rows[0], stop=rows[-1] + b"\0", columns=COLUMNS)
    met: list[bytes] = []
    with closing(driver.stream(namespace.table, wanted, 5)) as stream:
        async for block in pages(stream):
            met += keys_of(block)
            if stream._scanner is not None:
                transport = stream._scanner._connection._transport
                assert transport is not None
                transport.abort()
    assert met == rows
