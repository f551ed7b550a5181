"""The index of subscriptions by subscriber: which topics does a subscriber have?

In HBase the rows of subscriptions are ordered by topic. So the index is a table of its own. An entry is an empty
record, whose key is that of the subscription with topic and subscriber exchanged. Whoever makes a subscription enters
it first, and whoever deletes one removes its entry last. So each subscription has an entry, and readers ignore an entry
without subscription.

Two processes at work on one subscription could break that: one removes the entry that the other has just found. Hubs
cannot, since only the owner of a topic makes and deletes its subscriptions, one operation on each at a time, under a
lease. And an entry that is found is written anew, so that a removal that is late is refused. For all others,
`metadata check` finds what is missing.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.clock import Deadline
from hedwig.errors import (
    BadVersionError,
    CorruptRecordError,
    HedwigError,
    MetadataUnavailableError,
    NoRecordError,
    UncertainStateError,
)
from hedwig.metadata.calls.attempts import deadline_of_all
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.metadata.contract.operations import Delete, Operation, Outcome, Read, RecordKey, Write
from hedwig.metadata.contract.table import TableOver, VersionedTable, carry_out
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.versions import ANY, NEW, Version, Versioned

__all__ = ["IndexedTable", "entry_key", "subscription_key"]

_log = logging.getLogger(__name__)

_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class _EntryKey(RecordKey):
    """The key of an entry: in the place of the topic the subscriber, and the topic in the place of the subscriber."""

    def __str__(self) -> str:
        return str(subscription_key(self))


def entry_key(key: RecordKey) -> RecordKey:
    """Return the key of the entry of a subscription. Raises: InvalidArgumentError - no subscription has this key."""
    SUBSCRIPTIONS.check(key)
    assert key.subscriber is not None, "it was checked"
    return _EntryKey(Topic(key.subscriber), SubscriberId(key.topic))


def subscription_key(entry: RecordKey) -> RecordKey:
    """Return the key of the subscription of an entry."""
    assert entry.subscriber is not None, "the topic is in its place"
    return RecordKey(Topic(entry.subscriber), SubscriberId(entry.topic))


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is known of an entry that was to be made: its version, and whether it is new; or why it could not be."""

    version: Version | None = None
    is_new: bool = False
    error: HedwigError | None = None


class IndexedTable(TableOver[SubscriptionData]):
    """The table of subscriptions, over another, that keeps the index. Its entries are in the table `entries`.

    A new subscription is entered before it is made. Once one is deleted, its entry is removed, if nobody has written it
    since. If that fails, the entry stays, which misleads nobody.
    """

    def __init__(
        self, table: VersionedTable[SubscriptionData], entries: VersionedTable[None], options: StoreOptions
    ) -> None:
        super().__init__(table)
        self._entries = entries
        self._options = options

    async def write(
        self,
        key: RecordKey,
        record: SubscriptionData,
        version: Version,
        *,
        merge: bool = False,
        deadline: Deadline | None = None,
    ) -> Version:
        SUBSCRIPTIONS.check(key)
        if version not in (NEW, ANY):
            return await self._table.write(key, record, version, merge=merge, deadline=deadline)
        until = deadline or deadline_of_all(self._options, 1)
        entry = await self._enter_one(key, until)
        try:
            return await self._table.write(key, record, version, merge=merge, deadline=until)
        except HedwigError as exc:
            if entry.is_new and entry.version is not None and _is_refused(exc):
                await self._remove({key: entry.version}, until)
            raise

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        SUBSCRIPTIONS.check_delete(key, version)
        until = deadline or deadline_of_all(self._options, 1)
        # A removal begins only under the lease, as its read does. So no hub has written the entry anew in between.
        found, _ = await asyncio.gather(
            carry_out(self._entries, Read(entry_key(key)), until), self._table.delete(key, version, until)
        )
        if found.record is not None:
            await self._remove({key: found.record.version}, until)

    async def apply(
        self, operations: Sequence[Operation[SubscriptionData]], deadline: Deadline | None = None
    ) -> list[Outcome[SubscriptionData]]:
        entering, found = _entries_to_make(operations), _entries_to_find(operations)
        if not entering and not found:
            return await self._table.apply(operations, deadline)
        until = deadline or deadline_of_all(self._options, len(operations))
        entries = await self._enter(entering, until)
        errors = [
            None if isinstance(each, Read) or each.key not in entries else entries[each.key].error
            for each in operations
        ]
        sent = [each for each, error in zip(operations, errors, strict=True) if error is None]
        # As in `delete`.
        answered, versions = await asyncio.gather(self._send(sent, until), self._find(found, until))
        answers = iter(answered)
        outcomes = [next(answers) if error is None else Outcome(error=error) for error in errors]
        await self._remove(_left_over(operations, outcomes, entries, versions), until)
        return outcomes

    async def _send(
        self, operations: Sequence[Operation[SubscriptionData]], deadline: Deadline
    ) -> list[Outcome[SubscriptionData]]:
        return await self._table.apply(operations, deadline) if operations else []

    async def _enter_one(self, key: RecordKey, deadline: Deadline) -> _Entry:
        """Make the entry of a new subscription, or write it anew. Raises: MetadataError - it could not be."""
        write: Write[None] = Write(entry_key(key), None, NEW)
        for _ in range(_ROUNDS):
            known = _known(write, await carry_out(self._entries, write, deadline))
            if isinstance(known, _Entry):
                if known.error is not None:
                    raise known.error
                return known
            write = known
        raise _busy()

    async def _enter(self, entering: Mapping[RecordKey, Write[None]], deadline: Deadline) -> dict[RecordKey, _Entry]:
        """Make the entries of new subscriptions, or write them anew."""
        entries: dict[RecordKey, _Entry] = {}
        for _ in range(_ROUNDS):
            if not entering:
                return entries
            outcomes = await self._entries.apply(list(entering.values()), deadline)
            again: dict[RecordKey, Write[None]] = {}
            for (key, write), outcome in zip(entering.items(), outcomes, strict=True):
                known = _known(write, outcome)
                if isinstance(known, _Entry):
                    entries[key] = known
                else:
                    again[key] = known
            entering = again
        return entries | dict.fromkeys(entering, _Entry(error=_busy()))

    async def _find(self, keys: Mapping[RecordKey, Read], deadline: Deadline) -> dict[RecordKey, Version]:
        """Return the versions of the entries that exist and can be read. What is not found stays, if it is there."""
        if not keys:
            return {}
        outcomes = await self._entries.apply(list(keys.values()), deadline)
        return {
            key: outcome.record.version
            for key, outcome in zip(keys, outcomes, strict=True)
            if outcome.record is not None
        }

    async def _remove(self, entries: Mapping[RecordKey, Version], deadline: Deadline) -> None:
        deletes = [Delete(entry_key(key), version) for key, version in entries.items()]
        if len(deletes) == 1:
            outcomes = [await carry_out(self._entries, deletes[0], deadline)]
        else:
            outcomes = await self._entries.apply(deletes, deadline) if deletes else []
        for delete, outcome in zip(deletes, outcomes, strict=True):
            if outcome.error is not None:
                _log.debug("the index entry of %s stays: %s", delete.key, outcome.error)


