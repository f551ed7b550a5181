"""The versioned tables of SQLite: compare-and-set inside one transaction."""

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgpack

from hedwig.clock import Deadline
from hedwig.errors import CorruptRecordError, HedwigError, MetadataError
from hedwig.metadata.calls.attempts import ListingTime, deadline_of_all
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import Delete, Operation, Outcome, Read, RecordKey, Write, outcome_of
from hedwig.metadata.contract.packed import PackedColumns, PackedPage
from hedwig.metadata.contract.scan import ScannedRecord
from hedwig.metadata.records.packing import part_codec
from hedwig.metadata.records.stamps import Stamp, are_live, make_token
from hedwig.metadata.sqlite.cuts import Cuts
from hedwig.metadata.sqlite.sqlite_thread import SqliteThread
from hedwig.model import SubscriberId, Topic
from hedwig.versions import ANY, NEW, Version, Versioned

__all__ = ["SqliteTable", "table_schema"]

R = TypeVar("R")

_VERSION_TAG: Final = b"s"
_CHUNK: Final = 512
"""How many operations of one `apply` share a job: few enough that other callers get in between."""

_Position: TypeAlias = tuple[bytes, ...]
"""A position in the order of a table: a topic, optionally followed by a subscriber in the table of subscriptions."""


def table_schema(kind: RecordKind[Any]) -> str:
    """Return the statement that creates the table of `kind`: names and values as blobs, ordered by their bytes."""
    subscriber, key = ("subscriber BLOB NOT NULL, ", "topic, subscriber") if kind.has_subscriber else ("", "topic")
    parts = "".join(f"{part} BLOB, " for part in part_codec(kind).parts)
    return (
        f"CREATE TABLE IF NOT EXISTS {kind.name} (topic BLOB NOT NULL, {subscriber}version BLOB NOT NULL, {parts}"
        f"PRIMARY KEY ({key})) WITHOUT ROWID"
    )


