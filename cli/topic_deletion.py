"""Deleting a topic with all that belongs to it, so that a crash at any point leaves nothing astray.

The persistence record is what makes a topic exist, so it goes last: a deletion that ends early leaves a topic, which
can be deleted again, and never subscriptions of a topic that nobody lists. Each record goes by the version that was
read before the first one went. A hub that claims the topic meanwhile rewrites the persistence record, so its claim
wins and the rest of the deletion is refused; a subscription whose consume pointer moves is read again, since it is
unwanted wherever it stands.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from cli.errors import CommandError, ExitCode, counted
from hedwig.errors import BadVersionError, NoRecordError
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.names import show_name
from hedwig.versions import Version, Versioned
from metadata import Delete, MetadataStore, RecordKey

__all__ = ["TopicRecords", "delete_topic", "read_topic"]

_BATCH: Final = 256
_ROUNDS_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecords:
    """What a store has of a topic; a topic that merely has leftovers of records has no persistence record."""

    topic: Topic
    persistence: Versioned[LedgerRanges] | None
    owner: Versioned[HubInfo] | None
    subscriptions: int

    @property
    def is_anything_there(self) -> bool:
        return self.persistence is not None or self.owner is not None or self.subscriptions > 0

    @property
    def ledgers(self) -> int:
        return 0 if self.persistence is None else len(self.persistence.value.ranges)

    @property
    def obstacles(self) -> str:
        """Name what a deletion would take from somebody: the owner and the subscriptions; empty if there are none."""
        owner = [] if self.owner is None else [f"the owner {self.owner.value.address}"]
        subscriptions = [counted(self.subscriptions, "subscription")] if self.subscriptions else []
        return " and ".join(owner + subscriptions)


async def read_topic(store: MetadataStore, topic: Topic) -> TopicRecords:
    """Read the records of `topic`, and count its subscriptions."""
    # The persistence record comes first: whatever is made after it was read makes its version stale.
    persistence = await store.persistence.read_topic_persistence_info(topic)
    owner = await store.ownership.read_owner_info(topic)
    subscriptions = 0
    async for _ in store.subscriptions.read_subscriptions(topic):
        subscriptions += 1
    return TopicRecords(topic=topic, persistence=persistence, owner=owner, subscriptions=subscriptions)


async def delete_topic(store: MetadataStore, found: TopicRecords) -> int:
    """Delete the topic that was `found`; return how many subscriptions went.

    Raises: BadVersionError, NoTopicOwnerInfoError, NoTopicPersistenceInfoError - somebody wrote or deleted a record
        meanwhile: what went so far stays gone, the topic stays; CommandError - subscriptions are made as fast as they
        are deleted.
    """
    deleted = await _delete_subscriptions(store, found.topic)
    if found.owner is not None:
        await store.ownership.delete_owner_info(found.topic, found.owner.version)
    if found.persistence is not None:
        await store.persistence.delete_topic_persistence_info(found.topic, found.persistence.version)
    return deleted


async def _delete_subscriptions(store: MetadataStore, topic: Topic) -> int:
    deleted = 0
    for _ in range(_ROUNDS_MAX):
        seen = 0
        async for batch in _batches(store.subscriptions.read_subscriptions(topic)):
            seen += len(batch)
            deletes = [Delete(RecordKey(topic, subscriber), version) for subscriber, version in batch]
            for outcome in await store.subscriptions.apply(deletes):
                deleted += _is_deleted(outcome.error)
        if not seen:
            return deleted
    raise CommandError(
        f"cannot delete topic {show_name(topic)!r}: its subscriptions are changed as fast as they are deleted; "
        "stop its subscribers, and try again",
        ExitCode.VERSION_CONFLICT,
    )


def _is_deleted(error: Exception | None) -> bool:
    """Say whether a subscription went; the next round sees one that moved. Raises any other error."""
    if error is None:
        return True
    if isinstance(error, NoRecordError | BadVersionError):
        return False
    raise error


async def _batches(
    subscriptions: AsyncIterator[tuple[SubscriberId, Versioned[SubscriptionData]]],
) -> AsyncIterator[list[tuple[SubscriberId, Version]]]:
    batch: list[tuple[SubscriberId, Version]] = []
    async for subscriber, found in subscriptions:
        batch.append((subscriber, found.version))
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
