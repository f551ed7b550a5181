"""The records of rules: a fixed number of named records, and one that counts their changes.

All rules of one user or group, or of everybody, are in one record, which they share with those of others. So a hub
reads all rules with a bounded number of reads, however many users there are. It reads them when the count of changes
has moved, and from time to time: a writer counts its change after it has made it, and may die in between.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

import msgpack

from hedwig.access import Rule
from hedwig.errors import BadVersionError, CorruptRecordError, InvalidArgumentError, RecordTooLargeError
from hedwig.metadata.contract.kinds import RECORD_BYTES_MAX
from hedwig.metadata.contract.named_records import NamedRecords, replace_surely
from hedwig.metadata.contract.write_gate import WriteGate, passing

__all__ = ["KeptRules", "RuleRecords"]

_RECORDS: Final = 64
_PREFIX: Final = "access-rules-"
_COUNTER: Final = "access-changes"
_FORMAT: Final = 1
_TOKEN_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class KeptRules:
    """The rules of one user or group, or of everybody. `version` grows with each change, and is 0 before the first."""

    version: int = 0
    rules: tuple[Rule, ...] = ()


class RuleRecords:
    """The rules of a deployment. Errors of all methods: MetadataError."""

    def __init__(self, records: NamedRecords, gate: WriteGate | None = None) -> None:
        """`gate`: that of all writes of this process, if it has one."""
        self._records = records
        self._gate = gate
        self._read_last: list[_Record] = []
        self._rules: Mapping[str, KeptRules] = {}

    async def changes(self) -> int:
        """Return how many changes there have been. It moves after the rules have."""
        return _count(await self._records.read(_COUNTER))

    async def read(self) -> Mapping[str, KeptRules]:
        """Return all rules, by whom they are for. What has not changed since the last call are the same objects.

        Raises: CorruptRecordError.
        """
        names = [_name(number) for number in range(_RECORDS)]
        before = self._read_last or [_Record(0, {})] * _RECORDS
        reading = [asyncio.create_task(self._records.read(name)) for name in names]
        try:
            stored = await asyncio.gather(*reading)
        finally:
            for task in reading:
                task.cancel()
            await asyncio.wait(reading)
        found = [
            last if last.encoded == each else _decoded(name, each, last)
            for name, each, last in zip(names, stored, before, strict=True)
        ]
        if any(each is not last for each, last in zip(found, before, strict=True)):
            self._rules = {who: kept for each in found for who, kept in each.rules.items()}
        self._read_last = found
        return self._rules

    async def read_of(self, who: str) -> KeptRules:
        """Return the rules of one user or group, or of everybody. Raises: CorruptRecordError."""
        return (await self._read(_name_of(who))).rules.get(who, KeptRules())

    async def change(
        self, who: str, function: Callable[[tuple[Rule, ...]], tuple[Rule, ...]], *, expected: int | None = None
    ) -> KeptRules:
        """Replace the rules of `who` by what `function` makes of them; return what is stored then.

        `function` may be called again if others change rules meanwhile. It must return rules of `who` only. Nothing is
        written if it returns what it was given.

        Args: expected - the version that they must have.
        Raises: BadVersionError - they have another, and nothing was written; RecordTooLargeError - they are too many,
            and nothing was written; CorruptRecordError; UncertainStateError - not known: read them.
        """
        name = _name_of(who)
        async with passing(self._gate):
            while True:
                found = await self._read(name)
                present = found.rules.get(who, KeptRules())
                if expected is not None and present.version != expected:
                    raise BadVersionError(f"the rules of {who} have version {present.version}, not {expected}")
                wanted = function(present.rules)
                if wanted == present.rules:
                    return present
                if any(rule.who != who for rule in wanted):
                    raise InvalidArgumentError(f"only rules of {who} can be among those of {who}")
                kept = KeptRules(found.change + 1, wanted)
                stored = _Record(found.change + 1, {**found.rules, who: kept}).encode()
                if len(stored) > RECORD_BYTES_MAX:
                    raise RecordTooLargeError(
                        f"the rules of {who} and of those in the same record encode to {len(stored)} bytes; at most "
                        f"{RECORD_BYTES_MAX} can be stored. Use fewer rules, on longer parts of names or for groups"
                    )
                if await replace_surely(self._records, name, found.encoded, stored):
                    await self._count_change()
                    return kept

    async def replace(self, who: str, rules: tuple[Rule, ...], *, expected: int | None = None) -> KeptRules:
        """Replace the rules of `who`, as `change` does."""
        return await self.change(who, lambda _: rules, expected=expected)

    async def _read(self, name: str) -> "_Record":
        return _decoded(name, await self._records.read(name))

    async def _count_change(self) -> None:
        while True:
            stored = await self._records.read(_COUNTER)
            # Without the token, a writer whose answer was lost would take the same count of another for its own.
            counted = b"%d %s" % (_count(stored) + 1, secrets.token_hex(_TOKEN_BYTES).encode())
            if await replace_surely(self._records, _COUNTER, stored, counted):
                return


@dataclass(frozen=True, slots=True)
class _Record:
    """One record. `change` counts its changes, `encoded` is what is stored, None for nothing."""

    change: int
    rules: Mapping[str, KeptRules]
    encoded: bytes | None = None

    def encode(self) -> bytes:
        rules = {who: (kept.version, [str(rule) for rule in kept.rules]) for who, kept in self.rules.items()}
        # No two states have the same bytes, also if two writers make the same change at a time.
        return bytes(msgpack.packb((_FORMAT, self.change, secrets.token_bytes(_TOKEN_BYTES), rules)))

    @classmethod
    def decode(cls, stored: bytes | None) -> "_Record":
        """Raises: CorruptRecordError."""
        if stored is None:
            return cls(0, {})
        try:
            fields: list[Any] = msgpack.unpackb(stored)
            known, change, _, rules = fields
            if known != _FORMAT:
                raise CorruptRecordError(f"it has the format {known}, and this program knows {_FORMAT}")
            kept = {
                who: KeptRules(version, tuple(Rule.parse(text) for text in texts))
                for who, (version, texts) in rules.items()
            }
        except (ValueError, TypeError, AttributeError, InvalidArgumentError, msgpack.UnpackException) as exc:
            raise CorruptRecordError(f"it cannot be read: {exc}") from exc
        return cls(change, kept, stored)


def _decoded(name: str, stored: bytes | None, last: _Record | None = None) -> _Record:
    """Decode a record, with the objects of `last` for what has not changed. Raises: CorruptRecordError."""
    try:
        found = _Record.decode(stored)
    except CorruptRecordError as exc:
        raise CorruptRecordError(f"the record {name!r}: {exc}") from exc
    if last is None:
        return found
    rules = {
        who: before if (before := last.rules.get(who)) is not None and before.version == kept.version else kept
        for who, kept in found.rules.items()
    }
    return replace(found, rules=rules)


def _name(number: int) -> str:
    return f"{_PREFIX}{number:02}"


def _name_of(who: str) -> str:
    return _name(sha256(who.encode()).digest()[0] % _RECORDS)


def _count(stored: bytes | None) -> int:
    if stored is None:
        return 0
    count = stored.partition(b" ")[0]
    if not count.isdigit():
        raise CorruptRecordError(f"the number of changes of rules cannot be read: {stored[:64]!r}")
    return int(count)