class SqliteTable(Generic[R]):
    """A VersionedTable in one SQLite table. A deleted record leaves nothing, since its stamp's token never repeats."""

    def __init__(self, kind: RecordKind[R], writer: SqliteThread, reader: SqliteThread, options: StoreOptions) -> None:
        self._kind = kind
        self._writer = writer
        self._reader = reader
        self._options = options
        self._codec = part_codec(kind)
        columns = ", ".join(self._codec.parts)
        self._where = "topic = ? AND subscriber = ?" if kind.has_subscriber else "topic = ?"
        self._select = f"SELECT version, {columns} FROM {kind.name} WHERE {self._where}"
        self._assign = ", ".join(f"{part} = ?" for part in self._codec.parts)
        self._keep = ", ".join(f"{part} = coalesce(?, {part})" for part in self._codec.parts)
        names = "topic, subscriber" if kind.has_subscriber else "topic"
        marks = ", ".join("?" * (names.count(",") + 2 + len(self._codec.parts)))
        self._names = names
        self._insert = f"INSERT INTO {kind.name} ({names}, version, {columns}) VALUES ({marks})"

    async def read(self, key: RecordKey, deadline: Deadline | None = None) -> Versioned[R] | None:
        self._kind.check(key)
        return await self._reader.run(f"read {key}", lambda connection: self._read(connection, key), deadline)

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        work = self._write_work(Write(key, record, version, merge))
        return await self._writer.run(f"write {self._kind.noun} of {key}", work, deadline)

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        work = self._delete_work(Delete(key, version))
        await self._writer.run(f"delete {self._kind.noun} of {key}", work, deadline)

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        until = deadline or deadline_of_all(self._options, len(operations))
        # One job for many operations costs a tenth of one job for each.
        chunks = [operations[start : start + _CHUNK] for start in range(0, len(operations), _CHUNK)]
        return [outcome for chunk in chunks for outcome in await self._apply(chunk, until)]

    async def _apply(self, operations: Sequence[Operation[R]], deadline: Deadline) -> list[Outcome[R]]:
        works = [self._work(operation) for operation in operations]
        thread = self._reader if all(isinstance(operation, Read) for operation in operations) else self._writer
        try:
            return await thread.run(
                f"{len(works)} operations on {self._kind.name}",
                lambda connection: [work(connection) for work in works],
                deadline,
            )
        except MetadataError as exc:
            return [Outcome(error=exc)] * len(works)

    def _work(self, operation: Operation[R]) -> Callable[[sqlite3.Connection], Outcome[R]]:
        try:
            match operation:
                case Read(key):
                    self._kind.check(key)
                    return _outcome(lambda connection: Outcome(record=self._read(connection, key)))
                case Write():
                    write = self._write_work(operation)
                    return _outcome(lambda connection: Outcome(version=write(connection)))
                case Delete():
                    delete = self._delete_work(operation)

                    def deleting(connection: sqlite3.Connection) -> Outcome[R]:
                        delete(connection)
                        return Outcome()

                    return _outcome(deleting)
        except HedwigError as exc:
            refused: Outcome[R] = Outcome(error=exc)
            return lambda _: refused

    async def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        RecordKey(topic).check()
        columns = ", ".join(self._codec.parts)
        statement = (
            f"SELECT subscriber, version, {columns} FROM {self._kind.name} WHERE topic = ? AND subscriber > ? "
            "ORDER BY subscriber LIMIT ?"
        )
        last = b""
        time = ListingTime(self._options)
        while True:
            with time.waiting() as deadline:
                page = await self._page("scan", statement, (topic, last, self._options.page_rows), deadline)
            time.add(len(page))
            for subscriber, *row in page:
                name = SubscriberId(subscriber)
                yield name, self._versioned(RecordKey(topic, name), row)
            if len(page) < self._options.page_rows:
                return
            last = page[-1][0]

    async def count_of(self, topic: Topic) -> int:
        RecordKey(topic).check()
        statement = f"SELECT count(*) FROM {self._kind.name} WHERE topic = ?"
        ((number,),) = await self._page("count", statement, (topic,))
        assert isinstance(number, int), "count(*) is a number"
        return number

    async def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        # Distinct topics by one index search each: a topic with very many subscribers costs no more than another.
        statement = (
            f"WITH RECURSIVE listed(topic) AS (SELECT min(topic) FROM {self._kind.name} WHERE topic > ? "
            f"AND topic >= ? UNION ALL SELECT (SELECT min(topic) FROM {self._kind.name} WHERE topic > listed.topic) "
            "FROM listed WHERE listed.topic IS NOT NULL AND substr(listed.topic, 1, length(?)) = ?) "
            "SELECT topic FROM listed WHERE substr(topic, 1, length(?)) = ? LIMIT ?"
        )
        wanted = prefix or b""
        last: bytes = start_after or b""
        while True:
            page = await self._page("list topics", statement, (last, *[wanted] * 5, self._options.page_rows))
            for (topic,) in page:
                yield Topic(topic)
            if len(page) < self._options.page_rows:
                return
            last = page[-1][0]

    async def topics_of(self, subscriber: SubscriberId, start_after: Topic | None) -> AsyncGenerator[list[Topic], None]:
        """Iterate over pages of the topics of a subscriber, by their bytes."""
        statement = f"SELECT topic FROM {self._kind.name} WHERE subscriber = ? AND topic > ? ORDER BY topic LIMIT ?"
        last: bytes = start_after or b""
        while True:
            page = await self._page("list topics of", statement, (subscriber, last, self._options.page_rows))
            if page:
                yield [Topic(topic) for (topic,) in page]
            if len(page) < self._options.page_rows:
                return
            last = page[-1][0]

    async def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        wanted = prefix or b""
        is_after = start_after is not None and start_after >= wanted
        start = (start_after + b"\0",) if start_after is not None and is_after else (wanted,)
        async for page in self._between(start, _end_of(wanted)):
            yield page

    async def key_ranges(self, parts: int, prefix: bytes | None, rows_min: int) -> list[KeyRange]:
        wanted = prefix or b""
        start: _Position = (wanted,)
        stop = _end_of(wanted)
        cuts: Cuts[_Position] = Cuts(parts, rows_min)
        if parts > 1:
            await self._walk(cuts, start, stop)
        starts, rows = [start, *cuts.chosen()], cuts.rows_each if parts > 1 else 0
        ends: list[_Position | None] = [*starts[1:], stop]
        return [
            KeyRange(kind=self._kind.name, prefix=wanted, start=_packed(start), stop=_packed(end), rows=rows)
            for start, end in zip(starts, ends, strict=True)
        ]

    async def _walk(self, cuts: Cuts[_Position], start: _Position, stop: _Position | None) -> None:
        """Give `cuts` keys at even distances, without reading a record; `cuts.stride` bounds each request."""
        while True:
            where, values = _bounds(self._names, start, stop)
            stride = cuts.stride
            statement = (
                f"SELECT {self._names} FROM {self._kind.name} WHERE {where} ORDER BY {self._names} LIMIT 1 OFFSET ?"
            )
            keys = await self._page("list keys of", statement, (*values, stride))
            if not keys:
                ((rest,),) = await self._page(
                    "count the last of",
                    f"SELECT count(*) FROM (SELECT 1 FROM {self._kind.name} WHERE {where} LIMIT ?)",
                    (*values, stride),
                )
                assert isinstance(rest, int), "count(*) is a number"
                cuts.end(rest)
                return
            start = keys[0]
            cuts.passed(start)

    async def range_records(self, keys: KeyRange) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        async for page in self._between(_unpacked(keys.start), None if keys.stop is None else _unpacked(keys.stop)):
            yield page

    async def packed_range(self, keys: KeyRange) -> AsyncGenerator[PackedPage, None]:
        async for page in self._rows_between(
            _unpacked(keys.start), None if keys.stop is None else _unpacked(keys.stop)
        ):
            yield PackedPage(self._columns_of(page), partial(self._scanned, page))

    def _columns_of(self, page: list[tuple[bytes, ...]]) -> PackedColumns | None:
        topics, *rest = zip(*page, strict=True)
        subscribers = rest.pop(0) if self._kind.has_subscriber else ()
        versions, *parts = rest
        if not are_live(versions):
            return None
        return PackedColumns(topics, subscribers, [_VERSION_TAG + raw for raw in versions], parts)

    def _scanned(self, page: list[tuple[bytes, ...]]) -> list[ScannedRecord]:
        return [ScannedRecord(self._kind, *self._read_row(row)) for row in page]

    async def _between(
        self, start: _Position, stop: _Position | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        """Iterate over pages of the records from `start` on, up to but not at `stop`."""
        async for page in self._rows_between(start, stop):
            yield [self._read_row(row) for row in page]

    async def _rows_between(self, start: _Position, stop: _Position | None) -> AsyncIterator[list[tuple[bytes, ...]]]:
        """Iterate over pages of the rows from `start` on, up to but not at `stop`, none of them empty."""
        select = f"SELECT {self._names}, version, {', '.join(self._codec.parts)} FROM {self._kind.name} WHERE"
        where, values = _bounds(self._names, start, stop)
        while True:
            statement = f"{select} {where} ORDER BY {self._names} LIMIT ?"
            page = await self._page("scan", statement, (*values, self._options.page_rows))
            if page:
                yield page
            if len(page) < self._options.page_rows:
                return
            where, values = _bounds(self._names, page[-1][: 1 + self._kind.has_subscriber], stop, above=">")

    async def count(self) -> int:
        ((number,),) = await self._page("count", f"SELECT count(*) FROM {self._kind.name}", ())
        assert isinstance(number, int), "count(*) is a number"
        return number

    async def _page(
        self, what: str, statement: str, values: tuple[object, ...], deadline: Deadline | None = None
    ) -> list[tuple[bytes, ...]]:
        return await self._reader.run(
            f"{what} {self._kind.name}", lambda connection: connection.execute(statement, values).fetchall(), deadline
        )

    def _read_row(self, row: Sequence[bytes]) -> tuple[RecordKey, Outcome[R]]:
        topic, subscriber, rest = (row[0], row[1], row[2:]) if self._kind.has_subscriber else (row[0], None, row[1:])
        key = RecordKey(Topic(topic), None if subscriber is None else SubscriberId(subscriber))
        return key, outcome_of(lambda: self._versioned(key, rest))

    def _read(self, connection: sqlite3.Connection, key: RecordKey) -> Versioned[R] | None:
        row = connection.execute(self._select, _names(key)).fetchone()
        return None if row is None else self._versioned(key, row)

    def _versioned(self, key: RecordKey, row: Sequence[bytes | None]) -> Versioned[R]:
        raw, *parts = row
        assert raw is not None, "the version column admits no NULL"
        try:
            Stamp.decode(raw)
        except ValueError as exc:
            raise CorruptRecordError(
                f"the version of the {self._kind.noun} of {key} cannot be read: {exc}", _version(raw)
            ) from exc
        try:
            return Versioned(self._codec.read(self._kind.noun, key, parts), _version(raw))
        except CorruptRecordError as exc:
            exc.version = _version(raw)
            raise

    def _write_work(self, write: Write[R]) -> Callable[[sqlite3.Connection], Version]:
        self._kind.check(write.key)
        parts = self._codec.pack(write.record)
        self._kind.check_size(write.key, *parts)
        token = make_token(self._options.random)
        return lambda connection: self._write(connection, write, parts, token)

    def _delete_work(self, delete: Delete) -> Callable[[sqlite3.Connection], None]:
        self._kind.check_delete(delete.key, delete.version)
        return lambda connection: self._delete(connection, delete.key, delete.version)

    def _write(
        self, connection: sqlite3.Connection, write: Write[R], parts: tuple[bytes | None, ...], token: bytes
    ) -> Version:
        key = write.key
        stored = self._stored_version(connection, key)
        if stored is None:
            if write.version not in (NEW, ANY):
                raise self._kind.missing(key)
            raw = Stamp.first(self._options.clock, token).encode()
            connection.execute(self._insert, (*_names(key), raw, *parts))
            return _version(raw)
        self._check(connection, key, stored, write.version)
        raw = self._following(stored, token).encode()
        assign = self._keep if write.merge else self._assign
        connection.execute(
            f"UPDATE {self._kind.name} SET version = ?, {assign} WHERE {self._where}", (raw, *parts, *_names(key))
        )
        return _version(raw)

    def _following(self, stored: bytes, token: bytes) -> Stamp:
        """Return the stamp after the stored one; a first one if that cannot be read, which needs ANY or its version."""
        try:
            return Stamp.decode(stored).next(token)
        except ValueError:
            return Stamp.first(self._options.clock, token)

    def _delete(self, connection: sqlite3.Connection, key: RecordKey, version: Version) -> None:
        stored = self._stored_version(connection, key)
        if stored is None:
            raise self._kind.missing(key)
        self._check(connection, key, stored, version)
        connection.execute(f"DELETE FROM {self._kind.name} WHERE {self._where}", _names(key))

    def _stored_version(self, connection: sqlite3.Connection, key: RecordKey) -> bytes | None:
        row = connection.execute(f"SELECT version FROM {self._kind.name} WHERE {self._where}", _names(key)).fetchone()
        return None if row is None else row[0]

    def _check(self, connection: sqlite3.Connection, key: RecordKey, stored: bytes, version: Version) -> None:
        """Raise the refusal if `version` is neither ANY nor that of the stored record."""
        if version in (ANY, _version(stored)):
            return
        current = self._read(connection, key)
        assert current is not None, "the record was there in this transaction"
        raise self._kind.exists(key, current) if version == NEW else self._kind.stale(key, current)


def _outcome(
    work: Callable[[sqlite3.Connection], Outcome[R]],
) -> Callable[[sqlite3.Connection], Outcome[R]]:
    """Return `work` with its refusals as outcomes, so that one of them does not end its neighbours' transaction."""

    def refusable(connection: sqlite3.Connection) -> Outcome[R]:
        try:
            return work(connection)
        except MetadataError as exc:
            # The traceback says nothing that the text does not, and would keep these frames alive.
            return Outcome(error=exc.with_traceback(None))

    return refusable


def _bounds(
    names: str, start: _Position, stop: _Position | None, *, above: str = ">="
) -> tuple[str, tuple[bytes, ...]]:
    """Return the condition that a row is between two positions, and the values of its marks.

    There is only one lower bound. With two, SQLite might search by the wrong one and walk over all rows read before.
    """
    lower = f"{_columns(names, start)} {above} {_marks(start)}"
    if stop is None:
        return lower, start
    return f"{lower} AND {_columns(names, stop)} < {_marks(stop)}", (*start, *stop)


def _columns(names: str, position: _Position) -> str:
    return "topic" if len(position) == 1 else f"({names})"


def _marks(position: _Position) -> str:
    return "?" if len(position) == 1 else "(?, ?)"


def _end_of(prefix: bytes) -> _Position | None:
    """Return the position behind all topics that begin with `prefix`; None for the end of the table."""
    end = _past(prefix)
    return None if end is None else (end,)


def _packed(position: _Position | None) -> Any:
    return None if position is None else msgpack.packb(position)


def _unpacked(raw: bytes) -> _Position:
    return tuple(msgpack.unpackb(raw))


def _past(prefix: bytes) -> bytes | None:
    """Return the first name after all that begin with `prefix`; None if all others come before them."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _names(key: RecordKey) -> tuple[bytes, ...]:
    return (key.topic,) if key.subscriber is None else (key.topic, key.subscriber)


def _version(raw: bytes) -> Version:
    return Version(_VERSION_TAG + raw)
