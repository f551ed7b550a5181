"""The probe of SQLite: plain SQL."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from typing import Any, Final

from hedwig.metadata import MetadataStore, RecordKey
from hedwig.metadata.contract.kinds import PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.testing.probe import GARBAGE, StoredValue
from hedwig.model import SubscriberId, Topic
from tests.metadata.support.msgpack_records import added_to_record, unknown_in_record

__all__ = ["SqliteProbe", "run_in_file", "run_in_memory"]

_PARTS: Final = {SUBSCRIPTIONS.name: ("preferences", "state")}

Execute = Callable[[str, tuple[object, ...]], Awaitable[list[tuple[Any, ...]]]]


def run_in_file(path: str) -> Execute:
    """Return a function that executes one statement on a connection of its own."""

    def execute(statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    return lambda statement, values: asyncio.to_thread(execute, statement, values)


def run_in_memory(store: MetadataStore) -> Execute:
    """Return a function that executes one statement on the store's only connection, below all layers of the store."""
    thread = store._backend.writer  # type: ignore[attr-defined]

    async def execute(statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = await thread.run(
            "probe", lambda connection: connection.execute(statement, values).fetchall()
        )
        return rows

    return execute


class SqliteProbe:
    """A Probe of one database."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    async def cells(self, kind: RecordKind[Any], key: RecordKey) -> Mapping[str, StoredValue]:
        columns = ("version", *_parts(kind))
        rows = await self._execute(f"SELECT {', '.join(columns)} FROM {kind.name} WHERE {_where(kind)}", _names(key))
        if not rows:
            return {}
        return {name: StoredValue(value) for name, value in zip(columns, rows[0], strict=True) if value is not None}

    async def live(self, kind: RecordKind[Any]) -> set[tuple[Topic, SubscriberId | None]]:
        columns = "topic, subscriber" if kind.has_subscriber else "topic, NULL"
        return {
            (topic, subscriber) for topic, subscriber in await self._execute(f"SELECT {columns} FROM {kind.name}", ())
        }

    async def stored_names(self, kind: RecordKind[Any], key: RecordKey) -> list[bytes]:
        return list(_names(key))

    async def preferences(self, key: RecordKey) -> Any:
        return (await self.cells(SUBSCRIPTIONS, key)).get("preferences")

    async def state(self, key: RecordKey) -> Any:
        return (await self.cells(SUBSCRIPTIONS, key)).get("state")

    async def remove(self, kind: RecordKind[Any], key: RecordKey) -> None:
        await self._execute(f"DELETE FROM {kind.name} WHERE {_where(kind)}", _names(key))

    async def corrupt(self, kind: RecordKind[Any], key: RecordKey) -> None:
        for part in _parts(kind):
            await self._set(kind, key, part, GARBAGE)

    async def corrupt_version(self, kind: RecordKind[Any], key: RecordKey) -> bool:
        await self._set(kind, key, "version", GARBAGE)
        return True

    async def add_unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        stored = await self.cells(kind, key)
        for number, part in enumerate(_parts(kind)):
            await self._set(kind, key, part, added_to_record(stored[part].value, number))
        return await self.unknown_fields(kind, key)

    async def unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        stored = await self.cells(kind, key)
        return {part: unknown_in_record(stored[part].value) for part in _parts(kind)}

    async def write_layout(self, kind: str | None, major: int, minor: int) -> None:
        await self._execute("UPDATE layout SET kind = ?, major = ?, minor = ?", (kind or "sqlite", major, minor))

    async def damage_layout(self) -> None:
        await self._execute("DELETE FROM layout", ())

    async def named(self, name: str) -> bytes | None:
        if not await self._execute("SELECT 1 FROM sqlite_master WHERE name = 'named_records'", ()):
            return None
        rows = await self._execute("SELECT value FROM named_records WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    async def set_named(self, name: str, value: bytes | None) -> None:
        if value is None:
            await self._execute("DROP TABLE IF EXISTS named_records", ())
        else:
            await self._execute("UPDATE named_records SET value = ? WHERE name = ?", (value, name))

    async def drop_structure(self) -> str:
        await self._execute(f"DROP TABLE {PERSISTENCE.name}", ())
        return PERSISTENCE.name

    async def close(self) -> None:
        return None

    async def _set(self, kind: RecordKind[Any], key: RecordKey, column: str, value: bytes) -> None:
        await self._execute(f"UPDATE {kind.name} SET {column} = ? WHERE {_where(kind)}", (value, *_names(key)))


def _parts(kind: RecordKind[Any]) -> tuple[str, ...]:
    return _PARTS.get(kind.name, ("record",))


def _where(kind: RecordKind[Any]) -> str:
    return "topic = ? AND subscriber = ?" if kind.has_subscriber else "topic = ?"


def _names(key: RecordKey) -> tuple[bytes, ...]:
    return (key.topic,) if key.subscriber is None else (key.topic, key.subscriber)
