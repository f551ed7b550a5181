"""Probes, which read and change the contents of a store without any of the code under test."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from hedwig.metadata import RecordKey
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.model import SubscriberId, Topic

__all__ = ["GARBAGE", "Probe", "StoredValue"]

GARBAGE: Final = b"\xc1\xff garbage"
"""Bytes that are no record: msgpack never uses 0xC1, a protobuf field ends too early, and they are no UTF-8."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """One stored value, and the mark by which the store itself dates its write (0 if it keeps none)."""

    value: bytes
    written: int = 0


class Probe(Protocol):
    """An independent view of one store of any kind."""

    async def cells(self, kind: RecordKind[Any], key: RecordKey) -> Mapping[str, StoredValue]:
        """Return everything that the store holds for a record, keyed by where it is; empty if there is nothing."""

    async def live(self, kind: RecordKind[Any]) -> set[tuple[Topic, SubscriberId | None]]:
        """Return the keys of all records of a kind, without deleted ones of which only a mark remains."""

    async def stored_names(self, kind: RecordKind[Any], key: RecordKey) -> list[bytes]:
        """Return the bytes by which the store names the record, in whole and in parts."""

    async def preferences(self, key: RecordKey) -> Any:
        """Return what must stay equal while only a subscription's state changes: bytes, and times if there are any."""

    async def state(self, key: RecordKey) -> Any:
        """Return what must change with every write of a subscription's state, in the form of `preferences`."""

    async def remove(self, kind: RecordKind[Any], key: RecordKey) -> None:
        """Remove a record without any client."""

    async def corrupt(self, kind: RecordKind[Any], key: RecordKey) -> None:
        """Overwrite the data of a record, but not its version, with bytes that no codec understands."""

    async def corrupt_version(self, kind: RecordKind[Any], key: RecordKey) -> bool:
        """Overwrite the version of a record likewise; return False if the store itself keeps it, out of reach."""

    async def add_unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        """Rewrite a record as a newer minor format would, with more fields in every part; return those fields."""

    async def unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        """Return the fields of a record that only a newer minor format understands, as `add_unknown_fields` does."""

    async def named(self, name: str) -> bytes | None:
        """Return the value of a named record, or None if the store has none."""

    async def set_named(self, name: str, value: bytes | None) -> None:
        """Overwrite an existing named record, or (None) remove it as if it had never existed."""

    async def close(self) -> None:
        """Close the connection."""
