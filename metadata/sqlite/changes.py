"""The changes of a SQLite store: triggers write the key of each changed record into a table beside the records.

Triggers belong to the file, so they see the writes of every process. What a trigger writes becomes visible together
with the change itself. A store whose changes nobody reads has neither the triggers nor the table.
"""

import secrets
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.contract.changes import ChangedRecord
from hedwig.metadata.contract.kinds import KINDS, RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.sqlite.sqlite_thread import SqliteThread
from hedwig.model import SubscriberId, Topic

__all__ = ["SqliteChanges"]

_TABLE: Final = "changed_records"
_READER: Final = "changed_records_reader"
"""The table of the reader's one token, so that two readers find out that they take changes from each other."""
_EVENTS: Final = {"insert": ("NEW",), "update": ("OLD", "NEW"), "delete": ("OLD",)}
"""The events of a row, each with those states of the row that name a changed record."""


class SqliteChanges:
    """The Changes of one open store to records of `kinds`."""

    def __init__(self, kinds: Sequence[RecordKind[Any]], writer: SqliteThread) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._writer = writer
        self._token = secrets.token_bytes(16)

    async def begin(self) -> None:
        await self._writer.run("begin to keep changes", self._begin)

    async def take(self, most: int) -> Sequence[ChangedRecord]:
        rows = await self._writer.run("take the changes", lambda connection: self._take(connection, most))
        return [
            ChangedRecord(self._kinds[kind], RecordKey(Topic(topic), SubscriberId(subscriber) if subscriber else None))
            for kind, topic, subscriber in rows
        ]

    async def end(self) -> None:
        await self._writer.run("end keeping changes", self._end)

    def _begin(self, connection: sqlite3.Connection) -> None:
        _drop(connection)
        connection.execute(
            f"CREATE TABLE {_TABLE} (kind TEXT NOT NULL, topic BLOB NOT NULL, subscriber BLOB NOT NULL, "
            "PRIMARY KEY (kind, topic, subscriber)) WITHOUT ROWID"
        )
        connection.execute(f"CREATE TABLE {_READER} (token BLOB NOT NULL)")
        connection.execute(f"INSERT INTO {_READER} VALUES (?)", (self._token,))
        for kind in self._kinds.values():
            for event, states in _EVENTS.items():
                keeping = "".join(f"{_keep(kind, state)}; " for state in states)
                connection.execute(
                    f"CREATE TRIGGER {_trigger(kind, event)} AFTER {event} ON {kind.name} BEGIN {keeping}END"
                )

    def _take(self, connection: sqlite3.Connection, most: int) -> list[tuple[str, bytes, bytes]]:
        if not self._is_mine(connection):
            raise MetadataUnavailableError(
                "another migration from this store has begun and takes its changes; stop one of them"
            )
        rows = connection.execute(f"SELECT kind, topic, subscriber FROM {_TABLE} LIMIT ?", (most,)).fetchall()
        connection.executemany(f"DELETE FROM {_TABLE} WHERE kind = ? AND topic = ? AND subscriber = ?", rows)
        return rows

    def _end(self, connection: sqlite3.Connection) -> None:
        if self._is_mine(connection):
            _drop(connection)

    def _is_mine(self, connection: sqlite3.Connection) -> bool:
        tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        if connection.execute(tables, (_READER,)).fetchone() is None:
            return False
        (token,) = connection.execute(f"SELECT token FROM {_READER}").fetchone()
        return bool(token == self._token)


def _drop(connection: sqlite3.Connection) -> None:
    for kind in KINDS:
        for event in _EVENTS:
            connection.execute(f"DROP TRIGGER IF EXISTS {_trigger(kind, event)}")
    for table in (_TABLE, _READER):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def _trigger(kind: RecordKind[Any], event: str) -> str:
    return f"{_TABLE}_{kind.name}_{event}"


def _keep(kind: RecordKind[Any], state: str) -> str:
    subscriber = f"{state}.subscriber" if kind.has_subscriber else "x''"
    key = f"kind = '{kind.name}' AND topic = {state}.topic AND subscriber = {subscriber}"
    # Not INSERT OR IGNORE: inside a trigger, the conflict clause of the statement that fired it would apply.
    return (
        f"INSERT INTO {_TABLE} SELECT '{kind.name}', {state}.topic, {subscriber} "
        f"WHERE NOT EXISTS (SELECT 1 FROM {_TABLE} WHERE {key})"
    )
