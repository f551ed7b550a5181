"""Open a namespace of HBase tables, and create its layout, over any driver."""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

import msgpack

from hedwig.clock import Deadline
from hedwig.errors import (
    ConfigurationError,
    CorruptRecordError,
    LayoutMismatchError,
    LayoutMissingError,
    MetadataForbiddenError,
)
from hedwig.metadata.calls.attempts import Attempts, Refusal
from hedwig.metadata.calls.indexed_table import subscription_key
from hedwig.metadata.contract.backend import Estimate, IndexState, StoreOptions
from hedwig.metadata.contract.kinds import BY_SUBSCRIBER, KINDS, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.layout import (
    FORMAT_MAJOR,
    FORMAT_MINOR,
    LOGS_PREFIX,
    SHARED_LOGS_MAJOR,
    Layout,
    check_layout,
)
from hedwig.metadata.contract.operations import Outcome, Read, RecordKey
from hedwig.metadata.contract.table import VersionedTable
from hedwig.metadata.contract.topic_listing import merge_topics
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.hbase.change_reader import ChangeReader, ReaderRecord
from hedwig.metadata.hbase.changes import HBaseChanges
from hedwig.metadata.hbase.driver import ConditionalPut, HBaseDriver, Row, TableSpec
from hedwig.metadata.hbase.keys import topic_key
from hedwig.metadata.hbase.named_records import HBaseNamedRecords
from hedwig.metadata.hbase.recent_rows import RecentTable
from hedwig.metadata.hbase.schema import LAYOUT_COLUMN, LAYOUT_VERSION_COLUMN, Tables
from hedwig.metadata.hbase.tables import HBaseTable
from hedwig.metadata.records.index_state import read_index_state, write_index_state
from hedwig.metadata.records.stamps import Stamp, make_token
from hedwig.metadata.records.stamps import judge as judge_stamp
from hedwig.model import SubscriberId, Topic
from hedwig.outcomes import NotAppliedError
from hedwig.versions import Version

__all__ = ["HBaseBackend", "HBaseFactory"]

R = TypeVar("R")
T = TypeVar("T")

_KIND: Final = "hbase"
"""One kind for all drivers. They share the tables, so each opens what another wrote."""


class HBaseFactory:
    """A BackendFactory over a function that connects a driver."""

    def __init__(self, connect: Callable[[MetadataUrl, StoreOptions], Awaitable[HBaseDriver]]) -> None:
        self._connect = connect

    async def read_layout(self, url: MetadataUrl, options: StoreOptions) -> Layout | None:
        store = await self._reach(url, options)
        try:
            return await store.read_layout()
        finally:
            await store.close()

    async def open(self, url: MetadataUrl, options: StoreOptions) -> "HBaseBackend":
        store = await self._reach(url, options)
        try:
            check_layout(await store.read_layout(), kind=_KIND, url=url.text)
            await store.check_tables()
            store.index_state = await read_index_state(store.named_records)
        except BaseException:
            await store.close()
            raise
        return store

    async def format(self, url: MetadataUrl, options: StoreOptions, *, wipe: bool = False) -> Layout:
        store = await self._reach(url, options)
        try:
            return await store.format(wipe=wipe)
        finally:
            await store.close()

    async def _reach(self, url: MetadataUrl, options: StoreOptions) -> "HBaseBackend":
        namespace = url.path.strip("/")
        if not namespace:
            raise ConfigurationError(
                f"{url.text!r} names no namespace; write for example {url.scheme}://{url.hosts or 'localhost'}/hedwig"
            )
        tables = Tables(namespace)
        return HBaseBackend(url, tables, await self._connect(url, options), options)


