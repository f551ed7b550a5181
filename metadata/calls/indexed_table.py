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
from hedwig.metadata.contract.table import TableOver, VersionedTable
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
    """What is known of an entry: its version (None: there is none), whether it is new, or why it could not be made."""

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
        (outcome,) = await self.apply([Write(key, record, version, merge)], deadline)
        return outcome.written()

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        SUBSCRIPTIONS.check_delete(key, version)
        (outcome,) = await self.apply([Delete(key, version)], deadline)
        outcome.check()

    async def apply(
        self, operations: Sequence[Operation[SubscriptionData]], deadline: Deadline | None = None
    ) -> list[Outcome[SubscriptionData]]:
        asked = _asked(operations)
        if not asked:
            return await self._table.apply(operations, deadline)
        until = deadline or deadline_of_all(self._options, len(operations))
        entries = await self._ask(asked, until)
        errors = [
            None if isinstance(each, Read) or each.key not in asked else entries[each.key].error for each in operations
        ]
        sent = [each for each, error in zip(operations, errors, strict=True) if error is None]
        answers = iter(await self._table.apply(sent, until) if sent else ())
        outcomes = [next(answers) if error is None else Outcome(error=error) for error in errors]
        await self._remove(_left_over(operations, outcomes, entries), until)
        return outcomes

    async def _ask(self, asked: Mapping[RecordKey, Operation[None]], deadline: Deadline) -> dict[RecordKey, _Entry]:
        """Make the entries of new subscriptions, or write them anew, and read those of others, until all are known."""
        entries: dict[RecordKey, _Entry] = {}
        for _ in range(_ROUNDS):
            outcomes = await self._entries.apply(list(asked.values()), deadline)
            again: dict[RecordKey, Operation[None]] = {}
            for (key, operation), outcome in zip(asked.items(), outcomes, strict=True):
                known = _known(operation, outcome)
                if isinstance(known, _Entry):
                    entries[key] = known
                else:
                    again[key] = known
            if not again:
                return entries
            asked = again
        busy = MetadataUnavailableError(
            "nothing was done, since other processes keep changing its entry in the index of subscribers; try again"
        )
        return entries | dict.fromkeys(asked, _Entry(error=busy))

    async def _remove(self, entries: Mapping[RecordKey, Version], deadline: Deadline) -> None:
        if not entries:
            return
        deletes = [Delete(entry_key(key), version) for key, version in entries.items()]
        for delete, outcome in zip(deletes, await self._entries.apply(deletes, deadline), strict=True):
            if outcome.error is not None:
                _log.debug("the index entry of %s stays: %s", delete.key, outcome.error)


def _asked(operations: Sequence[Operation[SubscriptionData]]) -> dict[RecordKey, Operation[None]]:
    """Return for the subscriptions that are made the writes of their entries, and for those deleted the reads."""
    asked: dict[RecordKey, Operation[None]] = {}
    for operation in operations:
        if isinstance(operation, Read) or (isinstance(operation, Write) and operation.version not in (NEW, ANY)):
            continue
        try:
            entry = entry_key(operation.key)
        except HedwigError:
            continue  # The table refuses it.
        if isinstance(operation, Write):
            asked[operation.key] = Write(entry, None, NEW)
        else:
            asked.setdefault(operation.key, Read(entry))
    return asked


def _known(operation: Operation[None], outcome: Outcome[None]) -> _Entry | Operation[None]:
    """Return what the outcome says of an entry, or the operation to try next."""
    error = outcome.error
    if isinstance(operation, Read):
        if isinstance(error, CorruptRecordError):
            return _Entry()
        return _Entry(None if outcome.record is None else outcome.record.version, error=error)
    match error:
        case None:
            return _Entry(outcome.version, is_new=isinstance(operation, Write) and operation.version == NEW)
        case BadVersionError(current=Versioned() as current):
            if isinstance(operation, Write) and operation.version == NEW:
                return Write(operation.key, None, current.version)
            return _Entry(current.version)  # Another process has just written it anew, which does as well.
        case NoRecordError():
            return Write(operation.key, None, NEW)
        case CorruptRecordError():
            return Write(operation.key, None, ANY)
        case UncertainStateError():
            # Whatever became of the entry, the subscription was not made.
            why = f"nothing was done, since its entry in the index of subscribers is in doubt: {error}"
            return _Entry(error=MetadataUnavailableError(why))
        case _:
            return _Entry(error=error)


def _left_over(
    operations: Sequence[Operation[SubscriptionData]],
    outcomes: Sequence[Outcome[SubscriptionData]],
    entries: Mapping[RecordKey, _Entry],
) -> dict[RecordKey, Version]:
    """Return the entries to remove: of subscriptions that were deleted, and new ones of those that were refused."""
    left_over: dict[RecordKey, Version] = {}
    made = {each.key for each, outcome in zip(operations, outcomes, strict=True) if outcome.version is not None}
    for operation, outcome in zip(operations, outcomes, strict=True):
        entry = entries.get(operation.key)
        # One that was deleted and made in the same batch, in whatever order, may be there.
        if entry is None or entry.version is None or operation.key in made:
            continue
        error = outcome.error
        if isinstance(operation, Delete):
            is_left_over = error is None
        else:
            is_refused = error is not None and error.happened == "no" and not isinstance(error, BadVersionError)
            is_left_over = entry.is_new and is_refused
        if is_left_over:
            left_over[operation.key] = entry.version
    return left_over
