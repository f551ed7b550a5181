"""Reading a stream skips deleted rows only; it never skips another row silently."""

from collections.abc import Sequence
from typing import Any, Final, cast

from hedwig.clock import Deadline
from hedwig.errors import CorruptRecordError
from hedwig.metadata import KeyRange, StoreOptions
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.metadata.contract.packed import PackedPage
from hedwig.metadata.hbase.cell_blocks import CellBlock
from hedwig.metadata.hbase.driver import HBaseDriver, ScanRange
from hedwig.metadata.hbase.keys import topic_key
from hedwig.metadata.hbase.tables import HBaseTable
from hedwig.metadata.records.stamps import Stamp
from tests.metadata.hbase.support.blocks import Row, block_of

LIVE: Final = Stamp(7, b"12345678").encode()
GONE: Final = Stamp(8, b"12345678", live=False).encode()
EVERYTHING: Final = KeyRange(kind=OWNERSHIP.name)


class Streaming:
    """A driver with nothing but a stream of these blocks. The object is the stream too."""

    def __init__(self, blocks: Sequence[CellBlock]) -> None:
        self._blocks = list(blocks)
        self.closed = False

    def stream(self, table: str, rows: ScanRange, page_rows: int) -> "Streaming":
        return self

    async def next(self, deadline: Deadline) -> CellBlock | None:
        return self._blocks.pop(0) if self._blocks else None

    def close(self) -> None:
        self.closed = True


def row(name: bytes, version: bytes | None) -> Row:
    values = {b"o:d": b"nothing that could be read"}
    return topic_key(name), values if version is None else {**values, b"o:v": version}


async def pages_of(*blocks: Sequence[Row]) -> list[PackedPage]:
    driver = Streaming([block_of(rows) for rows in blocks])
    table: HBaseTable[Any] = HBaseTable(OWNERSHIP, "t", cast(HBaseDriver, driver), StoreOptions())
    pages = [page async for page in table.packed_range(EVERYTHING)]
    assert driver.closed
    return pages


async def test_a_version_that_cannot_be_read_is_told_and_its_row_counted() -> None:
    odd = {b"letter": b"?" + LIVE[1:], b"short": b"?", b"long": LIVE + b"1", b"cut": GONE[:-1]}
    rows = [row(name, version) for name, version in odd.items()]
    sound = [row(b"sound", LIVE), row(b"gone", GONE), row(b"none", None), row(b"empty", b"")]
    (page,) = await pages_of(rows + sound)
    assert page.columns is None
    errors = {bytes(record.key.topic): str(record.outcome.error) for record in page.records()}
    assert set(errors) == {*odd, b"sound"}
    for name in odd:
        assert f"the version of the {OWNERSHIP.noun} of" in errors[name]
    assert all(isinstance(record.outcome.error, CorruptRecordError) for record in page.records())


async def test_a_page_with_nothing_else_is_told_too() -> None:
    first, second = await pages_of([row(b"odd", b"?")], [row(b"gone", GONE)], [row(b"sound", LIVE)])
    assert [bytes(record.key.topic) for record in first.records()] == [b"odd"]
    assert second.columns is not None
    assert len(second.columns) == 1
