"""Subscriptions as clients use them: subscribe, consume, close, unsubscribe.

Operations on one subscription run one after the other. Different subscriptions do not wait for each other, and no
publish waits for any. Only attached subscriptions are in memory. The record in the metadata is the truth, and
compare-and-set decides which of two changes wins.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
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
from hedwig.hub.access.access_control import AccessControl
from hedwig.hub.access.counts import Counts, Making
from hedwig.hub.connections.channel import Channel
from hedwig.hub.options.options import HubOptions
from hedwig.hub.subscriptions.cursor import Cursor
from hedwig.hub.subscriptions.filters import FilterRegistry, MessageFilter
from hedwig.hub.subscriptions.pointers import Pointers
from hedwig.hub.subscriptions.read_budget import ReadBudget
from hedwig.hub.subscriptions.standbys import Standbys
from hedwig.hub.subscriptions.starts import Starts
from hedwig.hub.topics.topic import AttachedChannel, OwnedTopic, Subscription
from hedwig.metadata import Instead, SubscriptionDataManager, WriteGate, change
from hedwig.metadata.access.count_records import Counted
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
"""The hub does not keep preferences with larger answers, since a connection may attach any number of subscriptions."""


_Prepared: TypeAlias = tuple[Subscription, SubscriptionPreferences, MessageFilter | None]
"""A subscription in memory, all its preferences, and its filter."""


class TopicGoneError(Exception):
    """The hub released the topic while a request waited, so it must acquire the topic again.

    `created`: the requested subscription is stored, so the next attempt finds it.
    """

    def __init__(self, *, created: bool = False) -> None:
        super().__init__("the topic was released meanwhile")
        self.created = created


class NotYetError(Exception):
    """The client has not read earlier answers, and this one is large, so the SUBSCRIBE must begin anew.

    Its subscription is stored, so the next attempt finds it.
    """


class Subscribing:
    """Runs the requests about a subscription of a topic that this hub owns."""

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
        self.standbys = Standbys(options.standbys_max)
        self._closing: set[Subscription] = set()
        """The subscriptions that their clients are closing, until their consume pointers are stored."""
        self.starts = Starts(options.operation_timeout_s)
        self._parting: Counter[AttachedChannel] = Counter()
        """For each channel, how many topics that are being released it has served."""
        self.access: AccessControl | None = None
        """Who may subscribe; None for everybody."""
        self.counts: Counts | None = None
        """The counts of limits; None if there are none."""
        self.is_leaving = False
        """Whether the hub is releasing all its topics."""
        self._parked: dict[Subscription, None] = {}
        """The subscriptions that were detached while no pointer could be stored, and wait until one can."""
        self.pointers = Pointers(options, manager, self._turns, clock, self._was_deleted, gate)

    async def subscribe(self, topic: OwnedTopic, channel: Channel, size: int, txn_id: int, action: Subscribe) -> bool:
        """Attach a subscription to `channel`, answer, and start delivery; return False if the channel is closed.

        If the action says so, and another channel has the subscription, it answers that this one waits in line. If it
        raises, it has not answered.

        Raises: ClientAlreadySubscribedError, ClientNotSubscribedError, TopicBusyError, InvalidMessageFilterError,
            MetadataError; TopicGoneError, NotYetError.
        """
        try:
            is_answered = await self._subscribe(topic, channel, size, txn_id, action)
        except NotYetError:
            raise  # It keeps its turn.
        except TopicBusyError:
            if not action.standby:
                raise
            _check_serving(topic)  # Nobody would end a line that is made after the release.
            if channel.is_closed:
                return False
            channel.answer(size, self.standbys.join(topic, channel, txn_id, action))
            return True
        except BaseException:
            self.standbys.over(topic, action.subscriber, channel)
            raise
        self.standbys.over(topic, action.subscriber, channel)
        return is_answered

    async def _subscribe(self, topic: OwnedTopic, channel: Channel, size: int, txn_id: int, action: Subscribe) -> bool:
        self.check_not_frozen()
        subscriber = action.subscriber
        # A new subscriber gets every message that is acknowledged after this moment.
        pointer = MessageSeqId(topic.log.last_id)
        with self.starts.at(topic.name, pointer.local):
            async with self._turns.turn((topic.name, subscriber)):
                _check_serving(topic)
                if channel.was_forced_closed(topic.name, subscriber):
                    channel.close()
                if channel.is_closed:
                    return False
                if self.access is not None and not self.access.may_serve(channel, topic.name, subscriber):
                    self.access.check_subscriber(channel, topic.name, subscriber)  # The rules changed as it waited.
                if not action.force_attach:
                    self.standbys.check_turn(topic, subscriber, channel)
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
                    subscription.cursor = Cursor(
                        self._delivery, subscription, channel, preferences, message_filter, self.pointers.moved
                    )
                    subscription.cursor.go_on()
                    return True
                finally:
                    if subscription.cursor is None:
                        self._drop(subscription)

    async def unsubscribe(self, topic: OwnedTopic, subscriber: SubscriberId, channel: Channel | None = None) -> None:
        """Delete a subscription, also if another channel than `channel`, which asks for that, has it attached.

        Raises: ClientNotSubscribedError; MetadataError; TopicGoneError.
        """
        async with self._turns.turn((topic.name, subscriber)):
            _check_serving(topic)
            attached = topic.subscription(subscriber)
            try:
                if attached is None or attached.version is not None:
                    await self._delete(topic, subscriber, attached)
                    if self.counts is not None:
                        self.counts.deleted(self._making(topic, channel))
            except ClientNotSubscribedError:
                if attached is not None:  # Another program deleted it meanwhile.
                    self._let_go(attached)
                raise
            topic.is_to_collect = True
            if attached is not None:
                self._let_go(attached)

    async def close(self, topic: OwnedTopic, subscriber: SubscriberId, channel: Channel) -> None:
        """End delivery on `channel`; no message follows. The subscription stays. Do nothing if it is not attached.

        Raises: HedwigError - its consume pointer may not be stored, and it is still attached.
        """
        async with self._turns.turn((topic.name, subscriber)):
            self.standbys.leave(topic.name, subscriber, channel)
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
            if topic.subscription(subscriber) is subscription:  # Else another program has deleted it.
                await self._detach(subscription)

    async def consume(self, topic: OwnedTopic, action: Consume) -> None:
        """Move the consume pointer of a subscription that is not attached; do nothing if it does not exist."""
        async with self._turns.turn((topic.name, action.subscriber)):
            _check_serving(topic)
            subscription = topic.subscription(action.subscriber)
            if subscription is not None:
                self.consume_attached(subscription, action.seq_id)
                return
            self.check_not_frozen()  # Else the hub might have to keep millions of subscriptions in memory.
            record = await self._manager.read(topic.name, action.subscriber)
            if record is None:
                return
            subscription = _from_record(topic, action.subscriber, record)
            if subscription.consume(action.seq_id):
                await self.pointers.store_now(subscription)

    def check_not_frozen(self) -> None:
        """Raise ServiceDownError if the hub may not write now."""
        if self._gate.why_closed is not None:
            raise ServiceDownError(self._gate.why_closed)

    def consume_attached(self, subscription: Subscription, seq_id: MessageSeqId) -> None:
        """Move the consume pointer of a subscription in memory."""
        if subscription.consume(seq_id):
            self.pointers.moved(subscription)

    def channel_ended(self, channel: Channel) -> Sequence[Subscription]:
        """Stop the deliveries on a channel that is gone; return the subscriptions to detach."""
        self.standbys.channel_ended(channel)
        lost = list(channel.subscriptions.values())
        channel.subscriptions.clear()
        for subscription in lost:
            if subscription.cursor is not None:
                subscription.cursor.close()
            self.standbys.call(subscription.topic.name, subscription.subscriber)
        return lost

    async def detach_lost(self, subscriptions: Sequence[Subscription], channel: Channel) -> None:
        """Detach the subscriptions whose channel is gone, unless another channel has them by now."""

        async def detach(subscription: Subscription) -> None:
            if _is_on(subscription, channel):
                await self._detach(subscription)

        await self._each_in_turn(subscriptions, detach)

    @contextmanager
    def parting(self, topic: OwnedTopic) -> Iterator[None]:
        """Return a context around the release of `topic`. At its end, close the channels that served its subscriptions.

        The clients then connect again at once. While the hub `is_leaving`, a channel stays open until all topics that
        it serves are released.
        """
        served = list(topic.subscriptions.values()) if topic.subscriptions else []
        channels = dict.fromkeys(each.cursor.channel for each in served if each.cursor is not None)
        self._parting.update(channels.keys())
        try:
            yield
        finally:
            self.standbys.end(topic)
            for channel in channels:
                self._parting[channel] -= 1
                is_last = not self._parting[channel]
                if is_last:
                    del self._parting[channel]
                # The original's client fails silently on an event that the topic moved, but recovers from a close.
                if not self.is_leaving or (is_last and not channel.subscriptions):
                    channel.part()

    async def detach_all(self, topic: OwnedTopic) -> None:
        """End the deliveries of `topic`, and store the consume pointers of its subscriptions."""
        await self._each_in_turn(list(topic.subscriptions.values()) if topic.subscriptions else (), self._detach)

    async def _each_in_turn(
        self, subscriptions: Sequence[Subscription], detach: Callable[[Subscription], Awaitable[None]]
    ) -> None:
        """Store all consume pointers together, then `detach` the subscriptions still in memory; log each failure.

        Many are detached at once, because each waits for its own deadline while the store does not answer.
        """
        try:
            await self.pointers.store(subscriptions)  # Then few pointers remain to be stored one by one.
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
        """Return the lock of this subscription: no other operation on it runs meanwhile."""
        return self._turns.turn((topic.name, subscriber))

    async def take_away(self, subscription: Subscription) -> None:
        """Detach a subscription from its client, so that only its record remains; the caller must hold its lock.

        The hub informs the client that it lost the subscription, and closes its channel. It reads no more requests from
        it. A client that only lost its channel would attach again by itself, and consume again from its memory.
        """
        if subscription.cursor is not None:
            channel = subscription.cursor.channel
            channel.tell_forced_closed(subscription.topic.name, subscription.subscriber)
            channel.close()
        await self._detach(subscription)
        # If the store failed just now, the last consumes are lost. A later write would undo the operator's change.
        subscription.stored = subscription.consumed
        self.pointers.forget(subscription)

    # -------------------------------------------------------------------------------------------- the record

    async def _find_or_create(
        self, topic: OwnedTopic, channel: Channel, action: Subscribe, pointer: MessageSeqId
    ) -> _Prepared:
        """Return the subscription in memory, its preferences merged with those of the request, and its filter.

        It makes the filter before it writes, so a request that is refused for its filter changes nothing.
        """
        subscriber = action.subscriber
        subscription = topic.subscription(subscriber)
        if subscription is None:
            if not topic.is_durable:
                return self._make_fleeting(topic, action, pointer)
            result = await self._find_record(topic, channel, action, pointer)
            if isinstance(result, tuple):
                topic.keep(result[0])
                return result
            subscription = _from_record(topic, subscriber, result)
        elif action.mode is CreateOrAttach.CREATE:
            raise _exists(subscription)
        elif subscription.is_delivered and not _is_on(subscription, channel) and not action.force_attach:
            raise TopicBusyError(f"{subscription} is attached to another connection")
        try:
            preferences, message_filter = await self._merge_preferences(subscription, action.preferences)
        except NoRecordError:
            # Another program deleted the record, so drop the subscription in memory.
            self._let_go(subscription)
            return await self._find_or_create(topic, channel, action, pointer)
        topic.keep(subscription)
        return subscription, preferences, message_filter

    async def _find_record(
        self, topic: OwnedTopic, channel: Channel, action: Subscribe, pointer: MessageSeqId
    ) -> Versioned[SubscriptionData] | _Prepared:
        """Return the stored record, or a new subscription with its preferences and its filter."""
        subscriber = action.subscriber
        if action.mode is CreateOrAttach.ATTACH:
            record = await self._manager.read(topic.name, subscriber)
            if record is None:
                raise not_subscribed(topic.name, subscriber)
            return record
        made = Subscription(topic, subscriber, action.preferences, pointer, None)
        try:
            message_filter = self._filters.make(topic.name, subscriber, action.preferences)
        except InvalidMessageFilterError:
            # The stored preferences may complete those of the request.
            record = await self._manager.read(topic.name, subscriber)
            if record is None:
                raise
            if action.mode is CreateOrAttach.CREATE:
                raise _exists(made) from None
            return record
        making = self._making(topic, channel)
        if making is not None and (record := await self._manager.read(topic.name, subscriber)) is not None:
            if action.mode is CreateOrAttach.CREATE:
                raise _exists(made)
            return record  # Not even a limit that is reached keeps it from its subscriber.
        data = SubscriptionData(preferences=action.preferences, state=SubscriptionState(pointer))
        try:
            async with self._counted(making):
                made.version = await self._manager.create(topic.name, subscriber, data)
        except SubscriptionStateExistsError as exists:
            if action.mode is CreateOrAttach.CREATE:
                raise _exists(made) from exists
            current = exists.current
            assert current is not None, "who refuses NEW says what is there"
            return current
        return made, action.preferences, message_filter

    def _making(self, topic: OwnedTopic, channel: Channel | None) -> Making | None:
        if self.access is None or channel is None:
            return None
        return self.access.making(channel, topic.name, Counted.SUBSCRIPTIONS)

    def _counted(self, making: Making | None) -> AbstractAsyncContextManager[None]:
        return self.counts.making(making) if self.counts is not None else nullcontext()

    def _make_fleeting(self, topic: OwnedTopic, action: Subscribe, pointer: MessageSeqId) -> _Prepared:
        """Return a new subscription to a non-durable topic, which exists while it is attached."""
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
        """Store the preferences that the request changes, before the answer; return all preferences and the filter."""
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
        raise ServiceDownError(f"other programs change {subscription} at the same time; try again")

    async def _read_preferences(self, subscription: Subscription) -> SubscriptionPreferences:
        """Take over the stored record, and return its preferences. Raises: NoSubscriptionStateError - there is none."""
        name, subscriber = subscription.topic.name, subscription.subscriber
        record = await self._manager.read(name, subscriber)
        if record is None:
            raise NoSubscriptionStateError(f"{subscription} is not on record")
        self.pointers.adopt(subscription, record)
        return record.value.preferences or SubscriptionPreferences()

    async def _delete(self, topic: OwnedTopic, subscriber: SubscriberId, attached: Subscription | None) -> None:
        def gone(current: Versioned[SubscriptionData] | None) -> Instead:
            _check_serving(topic)  # The next owner of the topic may have acknowledged the subscription.
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
                f"other programs change subscriber '{show_name(subscriber)}' at the same time; try again"
            ) from exc

    # ------------------------------------------------------------------------------------------ the attachment

    def _bind(self, subscription: Subscription, channel: Channel) -> None:
        """Attach the subscription to `channel`, and detach it from any other."""
        cursor, subscription.cursor = subscription.cursor, None
        key = subscription.topic.name, subscription.subscriber
        if cursor is not None:
            cursor.close()
            if cursor.channel is not channel:
                cursor.channel.subscriptions.pop(key, None)
                cursor.channel.tell_forced_closed(*key)
        channel.subscriptions[key] = subscription

    async def _detach(self, subscription: Subscription) -> None:
        """End delivery, store the consume pointer, and drop the subscription from memory."""
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
            # The cost of a lost pointer: the messages since the last write are delivered again.
            _log.warning("%s: its consume pointer is not stored: %s", subscription, exc)
            self.pointers.forget(subscription)
        except Exception:
            _log.exception("the consume pointer of %s is not stored", subscription)
            self.pointers.forget(subscription)
        finally:
            if subscription.cursor is None:
                self._drop(subscription)

    def _drop(self, subscription: Subscription) -> None:
        """Remove a detached subscription from memory, and call the client that waits for it."""
        subscription.topic.drop(subscription)
        self.standbys.call(subscription.topic.name, subscription.subscriber)

    def _park(self, subscription: Subscription) -> None:
        """Keep a detached subscription in memory until its consume pointer can be stored."""
        if not self._parked:
            self.pointers.tasks.start(self._detach_parked())
        self._parked[subscription] = None

    async def _detach_parked(self) -> None:
        """Store and drop the parked subscriptions once the metadata is no longer frozen."""

        async def detach(subscription: Subscription) -> None:
            if subscription.cursor is None:
                await self._detach(subscription)

        while self._parked:
            await self._gate.wait_open()
            parked, self._parked = list(self._parked), {}
            await self._each_in_turn(parked, detach)

    def _let_go(self, subscription: Subscription) -> None:
        """Drop a subscription that no longer exists."""
        self.pointers.forget(subscription)
        if subscription.cursor is not None:
            subscription.cursor.close()
            subscription.cursor.channel.subscriptions.pop((subscription.topic.name, subscription.subscriber), None)
            subscription.cursor = None
        self._drop(subscription)

    def _was_deleted(self, subscription: Subscription) -> None:
        """Drop a subscription whose record another program has deleted, and close its channel."""
        _log.warning("another program deleted %s", subscription)
        channel = subscription.cursor.channel if subscription.cursor is not None else None
        self._let_go(subscription)
        # Its client must notice, unless it is closing the subscription itself.
        if channel is not None and subscription not in self._closing:
            channel.close()


def not_subscribed(topic: Topic, subscriber: SubscriberId) -> ClientNotSubscribedError:
    """Return the error for a request that needs a subscription that does not exist."""
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


def _from_record(topic: OwnedTopic, subscriber: SubscriberId, record: Versioned[SubscriptionData]) -> Subscription:
    data = record.value
    return Subscription(
        topic,
        subscriber,
        data.preferences or SubscriptionPreferences(),
        data.state.consumed if data.state is not None else MessageSeqId(0),
        record.version,
    )


def _merged(stored: SubscriptionPreferences, asked: SubscriptionPreferences) -> SubscriptionPreferences:
    """Return the stored preferences, replaced where `asked` sets one; options are merged by name."""
    return replace(
        stored,
        options={**stored.options, **asked.options},
        message_bound=stored.message_bound if asked.message_bound is None else asked.message_bound,
        message_filter=stored.message_filter if asked.message_filter is None else asked.message_filter,
        message_window_size=(
            stored.message_window_size if asked.message_window_size is None else asked.message_window_size
        ),
    )
