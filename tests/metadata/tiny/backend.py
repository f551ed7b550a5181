"""The backend: compare-and-set over dictionaries, which all clients of one process share."""

import ast
import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import (
    ANY,
    NEW,
    KeyRange,
    Layout,
    MetadataUrl,
    NamedRecords,
    Operation,
    Outcome,
    RecordKey,
    StoreOptions,
    Version,
    Versioned,
    VersionedTable,
)
from hedwig.metadata.contract.key_ranges import steps
from hedwig.metadata.contract.kinds import KINDS, RecordKind
from hedwig.metadata.contract.layout import check_layout
from hedwig.metadata.contract.operations import outcome_of
from hedwig.metadata.contract.table import carry_out_all
from hedwig.metadata.contract.topic_listing import merge_topics
from hedwig.metadata.records.packing import part_codec
from hedwig.model import SubscriberId, Topic

__all__ = ["FACTORY", "Data", "Row", "data_at"]

R = TypeVar("R")

_numbers = itertools.count(1)


@dataclass(slots=True)
class Row:
    """A stored record: the number of its last write, and its encoded parts."""

    number: int
    parts: tuple[bytes | None, ...]

    @property
    def version(self) -> Version:
        return Version(b"tiny%d" % self.number)


@dataclass(slots=True)
class Data:
    """The content of one URL."""

    layout: Layout | None = None
    rows: dict[str, dict[RecordKey, Row]] = field(default_factory=lambda: {kind.name: {} for kind in KINDS})
    named: dict[str, bytes] = field(default_factory=dict)


_stores: dict[str, Data] = {}


def data_at(url: str) -> Data:
    """Return the content of `url`; create it if there is none."""
    return _stores.setdefault(url, Data())


def position_of(key: RecordKey) -> tuple[bytes, bytes]:
    """Return the position of a record in the order of its table."""
    return key.topic, key.subscriber or b""


class TinyTable(Generic[R]):
    """The records of one kind. The code awaits nothing between reading a row and changing it, so this is one step."""

    def __init__(self, backend: "TinyBackend", kind: RecordKind[R]) -> None:
        self._backend = backend
        self._kind = kind
        self._codec = part_codec(kind)

    @property
    def _rows(self) -> dict[RecordKey, Row]:
        if self._backend.is_closed:
            raise MetadataUnavailableError("the store is closed")
        return self._backend.data.rows[self._kind.name]

    def _versioned(self, key: RecordKey, row: Row) -> Versioned[R]:
        return Versioned(self._codec.read(self._kind.noun, key, row.parts), row.version)

    def _outcome(self, key: RecordKey, row: Row) -> Outcome[R]:
        return outcome_of(lambda: self._versioned(key, row))

    def _checked(self, key: RecordKey, version: Version) -> Row | None:
        """Return the row that may be changed; None if the caller may create it."""
        row = self._rows.get(key)
        if row is None:
            if version not in (NEW, ANY):
                raise self._kind.missing(key)
            return None
        if version in (row.version, ANY):
            return row
        current = self._versioned(key, row)
        raise self._kind.exists(key, current) if version == NEW else self._kind.stale(key, current)

    async def read(self, key: RecordKey, deadline: Deadline | None = None) -> Versioned[R] | None:
        self._kind.check(key)
        row = self._rows.get(key)
        return None if row is None else self._versioned(key, row)

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        self._kind.check(key)
        parts = self._codec.pack(record)
        self._kind.check_size(key, *parts)
        await asyncio.sleep(0)
        row = self._checked(key, version)
        if row is not None and merge:
            parts = tuple(was if part is None else part for part, was in zip(parts, row.parts, strict=True))
        written = self._rows[key] = Row(next(_numbers), parts)
        return written.version

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        self._kind.check_delete(key, version)
        await asyncio.sleep(0)
        if self._checked(key, version) is None:
            raise self._kind.missing(key)
        del self._rows[key]

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        return await carry_out_all(self, operations, deadline)

    async def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        for key in self._of(topic):
            await asyncio.sleep(0)
            row = self._rows.get(key)
            if row is not None and key.subscriber is not None:
                yield key.subscriber, self._versioned(key, row)

    async def count_of(self, topic: Topic) -> int:
        return len(self._of(topic))

    def _of(self, topic: Topic) -> list[RecordKey]:
        RecordKey(topic).check()
        return self._sorted(lambda key: key.topic == topic)

    def _sorted(self, is_wanted: Callable[[RecordKey], bool]) -> list[RecordKey]:
        return sorted(filter(is_wanted, self._rows), key=position_of)

    def _after(self, prefix: bytes | None, start_after: Topic | None) -> list[RecordKey]:
        return self._sorted(
            lambda key: key.topic.startswith(prefix or b"") and (start_after is None or key.topic > start_after)
        )

    def _pages(self, keys: list[RecordKey]) -> Iterator[list[tuple[RecordKey, Outcome[R]]]]:
        size = self._backend.options.page_rows
        for start in range(0, len(keys), size):
            rows = [(key, self._rows.get(key)) for key in keys[start : start + size]]
            yield [(key, self._outcome(key, row)) for key, row in rows if row is not None]

    async def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        for topic in dict.fromkeys(key.topic for key in self._after(prefix, start_after)):
            await asyncio.sleep(0)
            yield topic

    async def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        for page in self._pages(self._after(prefix, start_after)):
            yield page

    async def key_ranges(self, parts: int, prefix: bytes | None, rows_min: int) -> list[KeyRange]:
        keys = self._after(prefix, None)
        step = steps(len(keys), parts, rows_min)
        cuts = [b"", *(repr(position_of(key)).encode() for key in keys[step::step]), None]
        return [
            KeyRange(
                kind=self._kind.name, prefix=prefix or b"", start=start or b"", stop=stop, rows=min(step, len(keys))
            )
            for start, stop in itertools.pairwise(cuts)
        ]

    async def range_records(self, keys: KeyRange) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        start = ast.literal_eval(keys.start.decode()) if keys.start else ()
        stop = None if keys.stop is None else ast.literal_eval(keys.stop.decode())
        inside = [
            key
            for key in self._after(keys.prefix, None)
            if position_of(key) >= start and (stop is None or position_of(key) < stop)
        ]
        for page in self._pages(inside):
            yield page

    async def count(self) -> int:
        return len(self._rows)


