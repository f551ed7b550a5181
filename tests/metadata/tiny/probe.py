"""The probe. It reads the dictionaries directly."""

from collections.abc import Mapping
from typing import Any

import msgpack

from hedwig.metadata import RecordKey
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS, RecordKind
from hedwig.metadata.testing.probe import GARBAGE, StoredValue
from hedwig.model import SubscriberId, Topic

from .backend import Row, data_at

__all__ = ["TinyProbe"]


class TinyProbe:
    """A Probe of the store at `url`."""

    def __init__(self, url: str) -> None:
        self._data = data_at(url)

    def _rows(self, kind: RecordKind[Any]) -> dict[RecordKey, Row]:
        return self._data.rows[kind.name]

    async def cells(self, kind: RecordKind[Any], key: RecordKey) -> Mapping[str, StoredValue]:
        row = self._rows(kind).get(key)
        if row is None:
            return {}
        return {str(index): StoredValue(part, row.number) for index, part in enumerate(row.parts) if part is not None}

    async def live(self, kind: RecordKind[Any]) -> set[tuple[Topic, SubscriberId | None]]:
        return {(key.topic, key.subscriber) for key in self._rows(kind)}

    async def stored_names(self, kind: RecordKind[Any], key: RecordKey) -> list[bytes]:
        return [key.topic] if key.subscriber is None else [key.topic, key.subscriber]

    async def preferences(self, key: RecordKey) -> Any:
        return self._rows(SUBSCRIPTIONS)[key].parts[0]

    async def state(self, key: RecordKey) -> Any:
        return self._rows(SUBSCRIPTIONS)[key].parts[1]

    async def remove(self, kind: RecordKind[Any], key: RecordKey) -> None:
        del self._rows(kind)[key]

    async def corrupt(self, kind: RecordKind[Any], key: RecordKey) -> None:
        row = self._rows(kind)[key]
        row.parts = (GARBAGE,) * len(row.parts)

    async def corrupt_version(self, kind: RecordKind[Any], key: RecordKey) -> bool:
        return False

    async def add_unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        row = self._rows(kind)[key]
        row.parts = tuple(msgpack.packb({**msgpack.unpackb(part or b""), "newer": [1, b"\x00"]}) for part in row.parts)
        return await self.unknown_fields(kind, key)

    async def unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        return [msgpack.unpackb(part or b"")["newer"] for part in self._rows(kind)[key].parts]

    async def named(self, name: str) -> bytes | None:
        return self._data.named.get(name)

    async def set_named(self, name: str, value: bytes | None) -> None:
        self._data.named.pop(name, None)
        if value is not None:
            self._data.named[name] = value

    async def close(self) -> None:
        return None
