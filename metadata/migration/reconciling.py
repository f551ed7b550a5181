"""Reconciling: making given records of one store equal to those of another, and checking that they are."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from hedwig.errors import BadVersionError, NoRecordError
from hedwig.metadata.bulk.comparison import plain_record
from hedwig.metadata.bulk.copying import apply_to
from hedwig.metadata.bulk.export_file import PlainRecord
from hedwig.metadata.contract.changes import ChangedRecord
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS
from hedwig.metadata.contract.operations import Delete, Operation, Outcome, Read, Write
from hedwig.metadata.store import MetadataStore
from hedwig.versions import NEW

__all__ = ["Reconciler"]

_ORDER: Final = (PERSISTENCE, SUBSCRIPTIONS, OWNERSHIP)
_TRIES: Final = 3


class Reconciler:
    """Makes records of `target` equal to those of `source`. `compared` and `mended` count records, for reports."""

    def __init__(self, source: MetadataStore, target: MetadataStore) -> None:
        self._source = source
        self._target = target
        self.compared = 0
        self.mended = 0

    async def settle(self, records: Iterable[ChangedRecord]) -> list[ChangedRecord]:
        """Compare `records` on both sides, write or delete in the target what differs, and compare that again.

        Return those that were not found equal in the end, since other writers change them all the time.
        Raises: CorruptRecordError - one cannot be read; MetadataUnavailableError.
        """
        left = list(dict.fromkeys(records))
        for _ in range(_TRIES):
            if not left:
                break
            left = [each for kind in _ORDER for each in await self._once([it for it in left if it.kind is kind])]
        return left

    async def _once(self, records: Sequence[ChangedRecord]) -> list[ChangedRecord]:
        """Return those of `records`, all of one kind, that differed, after writing or deleting them in the target."""
        if not records:
            return []
        example = PlainRecord(records[0].kind, records[0].key, None)
        reads: list[Operation[Any]] = [Read(each.key) for each in records]
        # The source first: a record that changes there meanwhile is known as changed, and is compared again.
        source = await apply_to(self._source, example.kind, reads)
        target = await apply_to(self._target, example.kind, reads)
        differing: list[ChangedRecord] = []
        writes: list[Operation[Any]] = []
        for each, wanted, current in zip(records, source, target, strict=True):
            if (write := _write(each, wanted, current)) is not None:
                differing.append(each)
                writes.append(write)
        self.compared += len(records)
        for outcome in await apply_to(self._target, example.kind, writes) if writes else ():
            if not isinstance(outcome.error, BadVersionError | NoRecordError):
                outcome.check()
                self.mended += 1
        return differing


def _write(record: ChangedRecord, wanted: Outcome[Any], current: Outcome[Any]) -> Operation[Any] | None:
    """Return the operation that makes a record of the target equal to the source's; None if it is equal already."""
    wanted.check()
    current.check()
    if wanted.record is None:
        return None if current.record is None else Delete(record.key, current.record.version)
    if current.record is None:
        return Write(record.key, wanted.record.value, NEW)
    if plain_record(wanted.record.value) == plain_record(current.record.value):
        return None
    return Write(record.key, wanted.record.value, current.record.version)
