"""Moving all metadata from one store to another, of any backends, while hubs use the first.

    copy        write every record of the source to the target, and keep the position in the target
    catch up    compare both sides, and copy anew or delete what differs; repeat this until little differs
    final       the same once nothing changes the source any more, until both sides are equal: that is the proof

A source that reports which records are changed need not be read once more at the end. Then two comparisons are the
proof: one of everything while hubs go on, and one once they have stopped. The second covers the records changed since
the first began.

The state of a migration is a named record of the target, changed by compare-and-set. So the migration can go on from
any machine, and two of them cannot work on one target. The record also marks a target that a migration may write to.
The position is behind what is in the target, never ahead of it. Copying records twice does no harm.
"""

import asyncio
import enum
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import msgpack

from hedwig.clock import Clock
from hedwig.errors import BadVersionError, CorruptRecordError, HedwigError, NoRecordError
from hedwig.metadata.access.transfer import move_rules, move_users
from hedwig.metadata.bulk.comparison import StoreDigest, bucket_of, digest_store
from hedwig.metadata.bulk.copying import CopyResult, Existing, apply_to, copy_records
from hedwig.metadata.bulk.export_file import PlainRecord
from hedwig.metadata.bulk.loading import BATCH_ROWS, load_batches
from hedwig.metadata.contract.changes import ChangedRecord
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP, RecordKind
from hedwig.metadata.contract.named_records import replace_surely
from hedwig.metadata.contract.operations import Delete, Operation, Read
from hedwig.metadata.contract.scan import ScannedRecord
from hedwig.metadata.freezing import FreezeState, read_freeze, replace_freeze
from hedwig.metadata.logs.format import raise_format
from hedwig.metadata.logs.transfer import LogConflictError, check_target, has_logs, move_logs
from hedwig.metadata.migration.reconciling import Reconciler
from hedwig.metadata.records.packing import damage_of
from hedwig.metadata.records.stamps import make_token
from hedwig.metadata.standalone import RECORD_NAME as STANDALONE
from hedwig.metadata.store import MetadataStore
from hedwig.model import Topic
from hedwig.names import as_topic

__all__ = ["RECORD_NAME", "Migration", "MigrationError", "Phase", "read_state"]

RECORD_NAME: Final = "migration"

_SAVE_EVERY_S: Final = 1.0


class MigrationError(HedwigError):
    """A migration that cannot begin or go on. It has overwritten nothing that is not its own."""


class Phase(enum.StrEnum):
    """The step that a migration has to do next."""

    COPY = "copy"
    CATCH_UP = "catch-up"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationState:
    """How far a migration has come: from which source, with owners or without, and after which topic it goes on."""

    source: str
    owners: bool
    phase: Phase = Phase.COPY
    position: Topic | None = None
    copied: int = 0
    id: bytes = b""
    """Tells this migration from every other."""

    def encode(self, token: bytes) -> bytes:
        """Return the stored form. `token` makes it differ from every earlier one."""
        fields = {"f": self.source, "o": self.owners, "p": self.phase.value, "a": self.position, "n": self.copied}
        fields["i"] = self.id
        packed: bytes = msgpack.packb({**fields, "t": token})
        return packed

    @classmethod
    def decode(cls, raw: bytes) -> "MigrationState":
        """Read what `encode` made. Raises CorruptRecordError."""
        try:
            fields = msgpack.unpackb(raw)
            position = None if fields["a"] is None else as_topic(fields["a"])
            return cls(
                source=str(fields["f"]),
                owners=bool(fields["o"]),
                phase=Phase(fields["p"]),
                position=position,
                copied=int(fields["n"]),
                id=bytes(fields.get("i", b"")),
            )
        except (ValueError, KeyError, TypeError, msgpack.UnpackException) as exc:
            raise CorruptRecordError(
                f"the record {RECORD_NAME!r} of the target cannot be read: {damage_of(exc)}"
            ) from exc


async def read_state(target: MetadataStore) -> MigrationState | None:
    """Return how far a migration into `target` has come; None if there never was one."""
    raw = await target.named_records.read(RECORD_NAME)
    return None if raw is None else MigrationState.decode(raw)


