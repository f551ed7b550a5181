"""The named records of a SQLite store: a table of their own, made when the first is written."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from hedwig.metadata.sqlite.sqlite_thread import SqliteThread

__all__ = ["SqliteNamedRecords", "list_names"]

_TABLE: Final = "named_records"
_SCHEMA: Final = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
)


class SqliteNamedRecords:
    """The NamedRecords of one open store."""

    def __init__(self, writer: SqliteThread, reader: SqliteThread) -> None:
        self._writer = writer
        self._reader = reader

    async def read(self, name: str) -> bytes | None:
        return await self._reader.run(f"read the record {name!r}", lambda connection: _read(connection, name))

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            connection.execute(_SCHEMA)
            if expected is None:
                done = connection.execute(f"INSERT OR IGNORE INTO {_TABLE} VALUES (?, ?)", (name, value))
            else:
                change = f"UPDATE {_TABLE} SET value = ? WHERE name = ? AND value = ?"
                done = connection.execute(change, (value, name, expected))
            return done.rowcount == 1

        return await self._writer.run(f"write the record {name!r}", work)

    async def delete(self, name: str, expected: bytes) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            if not _is_there(connection):
                return False
            removal = f"DELETE FROM {_TABLE} WHERE name = ? AND value = ?"
            return connection.execute(removal, (name, expected)).rowcount == 1

        return await self._writer.run(f"delete the record {name!r}", work)

    async def names(self, prefix: str) -> Sequence[str]:
        return await self._reader.run(
            f"list the records {prefix!r}...", lambda connection: list_names(connection, prefix)
        )


def _is_there(connection: sqlite3.Connection) -> bool:
    tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(tables, (_TABLE,)).fetchone() is not None


def list_names(connection: sqlite3.Connection, prefix: str) -> list[str]:
    """Return the names that begin with `prefix`, in order."""
    if not _is_there(connection):
        return []
    names = f"SELECT name FROM {_TABLE} WHERE substr(name, 1, ?) = ? ORDER BY name"
    return [name for (name,) in connection.execute(names, (len(prefix), prefix))]


def _read(connection: sqlite3.Connection, name: str) -> bytes | None:
    if not _is_there(connection):
        return None
    row = connection.execute(f"SELECT value FROM {_TABLE} WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0])
