"""The versioned tables of HBase, over any driver.

A record is a row with one compared column, its stamp (metadata/stamps.py), written in the same atomic row mutation as
the data. Nothing is deleted on the live path: a delete overwrites the record with a tombstone, the stamp of the next
write with the letter T, and empties its parts; whoever creates the record anew takes the tombstone over by
compare-and-set. So a row's compared value never repeats, and HBase's delete markers, which hide puts of the same
millisecond, do not arise.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import BadVersionError, CorruptRecordError, HedwigError, NoRecordError
from hedwig.model import SubscriberId, Topic
from hedwig.outcomes import NotAppliedError
from hedwig.versions import ANY, NEW, Version, Versioned
from metadata.attempts import Attempts, Refusal
from metadata.backend import StoreOptions
from metadata.hbase.cell_blocks import CellBlock
from metadata.hbase.driver import Cell, ConditionalPut, HBaseDriver, Row, RowStream, RowValues, ScanRange
from metadata.hbase.key_cuts import END, bucket_from, cuts
from metadata.hbase.keys import BUCKETS, after, bucket_of, bucket_start, escape, past_prefix, split_row, topic_key
from metadata.hbase.schema import columns_of
from metadata.key_ranges import KeyRange, steps
from metadata.kinds import RecordKind
from metadata.operations import Operation, Outcome, RecordKey, Write, outcome_of
from metadata.packed import PackedColumns, PackedPage
from metadata.packing import part_codec
from metadata.scan import ScannedRecord
from metadata.stamps import LIVE, TOMBSTONE, Stamp, are_live, is_tombstone, judge, make_token
from metadata.table import carry_out_all

__all__ = ["HBaseTable"]

R = TypeVar("R")
T = TypeVar("T")

_VERSION_TAG: Final = b"h"
_TOGETHER_MIN: Final = 2
"""One alone gains nothing."""

_SLICES: Final = 256
"""The share of a table, one part in so many, that a listing by prefix searches at first."""

_QUICK_S: Final = 0.2
"""An answer within this time makes the next slice twice as large, a later one half as large."""

_SAMPLES: Final = 4
_SAMPLE_ROWS: Final = 1000
"""In so many places so many rows are looked at to tell how many a table has."""


class _Work(NamedTuple):
    """What an operation does, in words; put together only when somebody asks, which is when it failed."""

    verb: str
    noun: str
    key: RecordKey

    def __str__(self) -> str:
        return f"{self.verb} {self.noun} of {self.key}"


class _Begun(NamedTuple):
    """A write whose first attempt travelled with others, and which is carried on alone."""

    mine: Stamp
    deadline: Deadline
    answer: Refusal[Row] | Exception


class HBaseTable(Generic[R]):
    """A VersionedTable in one HBase table."""

    def __init__(self, kind: RecordKind[R], table: str, driver: HBaseDriver, options: StoreOptions) -> None:
        self._kind = kind
        self._table = table
        self._driver = driver
        self._options = options
        self._codec = part_codec(kind)
        self._columns = columns_of(kind)

    async def read(self, key: RecordKey) -> Versioned[R] | None:
        self._kind.check(key)
        row = await self._get(key)
        stamp = self._stamp(key, row)
        return self._versioned(key, row, stamp) if row is not None and stamp is not None and stamp.live else None

    async def write(self, key: RecordKey, record: R, version: Version, *, merge: bool = False) -> Version:
        parts = self._packed(key, record)
        if version == NEW:
            return await self._create(key, parts)
        if version == ANY:
            return await self._write_any(key, parts, merge=merge)
        expected = await self._expected(key, version)
        mine = expected.next(make_token(self._options.random))
        return await self._replace(key, _raw(version), mine, self._values(parts, keep_absent=merge))

    async def delete(self, key: RecordKey, version: Version) -> None:
        self._kind.check_delete(key, version)
        if version == ANY:
            await self._delete_any(key)
        else:
            expected = await self._expected(key, version)
            mine = expected.next(make_token(self._options.random), live=False)
            await self._replace(key, _raw(version), mine, self._emptied())

    async def apply(self, operations: Sequence[Operation[R]]) -> list[Outcome[R]]:
        creations = {
            place: each for place, each in enumerate(operations) if isinstance(each, Write) and each.version == NEW
        }
        if len(creations) < _TOGETHER_MIN:
            # A driver that can gather calls of the same moment into one does so below this.
            return await carry_out_all(self, operations)
        others = {place: each for place, each in enumerate(operations) if place not in creations}
        created, carried_out = await asyncio.gather(
            self._create_all(list(creations.values())), carry_out_all(self, list(others.values()))
        )
        outcomes = dict(zip((*creations, *others), (*created, *carried_out), strict=True))
        return [outcomes[place] for place in range(len(operations))]

    async def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        RecordKey(topic).check()
        start = topic_key(topic)
        rows = self._rows(start, past_prefix(start), self._columns.all)
        async for row in rows:
            key = RecordKey(topic, split_row(row.key)[1])
            stamp = self._stamp(key, row)
            if stamp is not None and key.subscriber is not None:
                yield key.subscriber, self._versioned(key, row, stamp)

    async def count_of(self, topic: Topic) -> int:
        RecordKey(topic).check()
        start = topic_key(topic)
        number = 0
        async for _ in self._rows(start, past_prefix(start), (self._columns.version,)):
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
        # With a prefix all rows are searched too, and that takes its time, whatever is found.
        rows = await self._estimate()
        step = steps(rows, parts, rows_min)
        edges = [b"", *cuts(starts, max(1, -(-rows // step))), END]
        # A small table has fewer than one range might have.
        each = -(-rows // (len(edges) - 1))
        return [
            KeyRange(kind=self._kind.name, prefix=prefix or b"", start=start, stop=stop, rows=each)
            for start, stop in pairwise(edges)
        ]

    async def range_records(self, keys: KeyRange) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        async for page in self._slices(self._record_pages, keys.prefix, keys.start, keys.stop or END):
            if page:
                yield page

    async def packed_range(self, keys: KeyRange) -> AsyncGenerator[PackedPage, None]:
        everything = ScanRange(start=keys.start, stop=keys.stop or END, columns=self._columns.all)
        # What begins with a prefix the server has to look for, slice by slice.
        stream = None if keys.prefix else self._driver.stream(self._table, everything, self._options.page_rows)
        if stream is not None:
            async with aclosing(self._streamed(stream)) as pages:
                async for page in pages:
                    yield page
            return
        async for rows in self._slices(self._value_pages, keys.prefix, keys.start, keys.stop or END):
            if rows:
                yield PackedPage(self._columns_of(rows), partial(self._scanned, rows))

    async def _streamed(self, stream: RowStream) -> AsyncGenerator[PackedPage, None]:
        """Iterate over the pages of a stream, which has tombstones in it, too, and is closed in the end."""
        # Nobody else needs the libraries behind it.
        from metadata.hbase.arrow_columns import packed_columns

        with closing(stream):
            while (block := await Attempts(self._options, f"list {self._table}").read(stream.next)) is not None:
                found = packed_columns(
                    block, self._columns, has_subscriber=self._kind.has_subscriber, version_tag=_VERSION_TAG
                )
                if found is None or len(found):
                    yield PackedPage(found, partial(self._living, block))

    def _living(self, block: CellBlock) -> list[ScannedRecord]:
        """Return the records of a block, with those whose version cannot be read: all rows but tombstones.

        A row without a version is no record to any other operation either.
        """
        rows = block.rows(self._columns.all)
        return self._scanned([row for row in rows if row[1][0] and not is_tombstone(row[1][0])])

    async def _estimate(self) -> int:
        """Return about how many rows there are: few exactly, many by how close together they are in some places."""
        rows = buckets = 0
        for index in range(_SAMPLES):
            first = index * BUCKETS // _SAMPLES
            found = await self._page(bucket_start(first), END, (self._columns.version,), _SAMPLE_ROWS)
            rows += len(found)
            if len(found) < _SAMPLE_ROWS:
                # There are no more from here on.
                buckets += BUCKETS - first
                break
            buckets += bucket_of(found[-1].key) - first
        return rows * BUCKETS // max(buckets, 1)

    async def count(self, advance: Callable[[int], None] | None = None) -> int:
        number = told = 0
        async for _ in self._rows(b"", bucket_start(BUCKETS), (self._columns.version,)):
            number += 1
            if advance is not None and number - told == self._options.page_rows:
                advance(number - told)
                told = number
        return number

    async def _slices(
        self, pages: Callable[[bytes, bytes, bytes], AsyncIterator[list[T]]], prefix: bytes, start: bytes, end: bytes
    ) -> AsyncIterator[list[T]]:
        """Iterate over the pages of one range of row keys after the other: `pages` takes its ends, and the prefix."""
        # With a prefix the server may search long without finding anything, and no call may outlast its deadline: so it
        # searches slice by slice of the hash, and larger slices as long as it is quick.
        buckets = BUCKETS // _SLICES if prefix else BUCKETS
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
        self, start: bytes, stop: bytes, prefix: bytes
    ) -> AsyncIterator[list[tuple[RecordKey, Outcome[R]]]]:
        """Iterate over the records in a range of row keys, as they come; the first page also if it is empty."""
        limit = self._options.page_rows
        while True:
            rows = await self._page(start, stop, self._columns.all, limit, prefix=escape(prefix))
            pairs = [self._found(row) for row in rows]
            # The server's filter may let names past that it cannot judge.
            yield [pair for pair in pairs if pair[0].topic.startswith(prefix)]
            if len(rows) < limit:
                return
            start = after(rows[-1].key)

    def _found(self, row: Row) -> tuple[RecordKey, Outcome[R]]:
        topic, subscriber = split_row(row.key)
        key = RecordKey(topic, subscriber if self._kind.has_subscriber else None)

        def decode() -> Versioned[R]:
            stamp = self._stamp(key, row)
            assert stamp is not None, "the rows of a scan have a version"
            return self._versioned(key, row, stamp)

        return key, outcome_of(decode)

    async def _value_pages(self, start: bytes, stop: bytes, prefix: bytes) -> AsyncIterator[list[RowValues]]:
        """Iterate over the rows in a range of row keys, as they come; the first page also if it is empty."""
        limit = self._options.page_rows
        while True:
            rows = await self._value_page(self._asked(start, stop, self._columns.all, prefix=escape(prefix)), limit)
            # The server's filter may let names past that it cannot judge.
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
        # A row of a scan has a version that begins with the letter, but what else is in it only we know.
        stamps = [raw for raw in versions if raw is not None]
        if len(stamps) < len(rows) or not are_live(stamps):
            return None
        subscribers = [subscriber for _, subscriber in names] if self._kind.has_subscriber else ()
        return PackedColumns([topic for topic, _ in names], subscribers, [_VERSION_TAG + raw for raw in stamps], parts)

    def _scanned(self, rows: Sequence[RowValues]) -> list[ScannedRecord]:
        columns = self._columns.all
        whole = (
            Row(key, {name: Cell(value, 0) for name, value in zip(columns, values, strict=True) if value is not None})
            for key, values in rows
        )
        return [ScannedRecord(self._kind, *self._found(row)) for row in whole]

    async def _topic_pages(self, start: bytes, stop: bytes, prefix: bytes) -> AsyncIterator[list[Topic]]:
        """Iterate over the topics in a range of row keys, as they come; the first page also if it is empty."""
        limit = self._options.page_rows
        while True:
            rows = await self._page(start, stop, (self._columns.version,), limit, prefix=escape(prefix))
            topics = list(dict.fromkeys(split_row(row.key)[0] for row in rows))
            # The server's filter may let names past that it cannot judge.
            yield [topic for topic in topics if topic.startswith(prefix)]
            if len(rows) < limit:
                return
            # The rest of a topic's subscriptions is stepped over, however many there are.
            start = past_prefix(topic_key(topics[-1]))

    async def sweep(self, older_than_s: float, kept_from_ms: Callable[[], Awaitable[float]], *, dry_run: bool) -> int:
        """Remove, or with `dry_run` count, the tombstones written more than `older_than_s` seconds ago.

        Returns: how many there were.

        Those that were written at `kept_from_ms` or later stay. It is asked after the tombstones were found: who begins
        to read changes then sees that they are there already, or needs none of them.

        Each goes by a conditional delete at its cells' own timestamps, which hides nothing that is written later. A row
        is absent again afterwards, so the age must exceed by far what any call can take.
        """
        before_ms = (self._options.clock.wall() - older_than_s) * 1000
        removed = 0
        async for page in self._row_pages(b"", bucket_start(BUCKETS), self._columns.all, letter=TOMBSTONE):
            limit_ms = min(before_ms, await kept_from_ms())
            for row in page:
                if row.cells[self._columns.version].timestamp_ms < limit_ms:
                    removed += dry_run or await self._remove(row)
        return removed

    async def _remove(self, row: Row) -> bool:
        column = self._columns.version
        cells = {name: cell.timestamp_ms for name, cell in row.cells.items()}
        attempts = Attempts(self._options, f"sweep {self._table}")
        # Repeating it after a lost answer does no harm: a tombstone that is gone does not match.
        return await attempts.read(
            lambda deadline: self._driver.delete_if(
                self._table, row.key, column, row.cells[column].value, cells, deadline
            )
        )

    async def _rows(self, start: bytes, stop: bytes, columns: Sequence[bytes]) -> AsyncIterator[Row]:
        """Iterate over the rows of live records."""
        async for page in self._row_pages(start, stop, columns):
            for row in page:
                yield row

    async def _row_pages(
        self, start: bytes, stop: bytes, columns: Sequence[bytes], *, letter: bytes = LIVE
    ) -> AsyncIterator[list[Row]]:
        """Iterate over the rows of live records, or of tombstones, page by page."""
        limit = self._options.page_rows
        while True:
            page = await self._page(start, stop, columns, limit, letter=letter)
            yield page
            if len(page) < limit:
                return
            start = after(page[-1].key)

    async def _page(
        self,
        start: bytes,
        stop: bytes,
        columns: Sequence[bytes],
        limit: int,
        *,
        letter: bytes = LIVE,
        prefix: bytes = b"",
    ) -> list[Row]:
        rows = self._asked(start, stop, columns, letter=letter, prefix=prefix)
        attempts = Attempts(self._options, f"list {self._table}")
        return await attempts.read(lambda deadline: self._driver.scan(self._table, rows, limit, deadline))

    def _asked(
        self, start: bytes, stop: bytes, columns: Sequence[bytes], *, letter: bytes = LIVE, prefix: bytes = b""
    ) -> ScanRange:
        return ScanRange(
            start=start, stop=stop, columns=columns, marked=(self._columns.version, letter), name_prefix=prefix
        )

    async def _get(self, key: RecordKey) -> Row | None:
        attempts = Attempts(self._options, _Work("read", self._kind.noun, key))
        return await attempts.read(
            lambda deadline: self._driver.get(self._table, _row(key), self._columns.all, deadline)
        )

    async def _create_all(self, writes: Sequence[Write[R]]) -> list[Outcome[R]]:
        """Create records, together as far as nothing is in their way: each would cost several times as much alone."""
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        outcomes: list[Outcome[R] | None] = [None] * len(writes)
        begun: list[tuple[int, tuple[bytes | None, ...], Stamp]] = []
        puts = []
        for place, write in enumerate(writes):
            try:
                parts = self._packed(write.key, write.record)
            except HedwigError as exc:
                outcomes[place] = Outcome(error=exc)
                continue
            mine = Stamp.first(self._options.clock, make_token(self._options.random))
            begun.append((place, parts, mine))
            puts.append(self._put(write.key, None, mine, self._values(parts, keep_absent=True)))
        answers = await self._driver.put_all(puts, deadline)
        carried_on = []
        for (place, parts, mine), answer in zip(begun, answers, strict=True):
            if answer is None:
                outcomes[place] = Outcome(version=_version(mine))
            else:
                work = self._create(writes[place].key, parts, _Begun(mine, deadline, answer))
                carried_on.append((place, work))
        found = await asyncio.gather(*(_outcome_of(work) for _, work in carried_on))
        for (place, _), outcome in zip(carried_on, found, strict=True):
            outcomes[place] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def _packed(self, key: RecordKey, record: R) -> tuple[bytes | None, ...]:
        """Return the parts of a record as they are stored. Raises InvalidArgumentError, RecordTooLargeError."""
        self._kind.check(key)
        parts = self._codec.pack(record)
        self._kind.check_size(key, *parts)
        return parts

    async def _create(self, key: RecordKey, parts: tuple[bytes | None, ...], begun: _Begun | None = None) -> Version:
        """Create a record where none is: in an absent row, or in one that holds a tombstone."""
        values = self._values(parts, keep_absent=True)
        work = _Work("create", self._kind.noun, key)
        attempts = Attempts(self._options, work, None if begun is None else begun.deadline)
        condition: bytes | None = None
        mine = Stamp.first(self._options.clock, make_token(self._options.random)) if begun is None else begun.mine
        answer = None if begun is None else begun.answer
        while True:
            refusal = await self._put_if(attempts, key, condition, mine, values, answer)
            if refusal is None:
                return _version(mine)
            found = self._stamp(key, refusal.current)
            if found is not None and found.live:
                raise self._kind.exists(key, self._versioned(key, refusal.current, found))
            condition = None if found is None else found.encode()
            mine, answer = self._following(found, mine.token), None

    async def _replace(self, key: RecordKey, condition: bytes, mine: Stamp, values: dict[bytes, bytes]) -> Version:
        """Write over the record whose version column holds `condition`; with a tombstone, delete it."""
        attempts = Attempts(self._options, _Work("write" if mine.live else "delete", self._kind.noun, key))
        refusal = await self._put_if(attempts, key, condition, mine, values)
        if refusal is not None:
            raise self._conflict(key, refusal.current)
        return _version(mine)

    async def _write_any(self, key: RecordKey, parts: tuple[bytes | None, ...], *, merge: bool) -> Version:
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        while True:
            condition, found = await self._whatever_is(key)
            try:
                if condition is None or (found is not None and not found.live):
                    return await self._create(key, parts)
                mine = self._following(found, make_token(self._options.random))
                return await self._replace(key, condition, mine, self._values(parts, keep_absent=merge))
            except (BadVersionError, NoRecordError):
                if deadline.expired:
                    raise

    async def _delete_any(self, key: RecordKey) -> None:
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        while True:
            condition, found = await self._whatever_is(key)
            if condition is None or (found is not None and not found.live):
                raise self._kind.missing(key)
            mine = self._following(found, make_token(self._options.random), live=False)
            try:
                await self._replace(key, condition, mine, self._emptied())
                return
            except BadVersionError:
                if deadline.expired:
                    raise

    async def _whatever_is(self, key: RecordKey) -> tuple[bytes | None, Stamp | None]:
        """Return the stored version column, and its stamp unless that cannot be read, which ANY is there to repair."""
        condition = _compared(await self._get(key), self._columns.version)
        with suppress(ValueError):
            return condition, None if condition is None else Stamp.decode(condition)
        return condition, None

    def _following(self, found: Stamp | None, token: bytes, *, live: bool = True) -> Stamp:
        if found is not None:
            return found.next(token, live=live)
        return replace(Stamp.first(self._options.clock, token), live=live)

    def _emptied(self) -> dict[bytes, bytes]:
        return dict.fromkeys(self._columns.parts, b"")

    def _put(self, key: RecordKey, condition: bytes | None, mine: Stamp, values: dict[bytes, bytes]) -> ConditionalPut:
        return ConditionalPut(
            table=self._table,
            row=_row(key),
            column=self._columns.version,
            expected=condition,
            values={self._columns.version: mine.encode(), **values},
            token=mine.token,
            show=self._columns.all,
        )

    async def _put_if(
        self,
        attempts: Attempts,
        key: RecordKey,
        condition: bytes | None,
        mine: Stamp,
        values: dict[bytes, bytes],
        answer: Refusal[Row] | Exception | None = None,
    ) -> Refusal[Row] | None:
        """Carry a put through. `answer` is what its first attempt came to, if that was made already."""
        put = self._put(key, condition, mine, values)
        answers = [] if answer is None else [answer]

        async def attempt(deadline: Deadline) -> Refusal[Row] | None:
            return self._confirmed(put, answers.pop() if answers else await self._driver.put_if(put, deadline))

        return await attempts.write(attempt, lambda row: judge(mine, self._stamp(key, row)))

    def _confirmed(self, put: ConditionalPut, answer: Refusal[Row] | Exception | None) -> Refusal[Row] | None:
        """Return the answer to a put, or raise it. Raises NotAppliedError - it contradicts itself."""
        if isinstance(answer, Exception):
            raise answer
        if answer is not None and _compared(answer.current, put.column) == put.expected:
            # The row came to what the condition asks for between the refusal and the look at it.
            raise NotAppliedError("the record changed back and forth")
        return answer

    async def _expected(self, key: RecordKey, version: Version) -> Stamp:
        """Return the stamp that `version` stands for. Raises the refusal if it is no version of ours."""
        if version.raw[:1] == _VERSION_TAG:
            with suppress(ValueError):
                expected = Stamp.decode(_raw(version))
                if expected.live:
                    return expected
        raise self._conflict(key, await self._get(key))

    def _conflict(self, key: RecordKey, row: Row | None) -> BadVersionError | NoRecordError:
        stamp = self._stamp(key, row)
        if row is None or stamp is None or not stamp.live:
            return self._kind.missing(key)
        return self._kind.stale(key, self._versioned(key, row, stamp))

    def _values(self, parts: tuple[bytes | None, ...], *, keep_absent: bool) -> dict[bytes, bytes]:
        """Return the cells to write; an absent part is left as it is, or emptied."""
        pairs = zip(self._columns.parts, parts, strict=True)
        return {column: part or b"" for column, part in pairs if part is not None or not keep_absent}

    def _stamp(self, key: RecordKey, row: Row | None) -> Stamp | None:
        raw = _compared(row, self._columns.version)
        if raw is None:
            return None
        try:
            return Stamp.decode(raw)
        except ValueError as exc:
            raise CorruptRecordError(f"the version of the {self._kind.noun} of {key} cannot be read: {exc}") from exc

    def _versioned(self, key: RecordKey, row: Row | None, stamp: Stamp) -> Versioned[R]:
        assert row is not None, "a stamp comes from a row"
        values = [row.value(column) for column in self._columns.parts]
        try:
            return Versioned(self._codec.read(self._kind.noun, key, values), _version(stamp))
        except CorruptRecordError as exc:
            exc.version = _version(stamp)
            raise


async def _outcome_of(work: Awaitable[Version]) -> Outcome[Any]:
    """Return what a write comes to, with what it raises as its outcome."""
    try:
        return Outcome(version=await work)
    except HedwigError as exc:
        return Outcome(error=exc)


def _start_of(start_after: Topic | None) -> bytes:
    """Return the first row key behind a topic."""
    return b"" if start_after is None else past_prefix(topic_key(start_after))


def _row(key: RecordKey) -> bytes:
    return topic_key(key.topic) + (key.subscriber or b"")


def _raw(version: Version) -> bytes:
    """Return the stamp that a version of ours stands for, as it is stored."""
    return version.raw[1:]


def _version(stamp: Stamp) -> Version:
    return Version(_VERSION_TAG + stamp.encode())


def _compared(row: Row | None, column: bytes) -> bytes | None:
    return None if row is None else row.value(column)
