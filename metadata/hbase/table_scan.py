"""Scans of a table, page by page: the records of a topic, of a range of row keys, or of all.

The server leaves tombstones out, except in a scan for tombstones. Only a stream contains them beside live records.
Nothing here writes.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, closing, nullcontext
from functools import partial
from itertools import pairwise
from typing import Final, Generic, TypeVar

from hedwig.clock import Deadline
from hedwig.metadata.calls.attempts import Attempts, ListingTime
from hedwig.metadata.contract.backend import Estimate, StoreOptions
from hedwig.metadata.contract.key_ranges import KeyRange, steps
from hedwig.metadata.contract.operations import Outcome, RecordKey
from hedwig.metadata.contract.packed import PackedColumns, PackedPage
from hedwig.metadata.contract.scan import ScannedRecord
from hedwig.metadata.hbase.cell_blocks import CellBlock
from hedwig.metadata.hbase.driver import Cell, HBaseDriver, Row, RowStream, RowValues, ScanRange
from hedwig.metadata.hbase.key_cuts import END, bucket_from, cuts
from hedwig.metadata.hbase.keys import (
    BUCKETS,
    after,
    bucket_of,
    bucket_start,
    escape,
    past_prefix,
    split_row,
    topic_key,
)
from hedwig.metadata.hbase.row_codec import VERSION_TAG, RowCodec
from hedwig.metadata.records.packing import mark_of_hub
from hedwig.metadata.records.stamps import LIVE, are_live, is_tombstone
from hedwig.model import HubInfo, SubscriberId, Topic
from hedwig.versions import Versioned

__all__ = ["TableScan"]

R = TypeVar("R")
T = TypeVar("T")

_SLICES: Final = 256
"""A listing by prefix first searches one Nth of a table."""

_QUICK_S: Final = 0.2
"""An answer within this time makes the next slice twice as large, a later one half as large."""

_READ_AT_ONCE: Final = 100
"""Of how many rows the records are read before other tasks have a turn. A page of 1,000 takes some 20 ms."""

_SAMPLES: Final = 4
_COUNTED_SAMPLES: Final = 128
_SAMPLE_ROWS: Final = 1000
"""To estimate how many rows a table has, up to `_SAMPLE_ROWS` rows are read at each of `_SAMPLES` hash values.