class HBaseBackend:
    """An open namespace."""

    partial_update = True
    gathers = True

    def __init__(self, url: MetadataUrl, tables: Tables, driver: HBaseDriver, options: StoreOptions) -> None:
        self._url = url
        self._names = tables
        self._driver = driver
        self._options = options
        self.named_records = HBaseNamedRecords(tables, driver, options)
        self._reader_record = ReaderRecord(tables, driver, options)
        self._tables: dict[str, HBaseTable[Any]] = {
            kind.name: HBaseTable(kind, tables.name(kind), driver, options) for kind in KINDS
        }
        self.index_state = IndexState.OFF
        self._index: HBaseTable[None] = HBaseTable(BY_SUBSCRIBER, tables.name(BY_SUBSCRIBER), driver, options)

    async def set_index_state(self, state: IndexState) -> None:
        if state is not IndexState.OFF:
            # The table comes first, since whoever reads that the index is kept writes to it.
            await self._make_index()
        await write_index_state(self.named_records, state, self._options.random)
        self.index_state = state

    async def _make_index(self) -> None:
        """Make the table of the index, if there is none, with as many HBase regions as the subscriptions have."""
        name = self._names.name(SUBSCRIPTIONS)
        starts = await self._attempts(f"list the HBase regions of {name}").read(
            lambda deadline: self._driver.region_starts(name, deadline)
        )
        await self._create(self._names.spec(BY_SUBSCRIBER, max(1, len(starts))))

    async def topics_of(self, subscriber: SubscriberId, start_after: Topic | None) -> AsyncGenerator[list[Topic], None]:
        last = None if start_after is None else SubscriberId(start_after)
        async with aclosing(self._index.names_of(Topic(subscriber), last)) as pages:
            async for page in pages:
                yield [Topic(name) for name in page]

    async def stray_entries(self, older_than_s: float) -> AsyncGenerator[list[tuple[RecordKey, Version]], None]:
        before_ms = (self._options.clock.wall() - older_than_s) * 1000
        async with aclosing(self._index.written_before(before_ms)) as pages:
            async for page in pages:
                keys = [subscription_key(entry) for entry, _ in page]
                outcomes = await self._tables[SUBSCRIPTIONS.name].apply([Read(key) for key in keys])
                strays = []
                for key, (_, version), outcome in zip(keys, page, outcomes, strict=True):
                    if not isinstance(outcome.error, CorruptRecordError):
                        outcome.check()
                    if outcome == Outcome():
                        strays.append((key, version))
                if strays:
                    yield strays

    def table(self, kind: RecordKind[R]) -> VersionedTable[R]:
        if kind.name == BY_SUBSCRIBER.name:
            return cast(VersionedTable[R], self._index)
        return cast(VersionedTable[R], self._tables[kind.name])

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncGenerator[Topic, None]:
        return merge_topics(list(self._tables.values()), self.sort_key, prefix, start_after)

    async def count(self, advance: Callable[[int], None]) -> Mapping[str, int]:
        return {name: await table.count(advance) for name, table in self._tables.items()}

    async def estimate(self) -> Mapping[str, Estimate]:
        return {name: await table.estimate() for name, table in self._tables.items()}

    def sort_key(self, topic: Topic) -> bytes:
        return topic_key(topic)

    async def sweep(self, older_than_s: float, *, dry_run: bool) -> int:
        kept_from_ms = self._reader_record.kept_from_ms
        tables = list(self._tables.values())
        if await self._exists(self._names.name(BY_SUBSCRIBER)):
            tables.append(self._index)
        return sum([await table.sweep(older_than_s, kept_from_ms, dry_run=dry_run) for table in tables])

    def changes(self, kinds: Sequence[RecordKind[Any]]) -> HBaseChanges:
        """Return the changes of records of `kinds`."""
        tables = [RecentTable(kind, self._names.name(kind), self._driver, self._options) for kind in kinds]
        return HBaseChanges(tables, ChangeReader(self._reader_record, self._options))

    async def close(self) -> None:
        await self._driver.close()

    async def describe(self) -> Mapping[str, str]:
        layout = check_layout(await self.read_layout(), kind=_KIND, url=self._url.text)
        facts = {
            "backend": _KIND,
            "format": f"{layout.major}.{layout.minor}",
            "store id": layout.store_id,
            **await self._attempts("describe").read(self._driver.describe),
        }
        for kind in KINDS:
            facts[self._names.name(kind)] = await self._describe_table(self._names.name(kind))
        index = self._names.name(BY_SUBSCRIBER)
        if await self._exists(index):
            facts[index] = await self._describe_table(index)
        return facts

    async def _describe_table(self, name: str) -> str:
        try:
            table = await self._attempts(f"describe {name}").read(
                lambda deadline: self._driver.describe_table(name, deadline)
            )
        except MetadataForbiddenError:
            return "HBase shows it only to users who may create tables"
        servers = sorted(set(table.region_servers))
        regions = f"{len(table.region_servers)} HBase regions on {', '.join(servers)}"
        return f"{regions}; families {', '.join(table.families)}"

    async def read_layout(self) -> Layout | None:
        """Return the layout; None if the namespace has none, or one that was not finished.

        A change of the format may have been interrupted, so that managers' records differ in it. The higher one counts.

        Raises: LayoutMismatchError - the records of the managers contradict one another.
        """
        if not await self._exists(self._names.layout):
            return None
        return self._combined(await self._layout_rows())

    async def set_format(self, major: int, *, unless: str | None = None) -> bool:
        rows = await self._layout_rows()
        check_layout(self._combined(rows), kind=_KIND, url=self._url.text)
        if unless is not None and await self.named_records.names(unless):
            return False
        # All calls change the records of the managers in one order. One that comes with a new named record changes each
        # after it was read here. So either it refuses this one, or it overwrites what this one has done.
        for row in rows:
            deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
            while (refusal := await self._write_major(row, major, deadline)) is not None:
                if unless is not None:
                    return False
                if refusal.current is None:
                    raise LayoutMissingError(f"the layout record of {row.key!r} in {self._names.layout} is gone")
                row = refusal.current
        return True

    async def _write_major(self, row: Row, major: int, deadline: Deadline) -> Refusal[Row] | None:
        """Record a format, under a new stamp, in the layout record of one manager if that is still `row`."""
        before = _stamp(row)
        if before is None:
            raise _mismatch(row)
        what = f"record format {major} of {row.key.decode()}"
        mine = before.next(make_token(self._options.random))
        return await self._put_layout(what, row.key, before, mine, _fields(row) | {"a": major}, deadline)

    async def _put_layout(
        self,
        what: str,
        row: bytes,
        before: Stamp | None,
        mine: Stamp,
        fields: Mapping[str, Any],
        deadline: Deadline | None = None,
    ) -> Refusal[Row] | None:
        """Write the layout record of one manager if it has the stamp `before`, None for no record."""
        put = ConditionalPut(
            table=self._names.layout,
            row=row,
            column=LAYOUT_VERSION_COLUMN,
            expected=None if before is None else before.encode(),
            values={LAYOUT_VERSION_COLUMN: mine.encode(), LAYOUT_COLUMN: msgpack.packb(fields)},
            token=mine.token,
            show=(LAYOUT_VERSION_COLUMN, LAYOUT_COLUMN),
        )
        return await Attempts(self._options, what, deadline).write(
            lambda deadline: self._driver.put_if(put, deadline), lambda row: judge_stamp(mine, _stamp(row))
        )

    async def _layout_rows(self) -> list[Row]:
        """Return the layout records of the managers, without those that do not exist."""
        columns = (LAYOUT_VERSION_COLUMN, LAYOUT_COLUMN)
        rows = [
            await self._attempts(f"read the layout of {kind.name}").read(
                lambda deadline, kind=kind: self._driver.get(  # type: ignore[misc]
                    self._names.layout, kind.name.encode(), columns, deadline
                )
            )
            for kind in KINDS
        ]
        return [row for row in rows if row is not None]

    def _combined(self, rows: Sequence[Row]) -> Layout | None:
        """Return the layout in the records of the managers; None if one lacks. Raises: LayoutMismatchError."""
        layouts = [_layout(row) for row in rows]
        if len(layouts) < len(KINDS):
            return None
        major = max(each.major for each in layouts)
        if len({replace(each, major=major) for each in layouts}) > 1:
            raise LayoutMismatchError(f"the managers' layout records in {self._names.layout} differ: {layouts}")
        return replace(layouts[0], major=major)

    async def check_tables(self) -> None:
        """Raise LayoutMissingError if a table does not exist."""
        for kind in KINDS:
            name = self._names.name(kind)
            if not await self._exists(name):
                raise LayoutMissingError(
                    f"HBase has no table {name}; make it with: "
                    f"hedwig-admin metadata format --metadata '{self._url.text}'"
                )

    async def format(self, *, wipe: bool) -> Layout:
        """Create what is missing, and return the layout. With `wipe`, drop the managers' tables first.

        `wipe` keeps the layout table, because it has the named records. It deletes only the managers' rows there.
        """
        if wipe:
            await self._check_droppable()
            if await self._exists(self._names.layout):
                # A reader of changes would not see that all records are gone, so it has to begin again.
                await self._reader_record.forget()
                for kind in KINDS:
                    await self._forget_layout(kind.name)
            for name in (*(self._names.name(kind) for kind in KINDS), self._names.name(BY_SUBSCRIBER)):
                await self._drop(name)
        layout = None if wipe else await self.read_layout()
        if layout is not None:
            check_layout(layout, kind=_KIND, url=self._url.text)
        await self._attempts(f"create namespace {self._names.namespace}").read(
            lambda deadline: self._driver.create_namespace(self._names.namespace, deadline)
        )
        for spec in self._names.specs(self._options.regions):
            await self._create(spec)
        await self._format_index(is_new=wipe or layout is None)
        store_id = uuid.uuid4().hex
        # A wipe leaves the records of shared logs, until a sweep finds that no topic refers to them any more.
        major = SHARED_LOGS_MAJOR if await self.named_records.names(LOGS_PREFIX) else FORMAT_MAJOR
        for kind in KINDS:
            store_id = await self._write_layout(kind.name, store_id, major)
        return check_layout(await self.read_layout(), kind=_KIND, url=self._url.text)

    async def _format_index(self, *, is_new: bool) -> None:
        """Make the index that a new store is to have, and of another store's what is missing."""
        state = await read_index_state(self.named_records)
        wanted = IndexState.WHOLE if self._options.indexes_subscribers else IndexState.OFF
        if is_new and (wanted is not state or wanted is IndexState.WHOLE):
            await self.set_index_state(wanted)
        elif state is not IndexState.OFF:
            await self._make_index()

    async def _check_droppable(self) -> None:
        """Raise MetadataForbiddenError unless this user may drop tables. HBase asks for the same right to show one."""
        for kind in KINDS:
            name = self._names.name(kind)
            if await self._exists(name):
                await self._attempts(f"drop table {name}").read(
                    lambda deadline, name=name: self._driver.describe_table(name, deadline)  # type: ignore[misc]
                )

    async def _write_layout(self, manager: str, store_id: str, major: int) -> str:
        """Record the layout of one manager unless it has one. Return the recorded store id."""
        mine = Stamp.first(self._options.clock, make_token(self._options.random))
        fields = {"k": _KIND, "a": major, "i": FORMAT_MINOR, "u": store_id}
        refusal = await self._put_layout(f"record the layout of {manager}", manager.encode(), None, mine, fields)
        if refusal is None or refusal.current is None:
            return store_id
        return _layout(refusal.current).store_id

    async def _forget_layout(self, manager: str) -> None:
        """Delete the layout record of one manager, also one that another program wrote."""
        table, row, columns = self._names.layout, manager.encode(), (LAYOUT_VERSION_COLUMN, LAYOUT_COLUMN)

        async def attempt(deadline: Deadline) -> None:
            stored = await self._driver.get(table, row, columns, deadline)
            held = [column for column in columns if stored is not None and stored.value(column) is not None]
            if stored is None or not held:
                return
            # The delete has the cells' own times, so it hides nothing that is written later.
            cells = {column: cell.timestamp_ms for column, cell in stored.cells.items()}
            expected = stored.cells[held[0]].value
            if not await self._driver.delete_if(table, row, held[0], expected, cells, deadline):
                raise NotAppliedError("another process wrote it at the same time")

        await self._attempts(f"delete the layout of {manager}").read(attempt)

    async def _exists(self, table: str) -> bool:
        return await self._attempts(f"look for table {table}").read(
            lambda deadline: self._driver.table_exists(table, deadline)
        )

    async def _create(self, spec: TableSpec) -> None:
        # Creating a table that exists is harmless, so a call whose answer got lost is simply repeated.
        await self._attempts(f"create table {spec.name}").read(
            lambda deadline: self._driver.create_table(spec, deadline)
        )

    async def _drop(self, table: str) -> None:
        await self._attempts(f"drop table {table}").read(lambda deadline: self._driver.drop_table(table, deadline))

    def _attempts(self, what: str) -> Attempts:
        return Attempts(self._options, what)


def _stamp(row: Row | None) -> Stamp | None:
    raw = None if row is None else row.value(LAYOUT_VERSION_COLUMN)
    if row is None or raw is None:
        return None
    try:
        return Stamp.decode(raw)
    except ValueError as exc:
        raise _mismatch(row) from exc


def _layout(row: Row) -> Layout:
    fields = _fields(row)
    try:
        return Layout(kind=fields["k"], major=fields["a"], minor=fields["i"], store_id=fields["u"])
    except KeyError as exc:
        raise _mismatch(row) from exc


def _fields(row: Row) -> dict[str, Any]:
    """Return the fields of a layout record, also those that are not known here. Raises: LayoutMismatchError."""
    try:
        fields = msgpack.unpackb(row.value(LAYOUT_COLUMN) or b"")
    except (ValueError, msgpack.UnpackException) as exc:
        raise _mismatch(row) from exc
    if not isinstance(fields, dict):
        raise _mismatch(row)
    return fields


def _mismatch(row: Row) -> LayoutMismatchError:
    return LayoutMismatchError(
        f"the layout record of {row.key!r} is not one that {_KIND!r} can read; another program wrote it"
    )
