"""The freeze of a store: a named record by which all users of a store agree that none of them writes to it any more.

A migration freezes its source for the pause at its end. The record is the one arbiter, changed by compare-and-set:

    frozen    nobody may write; the migration that froze the store renews the record every quarter of its lease
    moved     the records are in another store: nobody may write, for good
    lifted    everybody may write again

A hub that starts or registers anew reads the record after it has registered and before it writes. A migration writes
the record before it lists the registered hubs. So either the migration sees a hub, or the hub sees the freeze.

If the record does not change for the length of its lease, the migration is gone. Then any hub may lift the freeze, and
no hub writes before it is lifted. The migration replaces only its own `frozen` with `moved`. So it never counts a store
as moved after a hub has lifted the freeze, even if their clocks disagree.
"""

import asyncio
import enum
import logging
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Self

import msgpack

from hedwig.clock import Clock
from hedwig.errors import CorruptRecordError, HedwigError, MetadataUnavailableError
from hedwig.metadata.contract.named_records import NamedRecords, replace_surely
from hedwig.metadata.records.packing import damage_of
from hedwig.metadata.records.stamps import make_token

__all__ = ["RECORD_NAME", "Freeze", "FreezeLostError", "FreezeState", "StoreFreeze", "read_freeze", "replace_freeze"]

_log = logging.getLogger(__name__)

RECORD_NAME: Final = "freeze"


class FreezeState(enum.StrEnum):
    """What the users of a store may do."""

    FROZEN = "frozen"
    MOVED = "moved"
    LIFTED = "lifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """The record: for which migration (`migration`, its id, and `target`, the URL it fills) a store is frozen.

    `lease_s`: a migration that is at work changes the record more often than every `lease_s` seconds.
    `wall_ms`: when this state began, by the clock of the process that wrote it.
    """

    state: FreezeState
    migration: bytes
    target: str
    lease_s: float
    wall_ms: int
    token: bytes = b""
    """Makes each value of the record unique."""

    @property
    def forbids_writes(self) -> bool:
        return self.state is not FreezeState.LIFTED

    @property
    def what(self) -> str:
        """Return the meaning of the record in a few words, for people."""
        if self.state is FreezeState.MOVED:
            return f"the metadata were moved to {self.target}"
        return f"the metadata are frozen for their migration to {self.target}"

    def encode(self) -> bytes:
        """Return the stored form."""
        lease_s = float(self.lease_s)  # `decode` returns a float too, so a decoded record encodes to the same bytes.
        fields = {"s": self.state.value, "m": self.migration, "u": self.target, "l": lease_s, "w": self.wall_ms}
        packed: bytes = msgpack.packb({**fields, "t": self.token})
        return packed

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Read what `encode` made. Raises CorruptRecordError."""
        try:
            fields = msgpack.unpackb(raw)
            return cls(
                state=FreezeState(fields["s"]),
                migration=bytes(fields["m"]),
                target=str(fields["u"]),
                lease_s=float(fields["l"]),
                wall_ms=int(fields["w"]),
                token=bytes(fields["t"]),
            )
        except (ValueError, KeyError, TypeError, msgpack.UnpackException) as exc:
            raise CorruptRecordError(
                f"the record {RECORD_NAME!r}, which says whether the store may be written to, cannot be read: "
                f"{damage_of(exc)}"
            ) from exc


class FreezeLostError(HedwigError):
    """The freeze is not this migration's any more: another process has changed its record."""


async def read_freeze(records: NamedRecords) -> Freeze | None:
    """Return the record of a store, or None. Raises CorruptRecordError, MetadataUnavailableError."""
    raw = await records.read(RECORD_NAME)
    return None if raw is None else Freeze.decode(raw)