People who ask for the number get `_COUNTED_SAMPLES` of them.
"""


class TableScan(Generic[R]):
    """The scans of one HBase table, for VersionedTable and ScansPacked, and pages of its rows."""

    def __init__(self, codec: RowCodec[R], table: str, driver: HBaseDriver, options: StoreOptions) -> None:
        self._codec = codec
        self._table = table
        self._driver = driver
        self._options = options
        self._kind = codec.kind
        self._columns = codec.columns

    async def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        RecordKey(topic).check()
        start = topic_key(topic)
        rows = self._rows(start, past_prefix(start), self._columns.all, ListingTime(self._options))
        async for row in rows:
            key = RecordKey(topic, split_row(row.key)[1])
            stamp = self._codec.stamp(key, row)
            if stamp is not None and key.subscriber is not None:
                yield key.subscriber, self._codec.versioned(key, row, stamp)

    async def names_of(
        self, topic: Topic, start_after: SubscriberId | None
    ) -> AsyncGenerator[list[SubscriberId], None]:
        """Iterate over pages of the subscribers of a topic, by their bytes, without reading their records."""
        start = topic_key(topic)
        first = start if start_after is None else after(start + start_after)
        async for page in self.row_pages(first, past_prefix(start), (self._columns.version,)):
            if page:
                yield [split_row(row.key)[1] for row in page]

    async def count_of(self, topic: Topic) -> int:
        RecordKey(topic).check()
        start = topic_key(topic)
        number = 0
        async for _ in self._rows(start, past_prefix(start), (self._columns.version,), ListingTime(self._options)):
            number += 1
        return number

    async def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        async for page in self._slices(self._topic_pages, prefix or b"", _start_of(start_after), END):
            for topic in page:
                yield topic

    async def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        async for page in self._slices(self._record_pages, prefix or b"", _start_of(start_after), END):
            if page:
                yield page

    async def key_ranges(self, parts: int, prefix: bytes | None, rows_min: int) -> list[KeyRange]:
        attempts = Attempts(self._options, f"list the HBase regions of {self._table}")
        starts = await attempts.read(lambda deadline: self._driver.region_starts(self._table, deadline))
        # With a prefix the server searches all rows too. That takes as long, even if it finds few.
        rows = (await self.estimate(_SAMPLES)).number
        step = steps(rows, parts, rows_min)
        edges = [b"", *cuts(starts, max(1, -(-rows // step))), END]
        # A small table has fewer rows than one range might have.
        each = -(-rows // (len(edges) - 1))
        return [
            KeyRange(kind=self._kind.name, prefix=prefix or b"", start=start, stop=stop, rows=each)
            for start, stop in pairwise(edges)
        ]

    async def range_records(self, keys: KeyRange) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        pages = partial(self._record_pages, hub=keys.hub)
        async for page in self._slices(pages, keys.prefix, keys.start, keys.stop or END, is_searched=bool(keys.hub)):
            if page:
                yield page

    async def packed_range(self, keys: KeyRange) -> AsyncGenerator[PackedPage, None]:
        everything = ScanRange(start=keys.start, stop=keys.stop or END, columns=self._columns.all)
        # A stream has no filter, so with a prefix the server searches slice by slice.
        stream = None if keys.prefix else self._driver.stream(self._table, everything, self._options.page_rows)
        if stream is not None:
            async with aclosing(self._streamed(stream)) as pages:
                async for page in pages:
                    yield page
            return
        async for rows in self._slices(self._value_pages, keys.prefix, keys.start, keys.stop or END):
            if rows:
                yield PackedPage(self._columns_of(rows), partial(self._scanned, rows))

    async def count(self, advance: Callable[[int], None] | None = None) -> int:
        number = reported = 0
        async for _ in self._rows(b"", bucket_start(BUCKETS), (self._columns.version,)):
            number += 1
            if advance is not None and number - reported == self._options.page_rows:
                advance(number - reported)
                reported = number
        return number

    async def row_pages(
        self,
        start: bytes,
        stop: bytes,
        columns: Sequence[bytes],
        *,
        letter: bytes = LIVE,
        time: ListingTime | None = None,
    ) -> AsyncIterator[list[Row]]:
        """Iterate over the rows of live records, or of tombstones, page by page.

        All pages share `time`. Without it each page has the whole operation timeout.
        """
        limit = self._options.page_rows
        while True:
            with nullcontext() if time is None else time.waiting() as deadline:
                page = await self._page(start, stop, columns, limit, letter=letter, deadline=deadline)
            if time is not None:
                time.add(len(page))
            yield page
            if len(page) < limit:
                return
            start = after(page[-1].key)

    async def _streamed(self, stream: RowStream) -> AsyncGenerator[PackedPage, None]:
        """Iterate over the pages of a stream without their tombstones, and close the stream in the end."""
        # Only streams need the libraries that this module imports.
        from hedwig.metadata.hbase.arrow_columns import packed_columns

        with closing(stream):
            while (block := await Attempts(self._options, f"list {self._table}").read(stream.next)) is not None:
                packed = packed_columns(
                    block, self._columns, has_subscriber=self._kind.has_subscriber, version_tag=VERSION_TAG
                )
                if packed is None or len(packed):
                    yield PackedPage(packed, partial(self._living, block))

    def _living(self, block: CellBlock) -> list[ScannedRecord]:
        """Return the records of a block, also those whose version cannot be read, but no tombstones.

        Rows without a version are left out, since no other operation takes them for records either.
        """
        rows = block.rows(self._columns.all)
        return self._scanned([row for row in rows if row[1][0] and not is_tombstone(row[1][0])])

    async def estimate(self, samples: int = _COUNTED_SAMPLES) -> Estimate:
        """Return about how many records there are, from rows at evenly spaced hash values; exactly, if they are few.

        Topics are spread evenly by their hash, so 128,000 rows tell the number of topics to about 0.3 %. A topic with
        very many subscriptions may be missed, or be counted for more than it has.
        """
        rows = covered = end = 0
        is_cut = False
        for index in range(samples):
            # The samples of a small table join up, so it is read from end to end.
            first = max(index * BUCKETS // samples, end)
            page = await self._page(bucket_start(first), END, (self._columns.version,), _SAMPLE_ROWS)
            if len(page) < _SAMPLE_ROWS:
                # The table has no further rows after these.
                rows += len(page)
                covered += BUCKETS - first
                break
            last = bucket_of(page[-1].key)
            # The last hash value may have further rows.
            is_cut = is_cut or last == first
            end = max(last, first + 1)
            rows += sum(bucket_of(row.key) < end for row in page)
            covered += end - first
        return Estimate(rows * BUCKETS // covered, is_exact=covered == BUCKETS and not is_cut)

    async def _slices(
        self,
        pages: Callable[[bytes, bytes, bytes], AsyncIterator[list[T]]],
        prefix: bytes,
        start: bytes,
        end: bytes,
        *,
        is_searched: bool = False,
    ) -> AsyncIterator[list[T]]:
        """Iterate over the pages of one slice of row keys after the other. `pages` takes its ends, and the prefix.

        `is_searched`: the server leaves out rows for another reason than the prefix.
        """
        # The server may search long without finding anything, and no call may outlast its deadline. So each call
        # searches one slice of the hash. The slices grow as long as the server answers quickly.
        buckets = BUCKETS // _SLICES if prefix or is_searched else BUCKETS
        while start < end:
            stop = min(bucket_start(min(bucket_from(start) + buckets, BUCKETS)), end)
            asked_at = self._options.clock.monotonic()
            is_first = True
            async for page in pages(start, stop, prefix):
                if is_first:
                    is_quick = self._options.clock.monotonic() - asked_at < _QUICK_S
                    buckets = min(2 * buckets, BUCKETS) if is_quick else max(buckets // 2, 1)
                    is_first = False
                yield page
            start = stop

    async def _record_pages(
        self, start: bytes, stop: bytes, prefix: bytes, *, hub: str = ""
    ) -> AsyncIterator[list[tuple[RecordKey, Outcome[R]]]]:
        """Iterate over pages of the records in a range of row keys. The first page may be empty.

        With `hub`, owner records of hubs at other addresses are left out.
        """
        limit = self._options.page_rows
        containing = (self._columns.parts[0], mark_of_hub(HubInfo.at(hub))) if hub else None
        while True:
            rows = await self._page(start, stop, self._columns.all, limit, prefix=escape(prefix), containing=containing)
            pairs = []
            for index, row in enumerate(rows):
                if index % _READ_AT_ONCE == _READ_AT_ONCE - 1:
                    await asyncio.sleep(0)
                pairs.append(self._codec.read(row))
            # The server's filter lets names pass that it cannot judge.
            yield [pair for pair in pairs if pair[0].topic.startswith(prefix)]
            if len(rows) < limit:
                return
            start = after(rows[-1].key)

    async def _value_pages(self, start: bytes, stop: bytes, prefix: bytes) -> AsyncIterator[list[RowValues]]:
        """Iterate over pages of the rows in a range of row keys. The first page may be empty."""
        limit = self._options.page_rows
        while True:
            rows = await self._value_page(self._asked(start, stop, self._columns.all, prefix=escape(prefix)), limit)
            # The server's filter lets names pass that it cannot judge.
            yield [row for row in rows if split_row(row[0])[0].startswith(prefix)] if prefix else rows
            if len(rows) < limit:
                return
            start = after(rows[-1][0])

    async def _value_page(self, rows: ScanRange, limit: int) -> list[RowValues]:
        attempts = Attempts(self._options, f"list {self._table}")
        return await attempts.read(lambda deadline: self._driver.scan_values(self._table, rows, limit, deadline))

    def _columns_of(self, rows: Sequence[RowValues]) -> PackedColumns | None:
        versions, *parts = zip(*(values for _, values in rows), strict=True)
        names = [split_row(key) for key, _ in rows]
        # The server's filter checked only the first letter of each version, so check the rest here.
        stamps = [raw for raw in versions if raw is not None]
        if len(stamps) < len(rows) or not are_live(stamps):
            return None
        subscribers = [subscriber for _, subscriber in names] if self._kind.has_subscriber else ()
        return PackedColumns([topic for topic, _ in names], subscribers, [VERSION_TAG + raw for raw in stamps], parts)

    def _scanned(self, rows: Sequence[RowValues]) -> list[ScannedRecord]:
        columns = self._columns.all
        whole = (
            Row(key, {name: Cell(value, 0) for name, value in zip(columns, values, strict=True) if value is not None})
            for key, values in rows
        )
        return [ScannedRecord(self._kind, *self._codec.read(row)) for row in whole]

    async def _topic_pages(self, start: bytes, stop: bytes, prefix: bytes) -> AsyncIterator[list[Topic]]:
        """Iterate over pages of the topics in a range of row keys. The first page may be empty."""
        limit = self._options.page_rows
        while True:
            rows = await self._page(start, stop, (self._columns.version,), limit, prefix=escape(prefix))
            topics = list(dict.fromkeys(split_row(row.key)[0] for row in rows))
            # The server's filter lets names pass that it cannot judge.
            yield [topic for topic in topics if topic.startswith(prefix)]
            if len(rows) < limit:
                return
            # Skip the rest of the topic's subscriptions, of which there may be very many.
            start = past_prefix(topic_key(topics[-1]))

    async def _rows(
        self, start: bytes, stop: bytes, columns: Sequence[bytes], time: ListingTime | None = None
    ) -> AsyncIterator[Row]:
        """Iterate over the rows of live records."""
        async for page in self.row_pages(start, stop, columns, time=time):
            for row in page:
                yield row

    async def _page(
        self,
        start: bytes,
        stop: bytes,
        columns: Sequence[bytes],
        limit: int,
        *,
        letter: bytes = LIVE,
        prefix: bytes = b"",
        containing: tuple[bytes, bytes] | None = None,
        deadline: Deadline | None = None,
    ) -> list[Row]:
        rows = self._asked(start, stop, columns, letter=letter, prefix=prefix, containing=containing)
        attempts = Attempts(self._options, f"list {self._table}", deadline)
        return await attempts.read(lambda deadline: self._driver.scan(self._table, rows, limit, deadline))

    def _asked(
        self,
        start: bytes,
        stop: bytes,
        columns: Sequence[bytes],
        *,
        letter: bytes = LIVE,
        prefix: bytes = b"",
        containing: tuple[bytes, bytes] | None = None,
    ) -> ScanRange:
        return ScanRange(
            start=start,
            stop=stop,
            columns=columns,
            marked=(self._columns.version, letter),
            name_prefix=prefix,
            containing=containing,
        )


def _start_of(start_after: Topic | None) -> bytes:
    """Return the first row key after the rows of a topic; without a topic, the beginning of the table."""
    return b"" if start_after is None else past_prefix(topic_key(start_after))