def _busy() -> MetadataUnavailableError:
    return MetadataUnavailableError(
        "nothing was done, since other processes keep changing its entry in the index of subscribers; try again"
    )


def _entries_to_make(operations: Sequence[Operation[SubscriptionData]]) -> dict[RecordKey, Write[None]]:
    """Return the first writes of the entries of the subscriptions that may be made, by the key of these."""
    made = (each.key for each in operations if isinstance(each, Write) and each.version in (NEW, ANY))
    return {key: Write(entry_key(key), None, NEW) for key in made if _is_valid(key)}


def _entries_to_find(operations: Sequence[Operation[SubscriptionData]]) -> dict[RecordKey, Read]:
    """Return the reads of the entries of the subscriptions that are deleted, by the key of these."""
    return {
        each.key: Read(entry_key(each.key)) for each in operations if isinstance(each, Delete) and _is_valid(each.key)
    }


def _is_valid(key: RecordKey) -> bool:
    """Say whether a subscription can have this key. If not, the table refuses it."""
    try:
        SUBSCRIPTIONS.check(key)
    except HedwigError:
        return False
    return True


def _known(write: Write[None], outcome: Outcome[None]) -> _Entry | Write[None]:
    """Return what the outcome of a write says of an entry, or what to write next."""
    error = outcome.error
    match error:
        case None:
            return _Entry(outcome.version, is_new=write.version == NEW)
        case BadVersionError(current=Versioned() as current):
            if write.version == NEW:
                return Write(write.key, None, current.version)
            return _Entry(current.version)  # Another process has just written it anew, which does as well.
        case NoRecordError() | UncertainStateError():
            # If the outcome is unknown, because another process has written the entry since, look again.
            return Write(write.key, None, NEW)
        case CorruptRecordError():
            return Write(write.key, None, ANY)
        case _:
            return _Entry(error=error)


def _left_over(
    operations: Sequence[Operation[SubscriptionData]],
    outcomes: Sequence[Outcome[SubscriptionData]],
    entries: Mapping[RecordKey, _Entry],
    found: Mapping[RecordKey, Version],
) -> dict[RecordKey, Version]:
    """Return the entries to remove: of subscriptions that were deleted, and new ones of those that were refused."""
    left_over: dict[RecordKey, Version] = {}
    made = {each.key for each, outcome in zip(operations, outcomes, strict=True) if outcome.version is not None}
    for operation, outcome in zip(operations, outcomes, strict=True):
        key, error = operation.key, outcome.error
        version = None
        if isinstance(operation, Delete):
            version = found.get(key) if error is None else None
        elif (entry := entries.get(key)) is not None and entry.is_new and _is_refused(error):
            version = entry.version
        # One that the same batch also makes, before or after, may be there.
        if version is not None and key not in made:
            left_over[key] = version
    return left_over


def _is_refused(error: HedwigError | None) -> bool:
    """Say whether a subscription was surely not made, and not because it exists."""
    return error is not None and error.happened == "no" and not isinstance(error, BadVersionError)
