"""Repairs of single records: each by compare-and-set at the version at which the fault was seen.

Repairs may run beside hubs, and may end at any point. Half a repair is a state that hubs make themselves, and a check
finds the rest. These functions are not for what a living hub owns; the caller knows which hubs live.
"""

import enum
from collections import OrderedDict
from typing import Any, Final

from hedwig.errors import BadVersionError, CorruptRecordError, NoRecordError, TopicPersistenceInfoExistsError
from hedwig.metadata.calls.change import Instead, change
from hedwig.metadata.contract.kinds import OWNERSHIP, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.store import MetadataStore
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData, SubscriptionState, Topic
from hedwig.versions import NEW, Version, Versioned

__all__ = [
    "Renewals",
    "RepairResult",
    "delete_unreadable",
    "make_topic",
    "release_dead_owner",
    "reset_pointer",
]

_REMEMBERED_MAX: Final = 10_000


class RepairResult(enum.StrEnum):
    """What became of a repair."""

    REPAIRED = "repaired"
    CHANGED = "changed"
    """Another writer was faster, so the record was left as it is."""
    LEFT = "left"
    """It is not for a program to decide, or not now."""


class Renewals:
    """Writes ledger ranges again unchanged, so that no write that was sent before takes effect.

    It remembers the versions that it replaced, for the last `_REMEMBERED_MAX` topics. The ranges seen at such a version
    are still the same.
    """

    def __init__(self) -> None:
        self._replaced: OrderedDict[Topic, tuple[Version, Version]] = OrderedDict()

    async def renew(self, store: MetadataStore, topic: Topic, owner: Versioned[HubInfo] | None = None) -> bool:
        """Write the ledger ranges of a topic that no living hub owns; a topic without ranges has nothing to renew.

        Returns: whether no other writer prevented that, and `owner`, if given, is still the owner on record.
        Raises: as `release_dead_owner`.
        """
        before: Versioned[LedgerRanges] | None = None

        async def as_it_is(current: Versioned[LedgerRanges] | None) -> LedgerRanges | Instead:
            nonlocal before
            before = current
            if current is None or (owner is not None and not await _is_on_record(store, topic, owner)):
                return Instead.LEAVE
            return current.value

        try:
            version = await change(store.persistence, topic, as_it_is)
        except (BadVersionError, NoRecordError):
            return False
        if before is None or version is None:
            return True
        if version == before.version:
            return False
        seen, by = self._replaced.get(topic, (before.version, before.version))
        self._replaced[topic] = seen if by == before.version else before.version, version
        self._replaced.move_to_end(topic)
        if len(self._replaced) > _REMEMBERED_MAX:
            self._replaced.popitem(last=False)
        return True

    def of(self, topic: Topic, version: Version) -> Version:
        """Return the version that ranges seen at `version` have now: another one if it was replaced here."""
        replaced, by = self._replaced.get(topic, (None, version))
        return by if version == replaced else version


async def release_dead_owner(
    store: MetadataStore, topic: Topic, seen: Versioned[HubInfo], renewals: Renewals
) -> RepairResult:
    """Delete the owner record of a hub that is dead for good, after shutting out what that hub may have sent.

    The next hub claims the topic as one that nobody owned, so this does first what a takeover does. It writes the
    ledger ranges again, so that a write of them that is still on its way is refused. The next owner fences a ledger
    that was left open in any case.

    Raises: CorruptRecordError - the ledger ranges cannot be read; MetadataUnavailableError, UncertainStateError.
    """
    if not await renewals.renew(store, topic, seen):
        return RepairResult.CHANGED
    try:
        await store.ownership.delete(topic, seen.version)
    except (BadVersionError, NoRecordError):
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def _is_on_record(store: MetadataStore, topic: Topic, owner: Versioned[HubInfo]) -> bool:
    record = await store.ownership.read(topic)
    return record is not None and record.version == owner.version


async def reset_pointer(store: MetadataStore, key: RecordKey, seen: Versioned[SubscriptionData]) -> RepairResult:
    """Set the consume pointer of a subscription to 0; it counts messages of a topic that no longer exists."""
    assert key.subscriber is not None, "it is a subscription's"
    state = seen.value.state
    if state is None or state == SubscriptionState():
        return RepairResult.REPAIRED
    data = SubscriptionData(state=SubscriptionState(unknown=state.unknown))
    try:
        await store.subscriptions.update(key.topic, key.subscriber, data, seen.version)
    except (BadVersionError, NoRecordError):
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def make_topic(store: MetadataStore, topic: Topic) -> RepairResult:
    """Make the topic, unless it exists."""
    try:
        await store.persistence.write(topic, LedgerRanges(), NEW)
    except TopicPersistenceInfoExistsError:
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def delete_unreadable(
    store: MetadataStore, kind: RecordKind[Any], key: RecordKey, version: Version | None, renewals: Renewals
) -> RepairResult:
    """Delete an owner record or a subscription that cannot be read; LEFT for any other, and without a version."""
    if version is None:
        return RepairResult.LEFT
    try:
        if kind.name == OWNERSHIP.name:
            await renewals.renew(store, key.topic)
            await store.ownership.delete(key.topic, version)
        elif kind.name == SUBSCRIPTIONS.name and key.subscriber is not None:
            await store.subscriptions.delete(key.topic, key.subscriber, version)
        else:
            return RepairResult.LEFT
    except (BadVersionError, NoRecordError, CorruptRecordError):
        # CorruptRecordError too: a refusal reads the record that is there, which may be unreadable.
        return RepairResult.CHANGED
    return RepairResult.REPAIRED
