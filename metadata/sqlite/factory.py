"""Opening and laying out a SQLite store: one file, which the first user creates."""

import asyncio
import os
import sqlite3
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from hedwig.errors import (
    ConfigurationError,
    LayoutMismatchError,
    LayoutMissingError,
    MetadataForbiddenError,
    MetadataUnavailableError,
)
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.kinds import KINDS, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.layout import Layout, check_layout
from hedwig.metadata.contract.table import VersionedTable
from hedwig.metadata.contract.topic_listing import merge_topics
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.sqlite.changes import SqliteChanges
from hedwig.metadata.sqlite.named_records import SqliteNamedRecords, list_names
from hedwig.metadata.sqlite.reading import ReadOnlyThread, log_of, may_only_be_read
from hedwig.metadata.sqlite.sqlite_thread import MEMORY, SqliteThread, connect, is_forbidden
from hedwig.metadata.sqlite.tables import SqliteTable, table_schema
from hedwig.model import SubscriberId, Topic

__all__ = ["FACTORY", "SqliteFactory", "lay_out"]

R = TypeVar("R")

_KIND: Final = "sqlite"
_LAYOUT_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS layout (kind TEXT NOT NULL, major INTEGER NOT NULL, minor INTEGER NOT NULL, "
    "store_id TEXT NOT NULL)"
)
_BY_SUBSCRIBER: Final = (
    f"CREATE INDEX IF NOT EXISTS {SUBSCRIPTIONS.name}_by_subscriber ON {SUBSCRIPTIONS.name} (subscriber, topic)"
)
"""A file of an earlier version has no such index until `format`. Then SQLite reads all subscriptions instead."""


class SqliteFactory:
    """A BackendFactory for `sqlite:///path` (a file) and `sqlite://` (in memory, gone when closed).

    A file that does not exist is created and laid out, unless the URL says `?create=false`. A path that begins with
    `./` is relative to the working directory.
    """

    async def read_layout(self, url: MetadataUrl, options: StoreOptions) -> Layout | None:
        path = _path(url)
        if path != MEMORY and not await asyncio.to_thread(Path(path).exists):
            return None
        thread = await _thread("hedwig-sqlite-layout", path, url, options, writes=False)
        try:
            return await thread.run(f"read the layout of {url.text}", lambda connection: _read_layout(connection, url))
        finally:
            await thread.close()

    async def open(self, url: MetadataUrl, options: StoreOptions) -> "SqliteBackend":
        path = _path(url)
        if path == MEMORY or (_creates(url) and options.makes):
            return await self._open(url, path, options, _lay_out_if_empty)
        await _check_directory(url, path)
        check_layout(await self.read_layout(url, options), kind=_KIND, url=url.text)
        return await self._open(url, path, options, _lay_out_if_empty)

    async def format(self, url: MetadataUrl, options: StoreOptions, *, wipe: bool = False) -> Layout:
        backend = await self._open(url, _path(url), options, lay_out)
        try:
            if wipe:
                await backend.writer.run(f"wipe {url.text}", _wipe)
            return backend.layout
        finally:
            await backend.close()

    async def _open(
        self,
        url: MetadataUrl,
        path: str,
        options: StoreOptions,
        prepare: Callable[[sqlite3.Connection, MetadataUrl], Layout],
    ) -> "SqliteBackend":
        await _check_directory(url, path)
        is_closed = await _is_closed(path, options)
        writer = await _thread("hedwig-sqlite-writer", path, url, options, writes=not is_closed)
        try:
            layout = await writer.run(f"open {url.text}", lambda connection: prepare(connection, url))
        except BaseException:
            await writer.close()
            raise
        reader = writer
        if path != MEMORY and not is_closed:
            reader = await _thread("hedwig-sqlite-reader", path, url, options, writes=False)
        return SqliteBackend(url, layout, writer, reader, options)


