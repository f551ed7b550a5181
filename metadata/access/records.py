"""Records of access control: a fixed number of named records for each kind, and one that counts all changes.

What is kept about one user or group, or about everybody, is in one record, which it shares with others. So a hub reads
all with a bounded number of reads, however many users there are. It reads them when the count of changes has moved, and
from time to time: a writer counts its change after it has made it, and may die in between.
"""

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgpack

from hedwig.errors import BadVersionError, CorruptRecordError, InvalidArgumentError, RecordTooLargeError
from hedwig.metadata.contract.kinds import RECORD_BYTES_MAX
from hedwig.metadata.contract.named_records import NamedRecords, replace_surely
from hedwig.metadata.contract.write_gate import WriteGate, passing

__all__ = ["AccessRecords", "Kept"]

T = TypeVar("T")

_RECORDS: Final = 64
_COUNTER: Final = "access-changes"
_FORMAT: Final = 1
_TOKEN_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """What is kept about somebody. `version` grows with each change, and is 0 before the first."""

    version: int
    value: T


class AccessRecords(ABC, Generic[T]):
    """What is kept of one kind. Errors of all methods: MetadataError."""

    kind: ClassVar[str]
    """What is kept, as a plural."""
    empty: ClassVar[Any]
    """The value of somebody about whom nothing is kept."""
    advice: ClassVar[str]
    """What to do if the record is too large."""

    def __init__(self, records: NamedRecords, gate: WriteGate | None = None) -> None:
        """`gate`: that of all writes of this process, if it has one."""
        self._records = records
        self._gate = gate
        self._read_last: list[_Record[T]] = []
        self._all: Mapping[str, Kept[T]] = {}

    @classmethod
    @abstractmethod
    def to_plain(cls, who: str, value: T) -> Any:
        """Return a value in terms of msgpack. Raises: InvalidArgumentError - it cannot be kept about `who`."""

    @classmethod
    @abstractmethod
    def from_plain(cls, plain: Any) -> T:
        """Return the value. Raises: ValueError, TypeError, InvalidArgumentError - it is none."""

    @property
    def nothing(self) -> Kept[T]:
        """What is kept about somebody about whom nothing is kept."""
        return Kept(0, self.empty)

    async def changes(self) -> int:
        """Return how many changes there have been, of all kinds. It moves after the records have."""
        return _count(await self._records.read(_COUNTER))

    async def read(self) -> Mapping[str, Kept[T]]:
        """Return all, by whom they are about. What has not changed since the last call are the same objects.

        Raises: CorruptRecordError.
        """
        names = [self._name(number) for number in range(_RECORDS)]
        none: _Record[T] = _Record(0, {})
        before = self._read_last or [none] * _RECORDS
        reading = [asyncio.create_task(self._records.read(name)) for name in names]
        try:
            stored = await asyncio.gather(*reading)
        finally:
            for task in reading:
                task.cancel()
            await asyncio.wait(reading)
        found = [
            last if last.encoded == each else self._decoded(name, each, last)
            for name, each, last in zip(names, stored, before, strict=True)
        ]
        if any(each is not last for each, last in zip(found, before, strict=True)):
            self._all = {who: kept for each in found for who, kept in each.kept.items()}
        self._read_last = found
        return self._all

    async def read_of(self, who: str) -> Kept[T]:
        """Return what is kept about somebody. Raises: CorruptRecordError."""
        return (await self._read(self._name_of(who))).kept.get(who, self.nothing)

    async def change(self, who: str, function: Callable[[T], T], *, expected: int | None = None) -> Kept[T]:
        """Replace what is kept about `who` by what `function` makes of it; return what is stored then.

        `function` may be called again if others change it meanwhile. Nothing is written if it returns what it was
        given.

        Args: expected - the version that it must have.
        Raises: BadVersionError - it has another, and nothing was written; RecordTooLargeError - it is too much, and
            nothing was written; InvalidArgumentError - it cannot be kept about `who`; CorruptRecordError;
            UncertainStateError - not known: read it.
        """
        name = self._name_of(who)
        async with passing(self._gate):
            while True:
                found = await self._read(name)
                present = found.kept.get(who, self.nothing)
                if expected is not None and present.version != expected:
                    raise BadVersionError(f"the {self.kind} of {who} have version {present.version}, not {expected}")
                wanted = function(present.value)
                if wanted == present.value:
                    return present
                kept = Kept(found.change + 1, wanted)
                stored = self._encode(found.change + 1, {**found.kept, who: kept})
                if len(stored) > RECORD_BYTES_MAX:
                    raise RecordTooLargeError(
                        f"the {self.kind} of {who} and of those in the same record encode to {len(stored)} bytes; at "
                        f"most {RECORD_BYTES_MAX} can be stored. {self.advice}"
                    )
                if await replace_surely(self._records, name, found.encoded, stored):
                    await self._count_change()
                    return kept

    async def replace(self, who: str, value: T, *, expected: int | None = None) -> Kept[T]:
        """Replace what is kept about `who`, as `change` does."""
        return await self.change(who, lambda _: value, expected=expected)

    async def _count_change(self) -> None:
        while True:
            stored = await self._records.read(_COUNTER)
            # Without the token, a writer whose answer was lost would take the same count of another for its own.
            counted = b"%d %s" % (_count(stored) + 1, secrets.token_hex(_TOKEN_BYTES).encode())
            if await replace_surely(self._records, _COUNTER, stored, counted):
                return

    # ------------------------------------------------------------------------------------------------- records

    async def _read(self, name: str) -> "_Record[T]":
        return self._decoded(name, await self._records.read(name))

    def _encode(self, change: int, kept: Mapping[str, Kept[T]]) -> bytes:
        plain = {who: (each.version, self.to_plain(who, each.value)) for who, each in kept.items()}
        # No two states have the same bytes, also if two writers make the same change at a time.
        return bytes(msgpack.packb((_FORMAT, change, secrets.token_bytes(_TOKEN_BYTES), plain)))

    def _decoded(self, name: str, stored: bytes | None, last: "_Record[T] | None" = None) -> "_Record[T]":
        """Decode a record, with the objects of `last` for what has not changed. Raises: CorruptRecordError."""
        if stored is None:
            return _Record(0, {})
        try:
            fields: list[Any] = msgpack.unpackb(stored)
            known, change, _, plain = fields
            if known != _FORMAT:
                raise CorruptRecordError(
                    f"the record {name!r} has the format {known}, and this program knows {_FORMAT}"
                )
            found = {who: Kept(version, self.from_plain(value)) for who, (version, value) in plain.items()}
        except (ValueError, TypeError, AttributeError, InvalidArgumentError, msgpack.UnpackException) as exc:
            raise CorruptRecordError(f"the record {name!r} cannot be read: {exc}") from exc
        if last is not None:
            for who, kept in found.items():
                if (before := last.kept.get(who)) is not None and before.version == kept.version:
                    found[who] = before
        return _Record(change, found, stored)

    def _name(self, number: int) -> str:
        return f"access-{self.kind}-{number:02}"

    def _name_of(self, who: str) -> str:
        return self._name(sha256(who.encode()).digest()[0] % _RECORDS)


@dataclass(frozen=True, slots=True)
class _Record(Generic[T]):
    """One record. `change` counts its changes, `encoded` is what is stored, None for nothing."""

    change: int
    kept: Mapping[str, Kept[T]]
    encoded: bytes | None = None


def _count(stored: bytes | None) -> int:
    if stored is None:
        return 0
    count = stored.partition(b" ")[0]
    if not count.isdigit():
        raise CorruptRecordError(f"the number of changes of access control cannot be read: {stored[:64]!r}")
    return int(count)
