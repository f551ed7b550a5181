"""A topic that this hub owns, and its subscriptions in memory."""

import enum
from collections.abc import Iterator
from typing import Protocol

from hedwig.errors import HedwigError
from hedwig.hub.logs.log import TopicLog
from hedwig.hub.topics.ownership import Ownership
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, SubscriptionState, Topic
from hedwig.names import show_name
from hedwig.versions import Version

__all__ = ["OwnedTopic", "Subscription"]


class AttachedChannel(Protocol):
    """The channel that a subscription is attached to, as the topic and the detaching code use it."""

    peer: str
    subscriptions: "dict[tuple[Topic, SubscriberId], Subscription]"

    @property
    def is_silent_for_long(self) -> bool: ...
    def abort(self) -> None: ...
    def tell_forced_closed(self, topic: Topic, subscriber: SubscriberId) -> None: ...
    def close(self) -> None: ...
    def part(self) -> None: ...


class AttachedCursor(Protocol):
    """The delivery to a subscription, as the topic and the detaching code use it."""

    is_open: bool
    next_id: int
    bound: int

    @property
    def channel(self) -> AttachedChannel: ...
    def offer(self, local: int, stored: bytes) -> None: ...
    def consumed(self, local: int) -> None: ...
    def go_on(self) -> None: ...
    def close(self) -> None: ...


class Keeper(Protocol):
    """The collection of topics, as each topic uses it."""

    @property
    def ownership(self) -> Ownership: ...
    def is_durable(self, name: Topic) -> bool: ...
    def now(self) -> int: ...
    def give_up(self, topic: "OwnedTopic", error: HedwigError) -> None: ...


class Subscription:
    """A subscription in memory: one that is attached, or whose consume pointer is not stored yet.

    `consumed` is the consume pointer, `stored` its value in the metadata, and `version` the version of the record.
    """

    __slots__ = ("_remote", "consumed", "cursor", "preferences", "stored", "subscriber", "topic", "version")

    def __init__(
        self,
        topic: "OwnedTopic",
        subscriber: SubscriberId,
        preferences: SubscriptionPreferences | None,
        consumed: MessageSeqId,
        version: Version | None,
    ) -> None:
        self.topic = topic
        self.subscriber = subscriber
        self.preferences = preferences
        """None if they are large: then only the record holds them."""
        self.consumed = self.stored = consumed.local
        self._remote = consumed.remote
        self.version = version
        """None for a subscription on a non-durable topic, which has no record."""
        self.cursor: AttachedCursor | None = None

    def consume(self, seq_id: MessageSeqId) -> bool:
        """Move the consume pointer forward, but not beyond the topic; return whether it moved."""
        local = min(seq_id.local, self.topic.log.last_id)
        if local <= self.consumed:
            return False
        self.consumed = local
        self._remote = seq_id.remote
        if self.cursor is not None:
            self.cursor.consumed(local)
        return True

    def pass_over(self, local: int) -> bool:
        """Move the consume pointer over messages that the filter did not accept; return whether it moved."""
        if local <= self.consumed:
            return False
        self.consumed = local
        return True

    @property
    def state(self) -> SubscriptionState:
        """The state to store."""
        return SubscriptionState(MessageSeqId(self.consumed, self._remote))

    @property
    def is_delivered(self) -> bool:
        """Whether it is attached to a channel that has not ended, as far as the hub knows."""
        return self.cursor is not None and self.cursor.is_open

    @property
    def is_dirty(self) -> bool:
        """Whether the consume pointer is ahead of the stored one, and this hub must store it."""
        is_kept = self.version is not None and self.topic.state is not TopicState.RELEASED
        return is_kept and self.consumed > self.stored

    def __str__(self) -> str:
        return f"subscriber '{show_name(self.subscriber)}' of topic '{show_name(self.topic.name)}'"


class TopicState(enum.Enum):
    """The state of an owned topic."""

    SERVING = enum.auto()
    RELEASING = enum.auto()
    RELEASED = enum.auto()


class OwnedTopic:
    """A topic, its log, and its subscriptions in memory. It must be small, because there are millions."""

    __slots__ = (
        "_topics",
        "claimed_at",
        "is_to_collect",
        "log",
        "name",
        "owner_version",
        "state",
        "subscriptions",
        "used_at",
    )

    def __init__(self, topics: Keeper, name: Topic, owner_version: Version, log: TopicLog, now: int) -> None:
        self._topics = topics
        self.name = name
        self.owner_version = owner_version
        self.log = log
        self.state = TopicState.SERVING
        self.claimed_at = self.used_at = now
        self.subscriptions: dict[SubscriberId, Subscription] | None = None
        self.is_to_collect = True
        """Whether a stored consume pointer moved or a ledger was closed since the last collection of ledgers."""
        log.attach_listener(self)

    @property
    def is_durable(self) -> bool:
        return self._topics.is_durable(self.name)

    @property
    def is_serving(self) -> bool:
        return self.state is TopicState.SERVING

    @property
    def has_attached(self) -> bool:
        return bool(self.subscriptions)

    @property
    def is_unused(self) -> bool:
        """Whether the topic has no subscribers in memory and nothing on its way, so that it may be released."""
        return not self.subscriptions and self.log.is_idle

    def subscription(self, subscriber: SubscriberId) -> Subscription | None:
        """Return a subscription if it is in memory."""
        return self.subscriptions.get(subscriber) if self.subscriptions is not None else None

    def cursors(self) -> Iterator[AttachedCursor]:
        """Iterate over the open cursors."""
        for subscription in (self.subscriptions or {}).values():
            if subscription.cursor is not None and subscription.cursor.is_open:
                yield subscription.cursor

    def keep(self, subscription: Subscription) -> None:
        """Add a subscription to memory."""
        if self.subscriptions is None:
            self.subscriptions = {}
        self.subscriptions[subscription.subscriber] = subscription

    def drop(self, subscription: Subscription) -> None:
        """Remove a subscription from memory."""
        if self.subscription(subscription.subscriber) is subscription:
            assert self.subscriptions is not None
            del self.subscriptions[subscription.subscriber]
            if not self.subscriptions:
                self.subscriptions = None
                self.used_at = self._topics.now()
                self.log.forget_recent()

    def on_message(self, local: int, stored: bytes) -> None:
        if self.subscriptions is None:
            return
        for subscription in list(self.subscriptions.values()):
            if subscription.cursor is not None:
                subscription.cursor.offer(local, stored)

    def on_ledger_closed(self) -> None:
        self.is_to_collect = True

    async def is_owned(self) -> bool:
        return await self._topics.ownership.holds(self.name, self.owner_version)

    def on_lost(self, error: HedwigError) -> None:
        self._topics.give_up(self, error)
