"""Opening and laying out a SQLite store: one file, which the first user creates."""

import asyncio
import os
import sqlite3
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from hedwig.errors import ConfigurationError, LayoutMismatchError, MetadataUnavailableError
from hedwig.model import Topic
from metadata.backend import StoreOptions
from metadata.kinds import KINDS, RecordKind
from metadata.layout import FORMAT_MAJOR, FORMAT_MINOR, Layout, check_layout
from metadata.sqlite.lane import Lane, connect
from metadata.sqlite.tables import SqliteTable, table_schema
from metadata.table import VersionedTable
from metadata.url import MetadataUrl

__all__ = ["FACTORY", "SqliteFactory"]

R = TypeVar("R")

_KIND: Final = "sqlite"
_MEMORY: Final = ":memory:"
_LAYOUT_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS layout (kind TEXT NOT NULL, major INTEGER NOT NULL, minor INTEGER NOT NULL, "
    "store_id TEXT NOT NULL)"
)


class SqliteFactory:
    """A BackendFactory for `sqlite:///path` (a file) and `sqlite://` (in memory, gone when closed).

    A file that does not exist is created and laid out, unless the URL says `?create=false`. A path that begins with
    `./` is relative to the working directory.
    """

    async def read_layout(self, url: MetadataUrl, options: StoreOptions) -> Layout | None:
        path = _path(url)
        if path != _MEMORY and not await asyncio.to_thread(Path(path).exists):
            return None
        lane = await _lane("hedwig-sqlite-layout", path, url, options, writes=False)
        try:
            return await lane.run(f"read the layout of {url.text}", lambda connection: _read_layout(connection, url))
        finally:
            await lane.close()

    async def open(self, url: MetadataUrl, options: StoreOptions) -> "SqliteBackend":
        path = _path(url)
        if path == _MEMORY or _creates(url):
            return await self._open(url, path, options)
        check_layout(await self.read_layout(url, options), kind=_KIND, url=url.text)
        return await self._open(url, path, options)

    async def format(self, url: MetadataUrl, options: StoreOptions, *, wipe: bool = False) -> Layout:
        backend = await self._open(url, _path(url), options)
        try:
            if wipe:
                await backend.writer.run(f"wipe {url.text}", _wipe)
            return backend.layout
        finally:
            await backend.close()

    async def _open(self, url: MetadataUrl, path: str, options: StoreOptions) -> "SqliteBackend":
        if path != _MEMORY and not await asyncio.to_thread(Path(path).parent.is_dir):
            raise ConfigurationError(f"cannot open {url.text}: the directory {Path(path).parent} does not exist")
        writer = await _lane("hedwig-sqlite-writer", path, url, options, writes=True)
        try:
            layout = await writer.run(f"open {url.text}", lambda connection: _lay_out(connection, url))
            check_layout(layout, kind=_KIND, url=url.text)
        except BaseException:
            await writer.close()
            raise
        reader = writer
        if path != _MEMORY:
            reader = await _lane("hedwig-sqlite-reader", path, url, options, writes=False)
        return SqliteBackend(path, layout, writer, reader, options)


class SqliteBackend:
    """An open SQLite store: one lane that writes, and for a file one that reads beside it."""

    partial_update = True

    def __init__(self, path: str, layout: Layout, writer: Lane, reader: Lane, options: StoreOptions) -> None:
        self.layout = layout
        self.writer = writer
        self._path = path
        self._reader = reader
        self._tables: dict[str, SqliteTable[Any]] = {
            kind.name: SqliteTable(kind, writer, reader, options) for kind in KINDS
        }

    def table(self, kind: RecordKind[R]) -> VersionedTable[R]:
        return cast(VersionedTable[R], self._tables[kind.name])

    def sort_key(self, topic: Topic) -> bytes:
        return topic

    async def describe(self) -> Mapping[str, str]:
        pages, page_bytes = await self._reader.run("describe", _page_count)
        return {
            "backend": _KIND,
            "format": f"{self.layout.major}.{self.layout.minor}",
            "store id": self.layout.store_id,
            "file": self._path,
            "size": f"{pages * page_bytes} bytes",
            "SQLite": sqlite3.sqlite_version,
        }

    async def sweep(self, older_than_s: float) -> int:  # noqa: ARG002 - a delete leaves nothing here
        return 0

    async def close(self) -> None:
        await self.writer.close()
        await self._reader.close()


def _path(url: MetadataUrl) -> str:
    url.check_parameters(frozenset({"create"}))
    if url.hosts:
        raise ConfigurationError(
            f"{url.text!r} names a host; write sqlite:///absolute/path or sqlite:///./relative/path"
        )
    if url.path in ("", "/"):
        return _MEMORY
    return os.fspath(Path(url.path[1:] if url.path.startswith("/./") else url.path))


def _creates(url: MetadataUrl) -> bool:
    choice = url.parameters.get("create", "true")
    if choice not in ("true", "false"):
        raise ConfigurationError(f"{url.text!r}: the parameter create is true or false")
    return choice == "true"


async def _lane(name: str, path: str, url: MetadataUrl, options: StoreOptions, *, writes: bool) -> Lane:
    try:
        connection = await asyncio.to_thread(connect, path, options)
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise LayoutMismatchError(
                f"the file of {url.text} is not a SQLite database; {_KIND!r} cannot use it, choose another path"
            ) from exc
        raise MetadataUnavailableError(f"SQLite cannot open the file of {url.text}: {exc}") from exc
    return Lane(name, connection, options, writes=writes)


def _lay_out(connection: sqlite3.Connection, url: MetadataUrl) -> Layout:
    """Return the layout of the store; create the tables first if the file is new."""
    found = _read_layout(connection, url)
    if found is not None:
        return found
    connection.execute(_LAYOUT_TABLE)
    for kind in KINDS:
        connection.execute(table_schema(kind))
    made = Layout(kind=_KIND, major=FORMAT_MAJOR, minor=FORMAT_MINOR, store_id=uuid.uuid4().hex)
    connection.execute("INSERT INTO layout VALUES (?, ?, ?, ?)", (made.kind, made.major, made.minor, made.store_id))
    return made


def _read_layout(connection: sqlite3.Connection, url: MetadataUrl) -> Layout | None:
    """Return the layout of the file, None for an empty one. Raises LayoutMismatchError for somebody else's file."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return None
    if "layout" not in tables:
        raise LayoutMismatchError(
            f"the SQLite file of {url.text} belongs to another program (it has the table {min(tables)!r}, but no "
            f"layout of {_KIND!r}); choose another path"
        )
    kind, major, minor, store_id = connection.execute("SELECT kind, major, minor, store_id FROM layout").fetchone()
    return Layout(kind=kind, major=major, minor=minor, store_id=store_id)


def _wipe(connection: sqlite3.Connection) -> None:
    for kind in KINDS:
        connection.execute(f"DELETE FROM {kind.name}")


def _page_count(connection: sqlite3.Connection) -> tuple[int, int]:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return pages, page_bytes


FACTORY: Final = SqliteFactory()
