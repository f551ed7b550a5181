"""The index of subscriptions by subscriber as a whole: fill it, find what it lacks, and what it has too much.

Hubs may run meanwhile, as they keep the index (hedwig.metadata.calls.indexed_table).
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from hedwig.errors import BadVersionError, CorruptRecordError, NoRecordError
from hedwig.metadata.bulk.loading import load_batches
from hedwig.metadata.bulk.repairs import RepairResult
from hedwig.metadata.calls.indexed_table import entry_key
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.metadata.contract.operations import Outcome, Read, RecordKey, Write
from hedwig.metadata.store import MetadataStore
from hedwig.versions import NEW, Version

__all__ = ["enter", "enter_all", "remove_entry", "unindexed"]

_IN_FLIGHT: Final = 8


async def enter_all(store: MetadataStore, advance: Callable[[int], None]) -> int:
    """Enter every subscription into the index; return the number of those that it lacked.

    `advance` receives the number of subscriptions that each step looked at. It may be repeated after it was ended.

    Raises: MetadataUnavailableError, UncertainStateError - some are not entered; InvalidArgumentError - as
        `MetadataStore.index_entries`.
    """
    number = 0

    async def lacking() -> AsyncGenerator[Sequence[RecordKey], None]:
        async with aclosing(store.scan(kinds=(SUBSCRIPTIONS,))) as pages:
            async for page in pages:
                yield [record.key for record in page]

    async def carry_out(keys: Sequence[RecordKey]) -> int:
        absent = await _absent(store, keys)
        for outcome in await store.index_entries.apply([Write(entry_key(key), None, NEW) for key in absent]):
            if not isinstance(outcome.error, BadVersionError):  # A hub entered it meanwhile.
                outcome.check()
        return len(absent)

    def record(keys: Sequence[RecordKey], entered: int) -> None:
        nonlocal number
        number += entered
        advance(len(keys))

    async with aclosing(lacking()) as batches:
        await load_batches(batches, carry_out, record, in_flight_max=_IN_FLIGHT)
    return number


async def unindexed(store: MetadataStore, keys: Sequence[RecordKey]) -> list[RecordKey]:
    """Return those of the subscriptions that exist, also at a second look, and that the index lacks."""
    absent = await _absent(store, keys)
    if not absent:
        return []
    # It may have been deleted, and its entry removed, since the scan.
    outcomes = await store.subscriptions.apply([Read(key) for key in absent])
    return [key for key, outcome in zip(absent, outcomes, strict=True) if _is_there(outcome)]


async def enter(store: MetadataStore, key: RecordKey) -> RepairResult:
    """Enter one subscription."""
    try:
        await store.index_entries.write(entry_key(key), None, NEW)
    except BadVersionError:
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def remove_entry(store: MetadataStore, key: RecordKey, version: Version) -> RepairResult:
    """Remove the entry of a subscription that does not exist, if nobody has written the entry since."""
    try:
        await store.index_entries.delete(entry_key(key), version)
    except (BadVersionError, NoRecordError):
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def _absent(store: MetadataStore, keys: Sequence[RecordKey]) -> list[RecordKey]:
    """Return the subscriptions without an entry."""
    outcomes = await store.index_entries.apply([Read(entry_key(key)) for key in keys])
    return [key for key, outcome in zip(keys, outcomes, strict=True) if not _is_there(outcome)]


def _is_there(outcome: Outcome[Any]) -> bool:
    """Say whether a read found a record, which may be unreadable. Raises the error of a read that found nothing out."""
    if not isinstance(outcome.error, CorruptRecordError):
        outcome.check()
    return outcome != Outcome()
