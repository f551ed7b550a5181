"""The probe of HBase: happybase, which speaks Thrift1 and so shares no code with our drivers."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import happybase
import msgpack

from hedwig.metadata import RecordKey
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.testing.probe import GARBAGE, StoredValue
from hedwig.model import SubscriberId, Topic
from tests.metadata.support.msgpack_records import added_to_record, unknown_in_record

__all__ = ["HBaseProbe"]

T = TypeVar("T")

_TIMEOUT_MS: Final = 30_000
_VERSIONS: Final = {OWNERSHIP.name: b"o:v", PERSISTENCE.name: b"p:v", SUBSCRIPTIONS.name: b"s:v"}
_PREFERENCES: Final = b"p:d"
_STATE: Final = b"s:d"
_DATA: Final = {
    OWNERSHIP.name: (b"o:d",),
    PERSISTENCE.name: (b"p:d",),
    SUBSCRIPTIONS.name: (_PREFERENCES, _STATE),
}


class HBaseProbe:
    """A Probe of the tables of one namespace. Each request has a new connection, since the gateway closes idle ones."""

    def __init__(self, address: str, namespace: str) -> None:
        self._address = address
        self._namespace = namespace

    async def _ask(self, question: Callable[[happybase.Connection], T]) -> T:
        def ask() -> T:
            host, _, port = self._address.rpartition(":")
            connection = happybase.Connection(host, int(port), timeout=_TIMEOUT_MS)
            try:
                return question(connection)
            finally:
                connection.close()

        return await asyncio.to_thread(ask)

    async def _row(self, kind: RecordKind[Any], key: RecordKey) -> dict[bytes, tuple[bytes, int]]:
        def read(connection: happybase.Connection) -> dict[bytes, tuple[bytes, int]]:
            cells: dict[bytes, tuple[bytes, int]]
            cells = connection.table(self._table(kind)).row(_row_key(key), include_timestamp=True)
            return cells

        return await self._ask(read)

    async def _put(self, table: str, row: bytes, cells: Mapping[bytes, bytes]) -> None:
        await self._ask(lambda connection: connection.table(table).put(row, cells))

    async def cells(self, kind: RecordKind[Any], key: RecordKey) -> Mapping[str, StoredValue]:
        row = await self._row(kind, key)
        return {column.decode("latin-1"): StoredValue(value, written) for column, (value, written) in row.items()}

    async def live(self, kind: RecordKind[Any]) -> set[tuple[Topic, SubscriberId | None]]:
        column = _VERSIONS[kind.name]

        def scan(connection: happybase.Connection) -> set[tuple[Topic, SubscriberId | None]]:
            rows = connection.table(self._table(kind)).scan(columns=[column], batch_size=1000)
            return {_names_in(row) for row, cells in rows if cells[column].startswith(b"L")}

        return await self._ask(scan)

    async def stored_names(self, kind: RecordKind[Any], key: RecordKey) -> list[bytes]:
        row = _row_key(key)
        return [row, row[4:], row[:4], _row_key(RecordKey(key.topic))]

    async def preferences(self, key: RecordKey) -> Any:
        return (await self.cells(SUBSCRIPTIONS, key)).get(_PREFERENCES.decode())

    async def state(self, key: RecordKey) -> Any:
        cell = (await self.cells(SUBSCRIPTIONS, key)).get(_STATE.decode())
        return None if cell is None else (cell.value, cell.written)

    async def remove(self, kind: RecordKind[Any], key: RecordKey) -> None:
        await self._ask(lambda connection: connection.table(self._table(kind)).delete(_row_key(key)))

    async def corrupt(self, kind: RecordKind[Any], key: RecordKey) -> None:
        await self._put(self._table(kind), _row_key(key), dict.fromkeys(_DATA[kind.name], GARBAGE))

    async def corrupt_version(self, kind: RecordKind[Any], key: RecordKey) -> bool:
        await self._put(self._table(kind), _row_key(key), {_VERSIONS[kind.name]: GARBAGE})
        return True

    async def add_unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        row = await self._row(kind, key)
        columns = enumerate(_DATA[kind.name])
        newer = {column: added_to_record(row[column][0], number) for number, column in columns}
        await self._put(self._table(kind), _row_key(key), newer)
        return await self.unknown_fields(kind, key)

    async def unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        row = await self._row(kind, key)
        return {column: unknown_in_record(row[column][0]) for column in _DATA[kind.name]}

    async def write_layout(self, kind: str | None, major: int, minor: int) -> None:
        fields = msgpack.packb({"k": kind or "hbase", "a": major, "i": minor, "u": "0" * 32})
        for manager in _DATA:
            await self._put(f"{self._namespace}:layout", manager.encode(), {b"m:d": fields})

    async def damage_layout(self) -> None:
        for manager in _DATA:
            await self._put(f"{self._namespace}:layout", manager.encode(), {b"m:d": GARBAGE})

    async def named(self, name: str) -> bytes | None:
        row = await self._ask(lambda connection: connection.table(f"{self._namespace}:layout").row(name.encode()))
        value: bytes | None = row.get(b"m:d")
        return value

    async def set_named(self, name: str, value: bytes | None) -> None:
        if value is None:
            await self._ask(lambda connection: connection.table(f"{self._namespace}:layout").delete(name.encode()))
        else:
            await self._put(f"{self._namespace}:layout", name.encode(), {b"m:d": value})

    async def drop_structure(self) -> str:
        table = self._table(PERSISTENCE)
        await self._ask(lambda connection: connection.delete_table(table, disable=True))
        return table

    async def close(self) -> None:
        return None

    def _table(self, kind: RecordKind[Any]) -> str:
        return f"{self._namespace}:{kind.name}"


def _row_key(key: RecordKey) -> bytes:
    """Return four hex characters of the topic's hash, the topic with zero bytes as 00 FF, 00 01, the subscriber id."""
    head = hashlib.sha256(key.topic).hexdigest()[:4].encode()
    return head + key.topic.replace(b"\x00", b"\x00\xff") + b"\x00\x01" + (key.subscriber or b"")


def _names_in(row: bytes) -> tuple[Topic, SubscriberId | None]:
    topic, _, subscriber = row[4:].partition(b"\x00\x01")
    return Topic(topic.replace(b"\x00\xff", b"\x00")), SubscriberId(subscriber) if subscriber else None
