"""Copying records into a store, each as it is given; `Existing` says what to do if the store holds another.

A record is first written as NEW, so a copy into an empty store costs one operation for each. If the store holds the
record already, the refusal shows it. An equal one (except for its version) is passed over. So a copy that ended at any
point, with its outcome known or not, can simply be made again.
"""

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hedwig.errors import BadVersionError, HedwigError, MetadataUnavailableError, NoRecordError
from hedwig.metadata.bulk.export_file import PlainRecord
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import Operation, Outcome, Read, Write
from hedwig.metadata.store import MetadataStore
from hedwig.versions import NEW, Version, Versioned

__all__ = ["CopyConflictError", "CopyResult", "Existing", "apply_to", "copy_records", "plan_copy"]

_TRIES: Final = 16
"""How often other writers may be faster with one record before the copy gives up."""

_ORDER: Final[tuple[RecordKind[Any], ...]] = (PERSISTENCE, SUBSCRIPTIONS, OWNERSHIP)
"""A topic exists before it has subscriptions, and before a hub owns it."""


class Existing(enum.StrEnum):
    """What to do about a record that the store holds already, and that differs."""

    SKIP = "skip"
    REPLACE = "replace"
    FAIL = "fail"


class CopyResult(enum.Enum):
    """What became of one record."""

    CREATED = "created"
    EQUAL = "equal"
    REPLACED = "replaced"
    KEPT = "kept"
    """The store's own record, which differs, stays."""
    REFUSED = "refused"
    """In a plan: it differs, and would end the copy."""


class CopyConflictError(HedwigError):
    """The store holds another record, and none was to be replaced."""


_IF_DIFFERENT: Final = {
    Existing.SKIP: CopyResult.KEPT,
    Existing.REPLACE: CopyResult.REPLACED,
    Existing.FAIL: CopyResult.REFUSED,
}


@dataclass(frozen=True, slots=True)
class _Pending:
    record: PlainRecord
    version: Version


async def copy_records(store: MetadataStore, records: Sequence[PlainRecord], existing: Existing) -> Counter[CopyResult]:
    """Write `records` into `store`; return how many had which result.

    Raises: CopyConflictError - with FAIL, if the store holds a different record. The records before it are written
        then, and others may be; MetadataUnavailableError - the store did not run all writes, or the outcome is not
        known; any other error of a write. In each case the caller may make the same copy again.
    """
    done: Counter[CopyResult] = Counter()
    for kind in _ORDER:
        pending = [_Pending(record, NEW) for record in records if record.kind is kind]
        for _ in range(_TRIES):
            if not pending:
                break
            writes: list[Operation[Any]] = [Write(each.record.key, each.record.value, each.version) for each in pending]
            outcomes = await apply_to(store, kind, writes)
            judged = [_judge(each, outcome, existing) for each, outcome in zip(pending, outcomes, strict=True)]
            done.update(each for each in judged if isinstance(each, CopyResult))
            pending = [each for each in judged if isinstance(each, _Pending)]
        for each in pending:
            raise MetadataUnavailableError(
                f"other clients changed the {kind.noun} of {each.record.key} {_TRIES} times while it was being "
                "replaced; stop them, and continue"
            )
    return done


async def plan_copy(store: MetadataStore, records: Sequence[PlainRecord], existing: Existing) -> Counter[CopyResult]:
    """Return how many of `records` would now have which result; write nothing.

    Raises: CorruptRecordError - a record of the store cannot be read; MetadataUnavailableError - it did not answer.
    """
    planned: Counter[CopyResult] = Counter()
    for kind in _ORDER:
        wanted = [record for record in records if record.kind is kind]
        if not wanted:
            continue
        reads: list[Operation[Any]] = [Read(record.key) for record in wanted]
        for record, outcome in zip(wanted, await apply_to(store, kind, reads), strict=True):
            outcome.check()
            if outcome.record is None:
                planned[CopyResult.CREATED] += 1
            else:
                is_equal = outcome.record.value == record.value
                planned[CopyResult.EQUAL if is_equal else _IF_DIFFERENT[existing]] += 1
    return planned


async def apply_to(
    store: MetadataStore, kind: RecordKind[Any], operations: Sequence[Operation[Any]]
) -> list[Outcome[Any]]:
    """Run operations on records of `kind`."""
    if kind is OWNERSHIP:
        return await store.ownership.apply(operations)
    if kind is PERSISTENCE:
        return await store.persistence.apply(operations)
    return await store.subscriptions.apply(operations)


def _judge(tried: _Pending, outcome: Outcome[Any], existing: Existing) -> CopyResult | _Pending:
    """Return the result of a write, or the write to try next."""
    record = tried.record
    match outcome.error:
        case None:
            return CopyResult.CREATED if tried.version == NEW else CopyResult.REPLACED
        case BadVersionError(current=Versioned(value=value, version=version)):
            if value == record.value:
                return CopyResult.EQUAL
            if existing is Existing.SKIP:
                return CopyResult.KEPT
            if existing is Existing.REPLACE:
                return _Pending(record, version)
            raise CopyConflictError(
                f"the {record.kind.noun} of {record.key} exists already, and differs from the one to be written"
            )
        case NoRecordError():
            return _Pending(record, NEW)
        case error:
            raise error