class SqliteBackend:
    """An open SQLite store: one thread that writes, and for a file one that reads beside it."""

    partial_update = True
    gathers = False

    def __init__(
        self, url: MetadataUrl, layout: Layout, writer: SqliteThread, reader: SqliteThread, options: StoreOptions
    ) -> None:
        self.layout = layout
        """The layout when the store was opened. Its format may have changed since."""
        self.writer = writer
        self._url = url
        self._reader = reader
        self.named_records = SqliteNamedRecords(writer, reader)
        self._tables: dict[str, SqliteTable[Any]] = {
            kind.name: SqliteTable(kind, writer, reader, options) for kind in KINDS
        }

    def table(self, kind: RecordKind[R]) -> VersionedTable[R]:
        return cast(VersionedTable[R], self._tables[kind.name])

    def changes(self, kinds: Sequence[RecordKind[Any]]) -> SqliteChanges:
        """As TracksChanges.changes."""
        return SqliteChanges(kinds, self.writer)

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncGenerator[Topic, None]:
        return merge_topics(list(self._tables.values()), self.sort_key, prefix, start_after)

    def topics_of(self, subscriber: SubscriberId, start_after: Topic | None) -> AsyncGenerator[list[Topic], None]:
        return self._tables[SUBSCRIPTIONS.name].topics_of(subscriber, start_after)

    async def count(self, _advance: Callable[[int], None]) -> Mapping[str, int]:
        return {name: await table.count() for name, table in self._tables.items()}

    def sort_key(self, topic: Topic) -> bytes:
        return topic

    async def describe(self) -> Mapping[str, str | int]:
        pages, page_bytes = await self._reader.run("describe", _page_count)
        layout = await self._reader.run("describe", lambda connection: _layout(connection, self._url))
        return {
            "backend": _KIND,
            "format": f"{layout.major}.{layout.minor}",
            "store id": layout.store_id,
            "file": _path(self._url),
            "size bytes": pages * page_bytes,
            "SQLite": sqlite3.sqlite_version,
        }

    async def set_format(self, major: int, *, unless: str | None = None) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            _layout(connection, self._url)
            if unless is not None and list_names(connection, unless):
                return False
            connection.execute("UPDATE layout SET major = ?", (major,))
            return True

        return await self.writer.run(f"record format {major} of {self._url.text}", work)

    async def sweep(self, older_than_s: float, *, dry_run: bool) -> int:  # noqa: ARG002 - a delete leaves nothing here
        return 0

    async def close(self) -> None:
        await self.writer.close()
        await self._reader.close()


def _path(url: MetadataUrl) -> str:
    url.check_parameters(frozenset({"create"}))
    if url.parameters.get("create") not in (None, "true", "false"):
        raise ConfigurationError(f"{url.text!r}: the parameter create is true or false")
    if url.hosts:
        raise ConfigurationError(
            f"{url.text!r} names a host; write sqlite:///absolute/path or sqlite:///./relative/path"
        )
    if url.path in ("", "/"):
        return MEMORY
    return os.fspath(url.file)


async def _check_directory(url: MetadataUrl, path: str) -> None:
    if path != MEMORY and not await asyncio.to_thread(Path(path).parent.is_dir):
        raise ConfigurationError(f"cannot open {url.text}: the directory {Path(path).parent} does not exist")


def _creates(url: MetadataUrl) -> bool:
    return url.parameters.get("create", "true") == "true"


async def _is_closed(path: str, options: StoreOptions) -> bool:
    """Say whether the caller only reads the store, and this process may only read its file."""
    return options.reads_only and path != MEMORY and await asyncio.to_thread(may_only_be_read, path)


async def _thread(name: str, path: str, url: MetadataUrl, options: StoreOptions, *, writes: bool) -> SqliteThread:
    def begin() -> SqliteThread:
        return SqliteThread(name, connect(path, options), options, writes=writes)

    try:
        if not writes and await _is_closed(path, options):
            return await _begun(lambda: ReadOnlyThread(name, path, options))
        return await _begun(begin)
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise LayoutMismatchError(
                f"the file of {url.text} is not a SQLite database; {_KIND!r} cannot use it, choose another path"
            ) from exc
        if await _is_closed(path, options):
            raise MetadataForbiddenError(
                f"SQLite cannot read the file of {url.text} ({exc}): its log {log_of(path)} has changes. Reading "
                f"them needs {path}-shm, which this user can neither read nor make"
            ) from exc
        why = _why_closed(path) if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN else None
        if why or is_forbidden(exc):
            raise MetadataForbiddenError(f"SQLite cannot open the file of {url.text}: {why or exc}") from exc
        raise MetadataUnavailableError(f"SQLite cannot open the file of {url.text}: {exc}") from exc


