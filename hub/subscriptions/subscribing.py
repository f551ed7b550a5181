"""Subscriptions as clients know them: subscribe, consume, close, unsubscribe.

What concerns one subscription happens one after the other; different ones do not wait for each other, and no publish
waits for any. Only attached subscriptions are in memory: the record in the metadata is what counts, and compare-and-set
decides who changed it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

from hedwig.clock import Clock
from hedwig.concurrency.keyed_lock import KeyedLock
from hedwig.errors import (
    BadVersionError,
    ClientAlreadySubscribedError,
    ClientNotSubscribedError,
    HedwigError,
    InvalidMessageFilterError,
    NoRecordError,
    NoSubscriptionStateError,
    ServiceDownError,
    SubscriptionStateExistsError,
    TopicBusyError,
)
from hedwig.hub.connections.channel import Channel
from hedwig.hub.options.options import HubOptions
from hedwig.hub.subscriptions.cursor import Cursor
from hedwig.hub.subscriptions.filters import FilterRegistry, MessageFilter
from hedwig.hub.subscriptions.pointers import Pointers
from hedwig.hub.subscriptions.read_budget import ReadBudget
from hedwig.hub.subscriptions.starts import Starts
from hedwig.hub.topics.topic import AttachedChannel, OwnedTopic, Subscription
from hedwig.metadata import Instead, SubscriptionDataManager, WriteGate, change
from hedwig.model import (
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.names import show_name
from hedwig.versions import Versioned
from hedwig.wire import Answer, Consume, CreateOrAttach, Subscribe, encode_response

__all__ = ["NotYetError", "Subscribing", "TopicGoneError", "not_subscribed"]

_log = logging.getLogger(__name__)

_TRIES: Final = 5
_DETACHED_AT_ONCE: Final = 256
_KEPT_BYTES: Final = 1024
"""Preferences with larger answers are not kept in memory, since a connection may attach any number of subscriptions."""


_Found: TypeAlias = tuple[Subscription, SubscriptionPreferences, MessageFilter | None]
"""A subscription in memory, all its preferences, and its filter."""


class TopicGoneError(Exception):
    """The topic was released while a request waited: it has to be acquired anew.

    `created`: the subscription that it asks for is on record, so that next time it finds it.
    """

    def __init__(self, *, created: bool = False) -> None:
        super().__init__("the topic was released meanwhile")
        self.created = created


class NotYetError(Exception):
    """The client has not taken the answers before, and this one is large: the SUBSCRIBE has to be begun anew.

    Its subscription is on record, so that next time it finds it.
    """


class Subscribing:
    """Carries out the requests that concern a subscription of a topic that this hub owns."""

    def __init__(
        self,
        options: HubOptions,
        manager: SubscriptionDataManager,
        delivery: ReadBudget,
        filters: FilterRegistry,
        clock: Clock,
        gate: WriteGate,
    ) -> None:
        self._manager = manager
        self._gate = gate
        self._delivery = delivery
        self._filters = filters
        self._turns = KeyedLock()
        self._closing: set[Subscription] = set()
        """Subscriptions whose clients close them, until their consume pointers are stored."""
        self.starts = Starts(options.operation_timeout_s)
        self._parting: Counter[AttachedChannel] = Counter()
        """Of channels: how many topics that are on their way out they have served."""
        self.is_leaving = False
        """Whether the hub lets go of all its topics."""
        self._parked: dict[Subscription, None] = {}
        """Subscriptions that were detached while nothing could be stored, and wait for that."""
        self.pointers = Pointers(options, manager, self._turns, clock, self._was_deleted, gate)

    async def subscribe(self, topic: OwnedTopic, channel: Channel, size: int, txn_id: int, action: Subscribe) -> bool:
        """Attach a subscription to `channel`, answer, and begin delivery; return False if there is nobody to answer.

        Raises: ClientAlreadySubscribedError, ClientNotSubscribedError, TopicBusyError, InvalidMessageFilterError,
            MetadataError; TopicGoneError, NotYetError. Then nothing was answered.
        """
        self.check_not_frozen()
        subscriber = action.subscriber
        # Whatever is acknowledged after this moment is delivered to a new subscriber.
        pointer = MessageSeqId(topic.log.last_id)
        with self.starts.at(topic.name, pointer.local):
            async with self._turns.turn((topic.name, subscriber)):
                _check_serving(topic)
                if channel.was_told(topic.name, subscriber):
                    channel.close()
                if channel.is_closed:
                    return False
                subscription, preferences, message_filter = await self._find_or_create(topic, channel, action, pointer)
                try:
                    if not topic.is_serving:
                        raise TopicGoneError(created=True)
                    if channel.is_closed:
                        return False
                    body = encode_response(Answer(txn_id=txn_id, preferences=preferences))
                    if not channel.gate.may_answer(len(body)):
                        raise NotYetError
                    is_kept = len(body) <= _KEPT_BYTES or subscription.version is None
                    subscription.preferences = preferences if is_kept else None
                    self._bind(subscription, channel)
                    channel.answer_encoded(size, body)
                    subscription.cursor = Cursor(self._delivery, subscription, channel, preferences, message_filter)
                    subscription.cursor.go_on()
                    return True
                finally:
                    if subscription.cursor is None:
                        topic.drop(subscription)

    async def unsubscribe(self, topic: OwnedTopic, subscriber: SubscriberId) -> None:
        """Delete a subscription, wherever it is attached.

        Raises: ClientNotSubscribedError; MetadataError; TopicGoneError.
        """
        async with self._turns.turn((topic.name, subscriber)):
            _check_serving(topic)
            attached = topic.subscription(subscriber)
            try:
                if attached is None or attached.version is not None:
                    await self._delete(topic, subscriber, attached)
            except ClientNotSubscribedError:
                if attached is not None:  # Somebody else deleted it meanwhile.
                    self._let_go(attached)
                raise
            topic.is_to_collect = True
            if attached is not None:
                self._let_go(attached)

    async def close(self, topic: OwnedTopic, subscriber: SubscriberId, channel: Channel) -> None:
        """End delivery on `channel`; no message follows. The subscription stays; one that is not attached is fine.

        Raises: HedwigError - its consume pointer is not stored, or not surely, and it is attached as it was.
        """
        async with self._turns.turn((topic.name, subscriber)):
            subscription = topic.subscription(subscriber)
            if subscription is None or not _is_on(subscription, channel):
                return
            self._closing.add(subscription)
            try:
                await self.pointers.store_now(subscription)
            except HedwigError:
                if not self.pointers.is_frozen:
                    raise
            finally:
                self._closing.discard(subscription)
            if topic.subscription(subscriber) is subscription:  # Else somebody had deleted it.
                await self._detach(subscription)

    async def consume(self, topic: OwnedTopic, action: Consume) -> None:
        """Move the consume pointer of a subscription that is not attached; nothing if there is none."""
        async with self._turns.turn((topic.name, action.subscriber)):
            _check_serving(topic)
            subscription = topic.subscription(action.subscriber)
            if subscription is not None:
                self.consume_attached(subscription, action.seq_id)
                return
            self.check_not_frozen()  # What is not in memory would have to be kept there, and there are millions.
            found = await self._manager.read(topic.name, action.subscriber)
            if found is None:
                return
            subscription = _from_record(topic, action.subscriber, found)
            if subscription.consume(action.seq_id):
                await self.pointers.store_now(subscription)

    def check_not_frozen(self) -> None:
        """Raise ServiceDownError if nothing may be written now."""
        if self._gate.why_closed is not None:
            raise ServiceDownError(self._gate.why_closed)

    def consume_attached(self, subscription: Subscription, seq_id: MessageSeqId) -> None:
        """Move the consume pointer of a subscription in memory."""
        if subscription.consume(seq_id):
            self.pointers.moved(subscription)

    def channel_ended(self, channel: Channel) -> Sequence[Subscription]:
        """Stop the deliveries on a channel that is gone; return what has to be detached."""
        lost = list(channel.subscriptions.values())
        channel.subscriptions.clear()
        for subscription in lost:
            if subscription.cursor is not None:
                subscription.cursor.close()
        return lost

    async def detach_lost(self, subscriptions: Sequence[Subscription], channel: Channel) -> None:
        """Let go of subscriptions whose channel is gone, unless another channel has them by now."""

        async def detach(subscription: Subscription) -> None:
            if _is_on(subscription, channel):
                await self._detach(subscription)

        await self._each_in_turn(subscriptions, detach)

    @contextmanager
    def parting(self, topic: OwnedTopic) -> Iterator[None]:
        """Close the channels that serve subscriptions of `topic`, once it has been let go: clients come back at once.

        While the hub `is_leaving`, a channel stays until all topics that it serves are let go.
        """
        served = list(topic.subscriptions.values()) if topic.subscriptions else []
        channels = dict.fromkeys(each.cursor.channel for each in served if each.cursor is not None)
        self._parting.update(channels.keys())
        try:
            yield
        finally:
            for channel in channels:
                self._parting[channel] -= 1
                is_last = not self._parting[channel]
                if is_last:
                    del self._parting[channel]
                # The original client dies silently on an event that the topic moved, and recovers from this.
                if not self.is_leaving or (is_last and not channel.subscriptions):
                    channel.part()

    async def detach_all(self, topic: OwnedTopic) -> None:
        """End the deliveries of `topic`, and store the consume pointers of its subscriptions."""
        await self._each_in_turn(list(topic.subscriptions.values()) if topic.subscriptions else (), self._detach)

    async def _each_in_turn(
        self, subscriptions: Sequence[Subscription], detach: Callable[[Subscription], Awaitable[None]]
    ) -> None:
        """Store all consume pointers together, then `detach` what is still in memory; no failure ends that.

        Many at once: while the store does not answer, each of them would wait for its own deadline.
        """
        try:
            await self.pointers.store(subscriptions)  # What is left for each alone is next to nothing.
        except Exception:
            _log.exception("%d consume pointers could not be stored together", len(subscriptions))

        async def in_turn(subscription: Subscription) -> None:
            topic = subscription.topic
            async with self._turns.turn((topic.name, subscription.subscriber)):
                if topic.subscription(subscription.subscriber) is subscription:
                    await detach(subscription)

        for start in range(0, len(subscriptions), _DETACHED_AT_ONCE):
            some = subscriptions[start : start + _DETACHED_AT_ONCE]
            outcomes = await asyncio.gather(*map(in_turn, some), return_exceptions=True)
            for subscription, outcome in zip(some, outcomes, strict=True):
                if outcome is not None:
                    _log.error("%s could not be detached in order", subscription, exc_info=outcome)

    # ----------------------------------------------------------------------------------- for operator_actions

    def turn(self, topic: OwnedTopic, subscriber: SubscriberId) -> AbstractAsyncContextManager[None]:
        """Wait until nothing else concerns this subscription, and have it so meanwhile."""
        return self._turns.turn((topic.name, subscriber))

    async def take_away(self, subscription: Subscription) -> None:
        """Detach a subscription, in its turn, from whoever has it open, so that it is on record only.

        The client is told that it lost the subscription, and its channel is closed: what it has sent since is not
        read. A client that merely lost its channel would attach again by itself, and consume again what it has in
        memory.
        """
        if subscription.cursor is not None:
            channel = subscription.cursor.channel
            channel.tell_forced_closed(subscription.topic.name, subscription.subscriber)
            channel.close()
        await self._detach(subscription)
        # If the store failed just now, the last consumes are lost; to write them later would undo what follows.
        subscription.stored = subscription.consumed
        self.pointers.forget(subscription)

    # -------------------------------------------------------------------------------------------- the record

    async def _find_or_create(
        self, topic: OwnedTopic, channel: Channel, action: Subscribe, pointer: MessageSeqId
    ) -> _Found:
        """Return the subscription, in memory, its preferences with those of the request merged in, and its filter.

        The filter is made before anything is written: a request that is refused for it changes nothing.
        """
        subscriber = action.subscriber
        subscription = topic.subscription(subscriber)
        if subscription is None:
            if not topic.is_durable:
                return self._make_fleeting(topic, action, pointer)
            found = await self._find_record(topic, action, pointer)
            if isinstance(found, tuple):
                topic.keep(found[0])
                return found
            subscription = _from_record(topic, subscriber, found)
        elif action.mode is CreateOrAttach.CREATE:
            raise _exists(subscription)
        elif subscription.is_delivered and not _is_on(subscription, channel) and not action.force_attach:
            raise TopicBusyError(f"{subscription} is attached to another connection")
        try:
            preferences, message_filter = await self._merge_preferences(subscription, action.preferences)
        except NoRecordError:
            # Somebody else deleted it, so what is in memory counts no more.
            self._let_go(subscription)
            return await self._find_or_create(topic, channel, action, pointer)
        topic.keep(subscription)
        return subscription, preferences, message_filter

    async def _find_record(
        self, topic: OwnedTopic, action: Subscribe, pointer: MessageSeqId
    ) -> Versioned[SubscriptionData] | _Found:
        """Return the stored record, or the subscription that was made, its preferences and its filter."""
        subscriber = action.subscriber
        if action.mode is CreateOrAttach.ATTACH:
            found = await self._manager.read(topic.name, subscriber)
            if found is None:
                raise not_subscribed(topic.name, subscriber)
            return found
        made = Subscription(topic, subscriber, action.preferences, pointer, None)
        try:
            message_filter = self._filters.make(topic.name, subscriber, action.preferences)
        except InvalidMessageFilterError:
            # What is on record may complete what was asked for.
            found = await self._manager.read(topic.name, subscriber)
            if found is None:
                raise
            if action.mode is CreateOrAttach.CREATE:
                raise _exists(made) from None
            return found
        data = SubscriptionData(preferences=action.preferences, state=SubscriptionState(pointer))
        try:
            made.version = await self._manager.create(topic.name, subscriber, data)
        except SubscriptionStateExistsError as exists:
            if action.mode is CreateOrAttach.CREATE:
                raise _exists(made) from exists
            current = exists.current
            assert current is not None, "who refuses NEW says what is there"
            return current
        return made, action.preferences, message_filter

    def _make_fleeting(self, topic: OwnedTopic, action: Subscribe, pointer: MessageSeqId) -> _Found:
        """Return a subscription to a non-durable topic: it exists while it is attached."""
        if action.mode is CreateOrAttach.ATTACH:
            raise ClientNotSubscribedError(
                f"subscriber '{show_name(action.subscriber)}' is not attached to the non-durable topic "
                f"'{show_name(topic.name)}'"
            )
        message_filter = self._filters.make(topic.name, action.subscriber, action.preferences)
        subscription = Subscription(topic, action.subscriber, action.preferences, pointer, None)
        topic.keep(subscription)
        return subscription, action.preferences, message_filter

    async def _merge_preferences(
        self, subscription: Subscription, asked: SubscriptionPreferences
    ) -> tuple[SubscriptionPreferences, MessageFilter | None]:
        """Store what the request changes of the preferences, before it is answered; return them, and their filter."""
        for _ in range(_TRIES):
            _check_serving(subscription.topic)
            stored = subscription.preferences
            if stored is None:
                stored = await self._read_preferences(subscription)
            merged = _merged(stored, asked)
            message_filter = self._filters.make(subscription.topic.name, subscription.subscriber, merged)
            if merged == stored:
                return merged, message_filter
            if subscription.version is None:
                subscription.preferences = merged
                return merged, message_filter
            try:
                subscription.version = await self._manager.update(
                    subscription.topic.name,
                    subscription.subscriber,
                    SubscriptionData(preferences=merged),
                    subscription.version,
                )
            except BadVersionError as refused:
                if refused.current is None:
                    raise
                self.pointers.adopt(subscription, refused.current)
            else:
                subscription.preferences = None
                return merged, message_filter
        raise ServiceDownError(f"{subscription} is changed by others at the same time; try again")

    async def _read_preferences(self, subscription: Subscription) -> SubscriptionPreferences:
        """Go on from what is on record, and return the preferences there. Raises: NoSubscriptionStateError."""
        name, subscriber = subscription.topic.name, subscription.subscriber
        found = await self._manager.read(name, subscriber)
        if found is None:
            raise NoSubscriptionStateError(f"{subscription} is not on record")
        self.pointers.adopt(subscription, found)
        return found.value.preferences or SubscriptionPreferences()

    async def _delete(self, topic: OwnedTopic, subscriber: SubscriberId, attached: Subscription | None) -> None:
        def gone(current: Versioned[SubscriptionData] | None) -> Instead:
            _check_serving(topic)  # Whoever owns it next may have acknowledged the subscription.
            if current is None:
                raise not_subscribed(topic.name, subscriber)
            return Instead.DELETE

        seen: Versioned[SubscriptionData] | None
        if attached is not None and attached.version is not None:
            seen = Versioned(SubscriptionData(state=attached.state), attached.version)
        else:
            seen = await self._manager.read(topic.name, subscriber)
        try:
            await change(self._manager.of(subscriber), topic.name, gone, seen=seen, tries=_TRIES)
        except (BadVersionError, NoRecordError) as exc:
            raise ServiceDownError(
                f"subscriber '{show_name(subscriber)}' is changed by others at the same time; try again"
            ) from exc

    # ------------------------------------------------------------------------------------------ the attachment

    def _bind(self, subscription: Subscription, channel: Channel) -> None:
        """Tie the subscription to `channel`, and away from any other."""
        cursor, subscription.cursor = subscription.cursor, None
        key = subscription.topic.name, subscription.subscriber
        if cursor is not None:
            cursor.close()
            if cursor.channel is not channel:
                cursor.channel.subscriptions.pop(key, None)
                cursor.channel.tell_forced_closed(*key)
        channel.subscriptions[key] = subscription

    async def _detach(self, subscription: Subscription) -> None:
        """End delivery, store the consume pointer, and let the subscription go from memory."""
        cursor = subscription.cursor
        if cursor is not None:
            cursor.close()
            cursor.channel.subscriptions.pop((subscription.topic.name, subscription.subscriber), None)
            subscription.cursor = None
        if self.pointers.is_frozen and subscription.is_dirty:
            self._park(subscription)
            return
        try:
            await self.pointers.store_now(subscription)
        except HedwigError as exc:
            # The messages since the last write are delivered again: that is what a lost pointer costs.
            _log.warning("%s: its consume pointer is not stored: %s", subscription, exc)
            self.pointers.forget(subscription)
        except Exception:
            _log.exception("the consume pointer of %s is not stored", subscription)
            self.pointers.forget(subscription)
        finally:
            if subscription.cursor is None:
                subscription.topic.drop(subscription)

    def _park(self, subscription: Subscription) -> None:
        """Keep a subscription that was detached in memory until its consume pointer can be stored."""
        if not self._parked:
            self.pointers.tasks.start(self._detach_parked())
        self._parked[subscription] = None

    async def _detach_parked(self) -> None:
        """Let go of the parked subscriptions once the metadata are not frozen any more."""

        async def detach(subscription: Subscription) -> None:
            if subscription.cursor is None:
                await self._detach(subscription)

        while self._parked:
            await self._gate.wait_open()
            parked, self._parked = list(self._parked), {}
            await self._each_in_turn(parked, detach)

    def _let_go(self, subscription: Subscription) -> None:
        """Forget a subscription that does not exist any more."""
        self.pointers.forget(subscription)
        if subscription.cursor is not None:
            subscription.cursor.close()
            subscription.cursor.channel.subscriptions.pop((subscription.topic.name, subscription.subscriber), None)
            subscription.cursor = None
        subscription.topic.drop(subscription)

    def _was_deleted(self, subscription: Subscription) -> None:
        """Take note that somebody deleted the record of an attached subscription."""
        _log.warning("%s was deleted behind this hub's back", subscription)
        channel = subscription.cursor.channel if subscription.cursor is not None else None
        self._let_go(subscription)
        # Its client has to learn of it, unless it is just done with it.
        if channel is not None and subscription not in self._closing:
            channel.close()


def not_subscribed(topic: Topic, subscriber: SubscriberId) -> ClientNotSubscribedError:
    """Return what a request gets that needs a subscription which does not exist."""
    return ClientNotSubscribedError(
        f"subscriber '{show_name(subscriber)}' is not subscribed to topic '{show_name(topic)}'"
    )


def _check_serving(topic: OwnedTopic) -> None:
    if not topic.is_serving:
        raise TopicGoneError


def _is_on(subscription: Subscription, channel: Channel) -> bool:
    return subscription.cursor is None or subscription.cursor.channel is channel


def _exists(subscription: Subscription) -> HedwigError:
    return ClientAlreadySubscribedError(f"{subscription} exists already")


def _from_record(topic: OwnedTopic, subscriber: SubscriberId, found: Versioned[SubscriptionData]) -> Subscription:
    data = found.value
    return Subscription(
        topic,
        subscriber,
        data.preferences or SubscriptionPreferences(),
        data.state.consumed if data.state is not None else MessageSeqId(0),
        found.version,
    )


def _merged(stored: SubscriptionPreferences, asked: SubscriptionPreferences) -> SubscriptionPreferences:
    """Return the stored preferences with what was asked for in their place; options are merged by name."""
    return replace(
        stored,
        options={**stored.options, **asked.options},
        message_bound=stored.message_bound if asked.message_bound is None else asked.message_bound,
        message_filter=stored.message_filter if asked.message_filter is None else asked.message_filter,
        message_window_size=(
            stored.message_window_size if asked.message_window_size is None else asked.message_window_size
        ),
    )