async def replace_freeze(
    records: NamedRecords, expected: Freeze | None, state: Freeze, random: Random
) -> Freeze | None:
    """Store `state` if the record is still `expected`; return it as stored, or None if another process was faster.

    Raises: MetadataUnavailableError - surely not stored; UncertainStateError - not known.
    """
    fresh = replace(state, token=make_token(random))
    raw = None if expected is None else expected.encode()
    return fresh if await replace_surely(records, RECORD_NAME, raw, fresh.encode()) else None


class StoreFreeze:
    """The freeze of one store by one migration. It begins, is renewed, and ends lifted or moved."""

    def __init__(
        self, records: NamedRecords, migration: bytes, target: str, *, lease_s: float, clock: Clock, random: Random
    ) -> None:
        self.lease_s = lease_s
        self._records = records
        self._migration = migration
        self._target = target
        self._clock = clock
        self._random = random
        self._before: Freeze | None = None
        self._mine: Freeze | None = None
        self._turn = asyncio.Lock()

    async def is_moved(self) -> bool:
        """Say whether this migration has marked the store as moved, so that nobody writes to it ever again."""
        freeze = await read_freeze(self._records)
        return freeze is not None and freeze.state is FreezeState.MOVED and freeze.migration == self._migration

    async def begin(self) -> None:
        """Freeze the store for all users that read the record from now on.

        A freeze that an earlier start of this migration left is taken over.

        Raises: FreezeLostError - another migration has frozen the store, and is at work.
        """
        freeze = await read_freeze(self._records)
        if freeze is not None and freeze.state is FreezeState.FROZEN and freeze.migration != self._migration:
            freeze = await self._outlive(freeze)
        if freeze is not None and freeze.state is FreezeState.MOVED:
            self._before = freeze
        await self._become(freeze, FreezeState.FROZEN)

    async def keep(self) -> None:
        """Renew the freeze until cancelled. Raises FreezeLostError - another process lifted it."""
        while True:
            await self._clock.sleep(self.lease_s / 4)
            try:
                # After a write cut off half way, this migration would not recognize its own freeze.
                await asyncio.shield(self._renew())
            except MetadataUnavailableError as exc:
                _log.warning("the freeze of the store is not renewed yet: %s", exc)

    async def move(self) -> None:
        """Record that all records are in the target.

        Raises: FreezeLostError - the freeze was lifted; UncertainStateError - not known whether it was recorded.
        """
        async with self._turn:
            await self._become(self._mine, FreezeState.MOVED)

    async def lift(self) -> None:
        """Undo `begin`, if it is still in force. Raises MetadataUnavailableError."""
        async with self._turn:
            mine, self._mine = self._mine, None
            if mine is None:
                return
            # A store that an earlier migration moved stays moved.
            state = self._before or replace(mine, state=FreezeState.LIFTED, wall_ms=self._now_ms())
            await replace_freeze(self._records, mine, state, self._random)

    async def _renew(self) -> None:
        async with self._turn:
            if self._mine is not None:
                await self._become(self._mine, FreezeState.FROZEN)

    async def _become(self, expected: Freeze | None, state: FreezeState) -> None:
        wall_ms = self._mine.wall_ms if self._mine is not None and state is self._mine.state else self._now_ms()
        wanted = Freeze(
            state=state, migration=self._migration, target=self._target, lease_s=self.lease_s, wall_ms=wall_ms
        )
        done = await replace_freeze(self._records, expected, wanted, self._random)
        if done is None:
            raise FreezeLostError(
                "another process lifted the freeze, or froze the store itself; hubs may have written to the store since"
            )
        self._mine = done

    async def _outlive(self, freeze: Freeze) -> Freeze | None:
        """Wait for one lease of the other migration, within which it renews the record if it is at work."""
        await self._clock.sleep(freeze.lease_s)
        now = await read_freeze(self._records)
        if now is not None and now.state is FreezeState.FROZEN and now != freeze:
            raise FreezeLostError(
                f"another migration, to {now.target}, is running and has frozen the store; let it end first"
            )
        return now

    def _now_ms(self) -> int:
        return int(self._clock.wall() * 1000)