class Migration:
    """One migration from `source` to `target`. The source is called `source_name`, the same for all that open it."""

    def __init__(
        self, source: MetadataStore, target: MetadataStore, source_name: str, *, owners: bool, clock: Clock
    ) -> None:
        self._source = source
        self._target = target
        self.kinds: Sequence[RecordKind[Any]] = [kind for kind in KINDS if owners or kind is not OWNERSHIP]
        self._clock = clock
        self._random = Random()
        self.reconciler = Reconciler(source, target)
        self._stored: bytes | None = None
        self._saved_at = clock.monotonic()
        self.state = MigrationState(source=source_name, owners=owners, id=make_token(self._random))
        self.is_resumed = False

    async def begin(self) -> None:
        """Claim the target, which must be empty or hold this migration unfinished.

        Raises: MigrationError - it is neither.
        """
        await self.look()
        await self._save()
        if await has_logs(self._source.named_records):
            # Before the target has ranges in them.
            await raise_format(self._target)

    async def look(self) -> None:
        """Read the state of this migration from the target, and write nothing. Raises as `begin`."""
        self._stored = await self._target.named_records.read(RECORD_NAME)
        earlier = None if self._stored is None else MigrationState.decode(self._stored)
        is_empty = await anext(self._target.topics(), None) is None
        if earlier is None or is_empty:
            if not is_empty:
                raise MigrationError(
                    "the target has records that no migration wrote; name an empty store, or empty it with: "
                    "hedwig-admin metadata format --wipe"
                )
        elif earlier.phase is Phase.DONE:
            raise MigrationError(
                f"a migration from {earlier.source} into the target has ended; to repeat it, empty the "
                "target with: hedwig-admin metadata format --wipe"
            )
        elif (earlier.source, earlier.owners) != (self.state.source, self.state.owners):
            owners = "with" if earlier.owners else "without"
            raise MigrationError(
                f"the target holds an unfinished migration from {earlier.source} {owners} owners; continue that one, "
                "or empty the target with: hedwig-admin metadata format --wipe"
            )
        else:
            self.state = replace(earlier, id=earlier.id or self.state.id)
            self.is_resumed = True
        try:
            await check_target(self._source.named_records, self._target.named_records)
        except LogConflictError as exc:
            raise MigrationError(str(exc)) from exc

    async def copy(self, advance: Callable[[int], None]) -> None:
        """Copy the topics after the position, then save the next phase. `advance` receives how many more it copied."""
        if self.state.phase is not Phase.COPY:
            return
        last: Topic | None = None

        async def write(batch: list[PlainRecord]) -> Counter[CopyResult]:
            return await copy_records(self._target, batch, Existing.REPLACE)

        def note(batch: list[PlainRecord], _: Counter[CopyResult]) -> None:
            nonlocal last
            position = self.state.position
            for record in batch:
                if record.key.topic != last:
                    # All records of the topic before are in the target.
                    position, last = last or position, record.key.topic
            self.state = replace(self.state, position=position, copied=self.state.copied + len(batch))
            advance(len(batch))

        async with aclosing(self._batches(self._source.scan(None, self.state.position, kinds=self.kinds))) as batches:
            await load_batches(batches, write, note)
        self.state = replace(self.state, phase=Phase.CATCH_UP, position=None)
        await self._save()

    async def compare(self, advance: Callable[[int], None]) -> tuple[StoreDigest, StoreDigest]:
        """Return the digests of source and target. `advance` receives how many more records each side has read."""
        sides = [
            asyncio.create_task(digest_store(store, self.kinds, advance)) for store in (self._source, self._target)
        ]
        try:
            source, target = await asyncio.gather(*sides)
        finally:
            for side in sides:
                side.cancel()
            await asyncio.wait(sides)
        return source, target

    async def mend(self, buckets: frozenset[int]) -> int:
        """Make the target equal to the source, in `buckets`; return how many records were written or deleted."""
        await self._save()
        mended = 0

        async def write(batch: list[PlainRecord]) -> int:
            done = await copy_records(self._target, batch, Existing.REPLACE)
            return done.total() - done[CopyResult.EQUAL]

        def count(_: object, number: int) -> None:
            nonlocal mended
            mended += number

        async with aclosing(self._batches(self._source.scan(kinds=self.kinds), buckets)) as batches:
            await load_batches(batches, write, count)
        async with aclosing(self._scanned(self._target.scan(kinds=self.kinds), buckets)) as pages:
            await load_batches(pages, self._delete_gone, count)
        return mended

    async def settle_buckets(self, buckets: frozenset[int]) -> list[ChangedRecord]:
        """Compare each record in `buckets`, of both sides, and mend those that differ.

        Return those that were not found equal in the end. A record that is created meanwhile may be missed.
        """
        left: list[ChangedRecord] = []
        for store in (self._source, self._target):
            async with aclosing(self._scanned(store.scan(kinds=self.kinds), buckets)) as pages:
                async for page in pages:
                    left += await self.reconciler.settle(ChangedRecord(item.kind, item.key) for item in page)
        return left

    async def move_logs(self) -> int:
        """Make the records of shared logs of the target equal to those of the source; return how many there are.

        Raises: MigrationError - the target has those of another deployment; MetadataUnavailableError - the source still
            changes.
        """
        try:
            return await move_logs(self._source, self._target)
        except LogConflictError as exc:
            raise MigrationError(str(exc)) from exc

    async def move_access(self) -> tuple[int, int]:
        """Make the rules of access control of the target those of the source; return how many there are.

        Raises: MetadataUnavailableError - somebody still changes them.
        """
        records = self._source.named_records, self._target.named_records
        return await move_rules(*records), await move_users(*records)

    async def prepare_target(self) -> None:
        """Give the target what its future hubs need besides the records of topics.

        The standalone hub's registration is copied, if there is one: its count of starts is that hub's epoch, which
        must not begin anew. A target that has one already keeps it. If the target was the source of an earlier
        migration, its freeze is lifted, so that hubs can use it again.
        """
        registration = await self._source.named_records.read(STANDALONE)
        records = self._target.named_records
        if registration is not None and await records.read(STANDALONE) is None:
            await records.replace(STANDALONE, None, registration)
        freeze = await read_freeze(records)
        if freeze is not None and freeze.forbids_writes:
            await replace_freeze(records, freeze, replace(freeze, state=FreezeState.LIFTED), self._random)

    async def finish(self) -> None:
        """Record that both sides were found equal, and that nobody writes to the source any more."""
        self.state = replace(self.state, phase=Phase.DONE)
        await self._save()

    async def _delete_gone(self, items: list[ScannedRecord]) -> int:
        """Delete from the target what the source does not have."""
        deleted = 0
        for kind in self.kinds:
            of_kind = [item for item in items if item.kind is kind]
            if not of_kind:
                continue
            example = PlainRecord(kind, of_kind[0].key, None)
            reads: list[Operation[Any]] = [Read(item.key) for item in of_kind]
            outcomes = await apply_to(self._source, example.kind, reads)
            for outcome in outcomes:
                outcome.check()
            gone = [item for item, outcome in zip(of_kind, outcomes, strict=True) if outcome.record is None]
            deletes: list[Operation[Any]] = [Delete(item.key, item.read().version) for item in gone]
            for outcome in await apply_to(self._target, example.kind, deletes):
                if not isinstance(outcome.error, BadVersionError | NoRecordError):
                    outcome.check()
                    deleted += 1
        return deleted

    async def _batches(
        self, pages: AsyncGenerator[list[ScannedRecord], None], buckets: frozenset[int] | None = None
    ) -> AsyncGenerator[list[PlainRecord], None]:
        async with aclosing(self._scanned(pages, buckets)) as batches:
            async for items in batches:
                yield [PlainRecord(item.kind, item.key, item.read().value) for item in items]

    async def _scanned(
        self, pages: AsyncGenerator[list[ScannedRecord], None], buckets: frozenset[int] | None
    ) -> AsyncGenerator[list[ScannedRecord], None]:
        """Iterate over batches of the scanned records in `buckets`; save the position about every `_SAVE_EVERY_S`."""
        async with aclosing(pages):
            async for page in pages:
                wanted = [item for item in page if buckets is None or bucket_of(item.key.topic) in buckets]
                for start in range(0, len(wanted), BATCH_ROWS):
                    yield wanted[start : start + BATCH_ROWS]
                if self._clock.monotonic() - self._saved_at >= _SAVE_EVERY_S:
                    await self._save()

    async def _save(self) -> None:
        """Store the state. Raises MigrationError if another migration has written there."""
        value = self.state.encode(make_token(self._random))
        if not await replace_surely(self._target.named_records, RECORD_NAME, self._stored, value):
            raise MigrationError("another migration writes to the target at the same time; stop one of them")
        self._stored = value
        self._saved_at = self._clock.monotonic()
