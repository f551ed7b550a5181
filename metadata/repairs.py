"""Repairs of single records: each by compare-and-set at the version at which the fault was seen.

All may be made while hubs run, and may end at any point: what is half done is a state that hubs make themselves, and a
check finds what is left. What a hub that lives owns is not for these functions; whoever calls knows which hubs live.
"""

import enum
from typing import Final

from hedwig.errors import BadVersionError, CorruptRecordError, NoRecordError, TopicPersistenceInfoExistsError
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData, SubscriptionState, Topic
from hedwig.versions import NEW, Version, Versioned
from metadata.kinds import OWNERSHIP, SUBSCRIPTIONS, RecordKind
from metadata.operations import RecordKey
from metadata.store import MetadataStore

__all__ = [
    "RepairResult",
    "delete_unreadable",
    "make_topic",
    "release_dead_owner",
    "renew_ranges",
    "reset_pointer",
]

_TRIES: Final = 8


class RepairResult(enum.StrEnum):
    """What became of a repair."""

    REPAIRED = "repaired"
    CHANGED = "changed"
    """Somebody wrote first: it was left as it is."""
    LEFT = "left"
    """It is not for a program to decide, or not now."""


async def release_dead_owner(store: MetadataStore, topic: Topic, seen: Versioned[HubInfo]) -> RepairResult:
    """Delete the owner record of a hub that is dead for good, after shutting out what that hub may have sent.

    The next hub claims the topic as one that nobody owned, so what a takeover does comes first: the ledger ranges are
    written anew, and a write of them that is still on its way is refused. A ledger that was left open is fenced by the
    next owner in any case.

    Raises: CorruptRecordError - the ledger ranges cannot be read; MetadataUnavailableError, UncertainStateError.
    """
    for _ in range(_TRIES):
        current = await store.ownership.read_owner_info(topic)
        if current is None or current.version != seen.version:
            return RepairResult.CHANGED
        if await _renew_once(store, topic):
            break
    else:
        return RepairResult.CHANGED
    try:
        await store.ownership.delete_owner_info(topic, seen.version)
    except (BadVersionError, NoRecordError):
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def renew_ranges(store: MetadataStore, topic: Topic) -> None:
    """Write the ledger ranges of a topic that no living hub owns as they are, so that no other write is on its way.

    Raises: as `release_dead_owner`.
    """
    for _ in range(_TRIES):
        if await _renew_once(store, topic):
            return


async def reset_pointer(store: MetadataStore, key: RecordKey, seen: Versioned[SubscriptionData]) -> RepairResult:
    """Set the consume pointer of a subscription to 0; it counts messages of a topic that is not there any more."""
    assert key.subscriber is not None, "it is a subscription's"
    state = seen.value.state
    if state is None or state == SubscriptionState():
        return RepairResult.REPAIRED
    data = SubscriptionData(state=SubscriptionState(unknown=state.unknown))
    try:
        await store.subscriptions.update_subscription_data(key.topic, key.subscriber, data, seen.version)
    except (BadVersionError, NoRecordError):
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def make_topic(store: MetadataStore, topic: Topic) -> RepairResult:
    """Make the topic, unless somebody has."""
    try:
        await store.persistence.write_topic_persistence_info(topic, LedgerRanges(), NEW)
    except TopicPersistenceInfoExistsError:
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def delete_unreadable(
    store: MetadataStore, kind: RecordKind[object], key: RecordKey, version: Version | None
) -> RepairResult:
    """Delete an owner record or a subscription that cannot be read; LEFT for any other, and without a version."""
    if version is None:
        return RepairResult.LEFT
    try:
        if kind.name == OWNERSHIP.name:
            await renew_ranges(store, key.topic)
            await store.ownership.delete_owner_info(key.topic, version)
        elif kind.name == SUBSCRIPTIONS.name and key.subscriber is not None:
            await store.subscriptions.delete_subscription_data(key.topic, key.subscriber, version)
        else:
            return RepairResult.LEFT
    except (BadVersionError, NoRecordError, CorruptRecordError):
        # A refusal shows the record that is there, if that can be read.
        return RepairResult.CHANGED
    return RepairResult.REPAIRED


async def _renew_once(store: MetadataStore, topic: Topic) -> bool:
    current = await store.persistence.read_topic_persistence_info(topic)
    if current is None:
        return True
    try:
        await store.persistence.write_topic_persistence_info(topic, current.value, current.version)
    except (BadVersionError, NoRecordError):
        return False
    return True
