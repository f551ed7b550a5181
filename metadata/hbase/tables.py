"""The versioned tables of HBase, over any driver: records that are changed by compare-and-set.

A record is a row with one compared column, its stamp (`stamps`), written in the same atomic row mutation as
the data. On the live path no cell is deleted. A delete overwrites the record with a tombstone, which is the stamp of
the next write with the letter T, and empties its parts. A create takes the tombstone over by compare-and-set. So a
row's compared value never repeats. Nor are there delete markers, with which HBase would hide puts of the same
millisecond.

`row_codec.py` has the form of a record in its row. `table_scan.py` reads many rows at a time.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import BadVersionError, HedwigError, MetadataUnavailableError, NoRecordError
from hedwig.metadata.calls.attempts import Attempts, Refusal, deadline_of_all
from hedwig.metadata.contract.backend import Estimate, StoreOptions
from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import Delete, Operation, Outcome, Read, RecordKey, Write
from hedwig.metadata.contract.packed import PackedPage
from hedwig.metadata.contract.table import carry_out_all
from hedwig.metadata.contract.write_lease import check_lease, within_lease
from hedwig.metadata.hbase.driver import ConditionalPut, HBaseDriver, Row
from hedwig.metadata.hbase.keys import BUCKETS, bucket_start, topic_key
from hedwig.metadata.hbase.row_codec import VERSION_TAG, RowCodec, stored_stamp, version_of
from hedwig.metadata.hbase.table_scan import TableScan
from hedwig.metadata.records.stamps import TOMBSTONE, Stamp, judge, make_token
from hedwig.model import SubscriberId, Topic
from hedwig.outcomes import NotAppliedError
from hedwig.versions import ANY, NEW, Version, Versioned

__all__ = ["HBaseTable"]

R = TypeVar("R")

_TOGETHER_MIN: Final = 2
"""A single operation gains nothing from a batch."""


class _Work(NamedTuple):
    """What an operation does, in words. The text is made only for an error that names the operation."""

    verb: str
    noun: str
    key: RecordKey

    def __str__(self) -> str:
        return f"{self.verb} {self.noun} of {self.key}"


class _Put(NamedTuple):
    """A write or a delete of a batch: where its operation stands, and what it writes if its condition holds."""

    at: int
    key: RecordKey
    condition: bytes | None
    mine: Stamp
    values: dict[bytes, bytes]
    parts: tuple[bytes | None, ...]


class _Begun(NamedTuple):
    """A write whose first attempt was sent in a batch. Its further attempts are sent alone."""

    mine: Stamp
    answer: Refusal[Row] | Exception


class HBaseTable(Generic[R]):
    """A VersionedTable in one HBase table."""

    def __init__(self, kind: RecordKind[R], table: str, driver: HBaseDriver, options: StoreOptions) -> None:
        self._kind = kind
        self._table = table
        self._driver = driver
        self._options = options
        self._codec = RowCodec(kind)
        self._columns = self._codec.columns
        self._scan = TableScan(self._codec, table, driver, options)

    async def read(self, key: RecordKey, deadline: Deadline | None = None) -> Versioned[R] | None:
        self._kind.check(key)
        return self._record_in(key, await self._get(key, deadline))

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        parts = self._codec.pack(key, record)
        if version == NEW:
            return await self._create(key, parts, deadline)
        if version == ANY:
            return await self._write_any(key, parts, deadline or self._deadline(), merge=merge)
        expected = await self._expected(key, version, deadline)
        mine = expected.next(make_token(self._options.random))
        values = self._codec.values(parts, keep_absent=merge)
        return await self._replace(key, stored_stamp(version), mine, values, deadline)

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        self._kind.check_delete(key, version)
        if version == ANY:
            await self._delete_any(key, deadline or self._deadline())
        else:
            expected = await self._expected(key, version, deadline)
            mine = expected.next(make_token(self._options.random), live=False)
            await self._replace(key, stored_stamp(version), mine, self._codec.emptied(), deadline)

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        until = deadline or deadline_of_all(self._options, len(operations))
        if len(operations) < _TOGETHER_MIN:
            return await carry_out_all(self, operations, until)
        reads, puts, others = list[int](), list[_Put](), list[int]()
        outcomes: dict[int, Outcome[R]] = {}
        for index, each in enumerate(operations):
            try:
                if isinstance(each, Read):
                    self._kind.check(each.key)
                    reads.append(index)
                elif (put := self._put_of(index, each)) is not None:
                    puts.append(put)
                else:
                    others.append(index)
            except HedwigError as exc:
                outcomes[index] = Outcome(error=exc)
        results = await asyncio.gather(
            self._read_all([operations[index].key for index in reads], until),
            self._put_all(puts, until),
            carry_out_all(self, [operations[index] for index in others], until),
        )
        for indices, found in zip((reads, [put.at for put in puts], others), results, strict=True):
            outcomes.update(zip(indices, found, strict=True))
        return [outcomes[index] for index in range(len(operations))]

    def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        return self._scan.scan(topic)

    def names_of(self, topic: Topic, start_after: SubscriberId | None) -> AsyncGenerator[list[SubscriberId], None]:
        return self._scan.names_of(topic, start_after)

    async def written_before(self, before_ms: float) -> AsyncGenerator[list[tuple[RecordKey, Version]], None]:
        """Iterate over pages of the records that were last written before a time of HBase's clocks."""
        column = self._columns.version
        async for page in self._scan.row_pages(b"", bucket_start(BUCKETS), (column,)):
            old = []
            for row in page:
                if row.cells[column].timestamp_ms < before_ms:
                    key, outcome = self._codec.read(row)
                    if outcome.record is not None:
                        old.append((key, outcome.record.version))
            if old:
                yield old

    async def count_of(self, topic: Topic) -> int:
        return await self._scan.count_of(topic)

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        return self._scan.topics(prefix, start_after)

    def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        return self._scan.records(prefix, start_after)

    async def key_ranges(self, parts: int, prefix: bytes | None, rows_min: int) -> list[KeyRange]:
        return await self._scan.key_ranges(parts, prefix, rows_min)

    def range_records(self, keys: KeyRange) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        return self._scan.range_records(keys)

    def packed_range(self, keys: KeyRange) -> AsyncGenerator[PackedPage, None]:
        return self._scan.packed_range(keys)

    async def count(self, advance: Callable[[int], None] | None = None) -> int:
        return await self._scan.count(advance)

    async def estimate(self) -> Estimate:
        return await self._scan.estimate()

    async def sweep(self, older_than_s: float, kept_from_ms: Callable[[], Awaitable[float]], *, dry_run: bool) -> int:
        """Remove, or with `dry_run` count, the tombstones written more than `older_than_s` seconds ago.

        Returns: how many there were.

        Tombstones that were written at `kept_from_ms` or later stay. It is called after a page of tombstones was read.
        So a reader of changes that begins later finds these tombstones present already, or needs none of them.

        Each tombstone is removed by a conditional delete at its cells' own timestamps, which hides nothing that is
        written later. Afterwards the row is absent, so the age must exceed by far the time that any call can take.
        """
        before_ms = (self._options.clock.wall() - older_than_s) * 1000
        removed = 0
        async for page in self._scan.row_pages(b"", bucket_start(BUCKETS), self._columns.all, letter=TOMBSTONE):
            limit_ms = min(before_ms, await kept_from_ms())
            for row in page:
                if row.cells[self._columns.version].timestamp_ms < limit_ms:
                    removed += dry_run or await self._remove(row)
        return removed

    async def _remove(self, row: Row) -> bool:
        column = self._columns.version
        cells = {name: cell.timestamp_ms for name, cell in row.cells.items()}
        attempts = Attempts(self._options, f"sweep {self._table}")
        # Repeating the delete after a lost answer is harmless, since a tombstone that is gone does not match.
        return await attempts.read(
            lambda deadline: self._driver.delete_if(
                self._table, row.key, column, row.cells[column].value, cells, deadline
            )
        )

    async def _get(self, key: RecordKey, deadline: Deadline | None = None) -> Row | None:
        attempts = Attempts(self._options, _Work("read", self._kind.noun, key), deadline)
        return await attempts.read(
            lambda deadline: self._driver.get(self._table, _row(key), self._columns.all, deadline)
        )

    def _record_in(self, key: RecordKey, row: Row | None) -> Versioned[R] | None:
        stamp = self._codec.stamp(key, row)
        return self._codec.versioned(key, row, stamp) if stamp is not None and stamp.live else None

    async def _read_all(self, keys: Sequence[RecordKey], deadline: Deadline) -> list[Outcome[R]]:
        """Read records in one batch, and read alone what the batch did not return."""
        rows = await self._driver.get_all(self._table, [_row(key) for key in keys], self._columns.all, deadline)
        outcomes: list[Outcome[R]] = []
        alone = []
        for index, (key, row) in enumerate(zip(keys, rows, strict=True)):
            if isinstance(row, Exception):
                alone.append(index)
                outcomes.append(Outcome())
                continue
            try:
                outcomes.append(Outcome(record=self._record_in(key, row)))
            except HedwigError as exc:
                outcomes.append(Outcome(error=exc))
        results = await carry_out_all(self, [Read(keys[index]) for index in alone], deadline)
        for index, outcome in zip(alone, results, strict=True):
            outcomes[index] = outcome
        return outcomes

    def _put_of(self, at: int, operation: Write[R] | Delete) -> "_Put | None":
        """Return the put that carries out an operation; None if it must first read what is there.

        Raises: InvalidArgumentError, RecordTooLargeError.
        """
        key, version = operation.key, operation.version
        parts: tuple[bytes | None, ...] = ()
        if isinstance(operation, Delete):
            self._kind.check_delete(key, version)
            values, is_live = self._codec.emptied(), False
        else:
            parts = self._codec.pack(key, operation.record)
            values, is_live = self._codec.values(parts, keep_absent=operation.merge or version == NEW), True
        if version == ANY:
            return None
        token = make_token(self._options.random)
        if version == NEW:
            return _Put(at, key, None, Stamp.first(self._options.clock, token), values, parts)
        expected = _stamp_in(version)
        if expected is None:
            return None
        return _Put(at, key, stored_stamp(version), expected.next(token, live=is_live), values, parts)

    async def _put_all(self, puts: Sequence["_Put"], deadline: Deadline) -> list[Outcome[R]]:
        """Carry out puts in one batch; continue alone with those that it did not apply.

        Alone, each would cost several times as much.
        """
        try:
            check_lease()
        except MetadataUnavailableError as exc:
            return [Outcome(error=exc)] * len(puts)
        answers = await self._driver.put_all(
            [self._put(put.key, put.condition, put.mine, put.values) for put in puts],
            within_lease(self._options.clock, deadline),
        )
        outcomes: list[Outcome[R] | None] = []
        alone = []
        for index, (put, answer) in enumerate(zip(puts, answers, strict=True)):
            if answer is None:
                outcomes.append(Outcome(version=version_of(put.mine)) if put.mine.live else Outcome())
            else:
                outcomes.append(None)
                alone.append((index, self._go_on(put, answer, deadline)))
        results = await asyncio.gather(*(_outcome_of(work) for _, work in alone))
        for (index, _), outcome in zip(alone, results, strict=True):
            outcomes[index] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    async def _go_on(self, put: "_Put", answer: Refusal[Row] | Exception, deadline: Deadline) -> Version | None:
        """Continue with a put whose first attempt had this answer; return the version of a record that lives."""
        if put.condition is None:
            return await self._create(put.key, put.parts, deadline, _Begun(put.mine, answer))
        version = await self._replace(put.key, put.condition, put.mine, put.values, deadline, answer)
        return version if put.mine.live else None

    async def _create(
        self,
        key: RecordKey,
        parts: tuple[bytes | None, ...],
        deadline: Deadline | None = None,
        begun: _Begun | None = None,
    ) -> Version:
        """Create a record in an absent row, or in one that holds a tombstone."""
        values = self._codec.values(parts, keep_absent=True)
        work = _Work("create", self._kind.noun, key)
        attempts = Attempts(self._options, work, deadline)
        condition: bytes | None = None
        mine = Stamp.first(self._options.clock, make_token(self._options.random)) if begun is None else begun.mine
        answer = None if begun is None else begun.answer
        while True:
            refusal = await self._put_if(attempts, key, condition, mine, values, answer)
            if refusal is None:
                return version_of(mine)
            stamp = self._codec.stamp(key, refusal.current)
            if stamp is not None and stamp.live:
                raise self._kind.exists(key, self._codec.versioned(key, refusal.current, stamp))
            condition = None if stamp is None else stamp.encode()
            mine, answer = self._following(stamp, mine.token), None

    async def _replace(
        self,
        key: RecordKey,
        condition: bytes,
        mine: Stamp,
        values: dict[bytes, bytes],
        deadline: Deadline | None = None,
        answer: Refusal[Row] | Exception | None = None,
    ) -> Version:
        """Overwrite the record whose version column holds `condition`. A tombstone in `mine` deletes it.

        `answer` is that of the first attempt, if that was made already.
        """
        attempts = Attempts(self._options, _Work("write" if mine.live else "delete", self._kind.noun, key), deadline)
        refusal = await self._put_if(attempts, key, condition, mine, values, answer)
        if refusal is not None:
            raise self._conflict(key, refusal.current)
        return version_of(mine)

    async def _write_any(
        self, key: RecordKey, parts: tuple[bytes | None, ...], deadline: Deadline, *, merge: bool
    ) -> Version:
        while True:
            condition, stamp = await self._whatever_is(key, deadline)
            try:
                if condition is None or (stamp is not None and not stamp.live):
                    return await self._create(key, parts, deadline)
                mine = self._following(stamp, make_token(self._options.random))
                values = self._codec.values(parts, keep_absent=merge)
                return await self._replace(key, condition, mine, values, deadline)
            except (BadVersionError, NoRecordError):
                if deadline.expired:
                    raise

    async def _delete_any(self, key: RecordKey, deadline: Deadline) -> None:
        while True:
            condition, stamp = await self._whatever_is(key, deadline)
            if condition is None or (stamp is not None and not stamp.live):
                raise self._kind.missing(key)
            mine = self._following(stamp, make_token(self._options.random), live=False)
            try:
                await self._replace(key, condition, mine, self._codec.emptied(), deadline)
                return
            except BadVersionError:
                if deadline.expired:
                    raise

    async def _whatever_is(self, key: RecordKey, deadline: Deadline) -> tuple[bytes | None, Stamp | None]:
        """Return the stored version column and its stamp. The stamp is None if it cannot be read; ANY repairs that."""
        condition = self._codec.compared(await self._get(key, deadline))
        with suppress(ValueError):
            return condition, None if condition is None else Stamp.decode(condition)
        return condition, None

    def _following(self, stamp: Stamp | None, token: bytes, *, live: bool = True) -> Stamp:
        if stamp is not None:
            return stamp.next(token, live=live)
        return replace(Stamp.first(self._options.clock, token), live=live)

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
        """Repeat a put until its outcome is known. `answer` is that of its first attempt, if that was made already."""
        put = self._put(key, condition, mine, values)
        answers = [] if answer is None else [answer]

        async def attempt(deadline: Deadline) -> Refusal[Row] | None:
            return self._confirmed(put, answers.pop() if answers else await self._driver.put_if(put, deadline))

        return await attempts.write(attempt, lambda row: judge(mine, self._codec.stamp(key, row)))

    def _confirmed(self, put: ConditionalPut, answer: Refusal[Row] | Exception | None) -> Refusal[Row] | None:
        """Return the answer to a put, or raise it. Raises NotAppliedError - the refusal shows the expected value."""
        if isinstance(answer, Exception):
            raise answer
        if answer is not None and self._codec.compared(answer.current) == put.expected:
            # Between the refusal and the read, another write made the row hold what the condition asks for.
            raise NotAppliedError("the record changed back and forth")
        return answer

    async def _expected(self, key: RecordKey, version: Version, deadline: Deadline | None) -> Stamp:
        """Return the stamp in `version`. If it is no version of this backend, raise the refusal of a write with it."""
        expected = _stamp_in(version)
        if expected is not None:
            return expected
        raise self._conflict(key, await self._get(key, deadline))

    def _deadline(self) -> Deadline:
        return Deadline.after(self._options.clock, self._options.operation_timeout_s)

    def _conflict(self, key: RecordKey, row: Row | None) -> BadVersionError | NoRecordError:
        stamp = self._codec.stamp(key, row)
        if row is None or stamp is None or not stamp.live:
            return self._kind.missing(key)
        return self._kind.stale(key, self._codec.versioned(key, row, stamp))


def _stamp_in(version: Version) -> Stamp | None:
    """Return the stamp of a live record in `version`; None if it is no version of this backend."""
    if version.raw[:1] == VERSION_TAG:
        with suppress(ValueError):
            stamp = Stamp.decode(stored_stamp(version))
            if stamp.live:
                return stamp
    return None


async def _outcome_of(work: Awaitable[Version | None]) -> Outcome[Any]:
    """Return the outcome of a write, which is its version or its error."""
    try:
        return Outcome(version=await work)
    except HedwigError as exc:
        return Outcome(error=exc)


def _row(key: RecordKey) -> bytes:
    return topic_key(key.topic) + (key.subscriber or b"")