async def _begun(begin: Callable[[], SqliteThread]) -> SqliteThread:
    """Return what `begin` returns, called where it may block. If the caller is cancelled, it ends once it is there."""
    begun: list[SqliteThread] = []
    is_wanted = True

    def run() -> SqliteThread:
        thread = begin()
        begun.append(thread)
        if not is_wanted:
            thread.end()
        return thread

    try:
        return await asyncio.to_thread(run)
    except asyncio.CancelledError:
        # `run` looks after it has appended, so one of the two ends the thread.
        is_wanted = False
        for thread in begun:
            thread.end()
        raise


def _why_closed(path: str) -> str | None:
    """Return why the operating system refuses to open a file for writing, None if it does not; create none."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return f"it cannot be made in {Path(path).absolute().parent}"
    except OSError as exc:
        return exc.strerror or str(exc)
    return None


def _lay_out_if_empty(connection: sqlite3.Connection, url: MetadataUrl) -> Layout:
    """Return the layout of the store; make it first if the file is empty.

    Raises: LayoutMismatchError - it is not ours; LayoutMissingError - a table of it is gone.
    """
    if not _table_names(connection):
        return lay_out(connection, url)
    layout = _layout(connection, url)
    missing = {kind.name for kind in KINDS} - _table_names(connection)
    if missing:
        raise LayoutMissingError(
            f"the file of {url.text} has no table {min(missing)}; make it with: "
            f"hedwig-admin metadata format --metadata '{url.text}'"
        )
    return layout


def lay_out(connection: sqlite3.Connection, url: MetadataUrl) -> Layout:
    """Return the layout of the store; make what is missing of it first."""
    stored = _read_layout(connection, url)
    layout = Layout(kind=_KIND, store_id=uuid.uuid4().hex)
    if stored is not None:
        layout = check_layout(stored, kind=_KIND, url=url.text)
    connection.execute(_LAYOUT_TABLE)
    for kind in KINDS:
        connection.execute(table_schema(kind))
    connection.execute(_BY_SUBSCRIBER)
    if stored is None:
        values = (layout.kind, layout.major, layout.minor, layout.store_id)
        connection.execute("INSERT INTO layout VALUES (?, ?, ?, ?)", values)
    return layout


def _layout(connection: sqlite3.Connection, url: MetadataUrl) -> Layout:
    """Return the layout of the store. Raises: LayoutError - there is none that can be used."""
    return check_layout(_read_layout(connection, url), kind=_KIND, url=url.text)


def _table_names(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _read_layout(connection: sqlite3.Connection, url: MetadataUrl) -> Layout | None:
    """Return the layout of the file, None for an empty one. Raises LayoutMismatchError for another program's file."""
    tables = _table_names(connection)
    if not tables:
        return None
    if "layout" not in tables:
        raise LayoutMismatchError(
            f"the SQLite file of {url.text} belongs to another program (it has the table {min(tables)!r}, but no "
            f"layout of {_KIND!r}); choose another path"
        )
    try:
        rows = connection.execute("SELECT kind, major, minor, store_id FROM layout").fetchall()
        ((kind, major, minor, store_id),) = rows
    except (sqlite3.OperationalError, ValueError) as exc:
        raise LayoutMismatchError(
            f"the layout record in the file of {url.text} is not one that {_KIND!r} wrote ({exc}); choose another path"
        ) from exc
    return Layout(kind=str(kind), major=int(major), minor=int(minor), store_id=str(store_id))


def _wipe(connection: sqlite3.Connection) -> None:
    for kind in KINDS:
        connection.execute(f"DELETE FROM {kind.name}")


def _page_count(connection: sqlite3.Connection) -> tuple[int, int]:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return pages, page_bytes


FACTORY: Final = SqliteFactory()