class TinyNamedRecords:
    """The named records of a store."""

    def __init__(self, data: Data) -> None:
        self._data = data

    async def read(self, name: str) -> bytes | None:
        return self._data.named.get(name)

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        await asyncio.sleep(0)
        if self._data.named.get(name) != expected:
            return False
        self._data.named[name] = value
        return True

    async def delete(self, name: str, expected: bytes) -> bool:
        await asyncio.sleep(0)
        if self._data.named.get(name) != expected:
            return False
        del self._data.named[name]
        return True

    async def names(self, prefix: str) -> Sequence[str]:
        return sorted(name for name in self._data.named if name.startswith(prefix))


class TinyBackend:
    """An open store."""

    partial_update = True
    gathers = False

    def __init__(self, url: MetadataUrl, data: Data, options: StoreOptions) -> None:
        self.url = url
        self.data = data
        self.options = options
        self.is_closed = False

    @property
    def named_records(self) -> NamedRecords:
        return TinyNamedRecords(self.data)

    def table(self, kind: RecordKind[R]) -> VersionedTable[R]:
        return TinyTable(self, kind)

    def sort_key(self, topic: Topic) -> bytes:
        return topic

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncGenerator[Topic, None]:
        kinds: tuple[RecordKind[Any], ...] = KINDS
        return merge_topics([self.table(kind) for kind in kinds], self.sort_key, prefix, start_after)

    async def count(self, advance: Callable[[int], None]) -> Mapping[str, int]:
        return {name: len(rows) for name, rows in self.data.rows.items()}

    async def describe(self) -> Mapping[str, str | int]:
        return {"backend": "tiny"}

    async def set_format(self, major: int, *, unless: str | None = None) -> bool:
        if unless is not None and await self.named_records.names(unless):
            return False
        layout = check_layout(self.data.layout, kind="tiny", url=self.url.text)
        self.data.layout = replace(layout, major=major)
        return True

    async def sweep(self, older_than_s: float, *, dry_run: bool) -> int:
        return 0

    async def close(self) -> None:
        self.is_closed = True


class TinyFactory:
    """Opens `tiny://NAME`."""

    async def read_layout(self, url: MetadataUrl, options: StoreOptions) -> Layout | None:
        return data_at(url.text).layout

    async def open(self, url: MetadataUrl, options: StoreOptions) -> TinyBackend:
        check_layout(data_at(url.text).layout, kind="tiny", url=url.text)
        return TinyBackend(url, data_at(url.text), options)

    async def format(self, url: MetadataUrl, options: StoreOptions, *, wipe: bool = False) -> Layout:
        data = data_at(url.text)
        data.layout = data.layout or Layout(kind="tiny")
        if wipe:
            for rows in data.rows.values():
                rows.clear()
        return data.layout


FACTORY = TinyFactory()
