"""Attachments: which channel serves which subscription.

A channel serves one subscription, or, if channels are shared, all subscriptions of one hub. On a shared channel, a
subscription with a slow application holds back the others of its hub too, as in the original.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hedwig.client.activity import Activity
from hedwig.client.connections.channel import Channel
from hedwig.client.connections.heartbeat import Heartbeat
from hedwig.client.connections.routes import Routes
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.client.subscriptions.subscription import Subscription
from hedwig.errors import ServiceDownError, ServiceError, TopicBusyError, UncertainAnswerError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.names import show_name
from hedwig.status import StatusCode
from hedwig.wire import (
    Action,
    Answer,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Delivery,
    Event,
    Request,
    Subscribe,
)

__all__ = ["Attachments"]

_log = logging.getLogger(__name__)

_BUSY_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2)


_Key = tuple[Topic, SubscriberId]


class _ServingChannel:
    """A channel and the subscriptions that it serves."""

    def __init__(self, on_dropped: Callable[[Delivery], None]) -> None:
        self.channel: Channel | None = None
        self.subscriptions: dict[_Key, Subscription] = {}
        """The subscriptions for which the hub has answered SUCCESS on this channel."""
        self._by_names: dict[bytes, Subscription] = {}
        """The same by how a delivery names them."""
        self.asked: set[_Key] = set()
        """Attempts to attach that the hub has not answered."""
        self.closing: dict[_Key, asyncio.Task[bool]] = {}
        """The subscriptions that the hub was asked to close, until it has confirmed that or the channel has ended."""
        self._on_dropped = on_dropped
        self._paused: set[Subscription] = set()

    @property
    def is_used(self) -> bool:
        return bool(self.subscriptions or self.asked or self.closing)

    def take_delivery(self, message: bytes, names: bytes) -> bool:
        """Take a delivery of a message; return False unless all is as usual, so that `take` gets it."""
        subscription = self._by_names.get(names)
        return subscription is not None and subscription.deliver_stored(message)

    def take(self, news: Delivery | Event) -> None:
        key = news.topic, news.subscriber
        subscription = self.subscriptions.get(key)
        if isinstance(news, Delivery):
            # Messages that arrive before the answer to an attempt, or after a request to close, belong to an attachment
            # that ends. The hub delivers them again, so the next attachment must not accept them.
            is_awaited = key in self.asked or key in self.closing
            if not (is_awaited if subscription is None else subscription.deliver(news.message)):
                self._on_dropped(news)
        elif subscription is not None:
            # After an event, this channel must not serve the subscription again. To reattach, another one is opened.
            self.forget(subscription)
            subscription.notify(news)

    def end(self, _: Channel) -> None:
        lost = list(self.subscriptions.values())
        self.subscriptions.clear()
        self._by_names.clear()
        self._paused.clear()
        for subscription in lost:
            subscription.lose()

    def serve(self, subscription: Subscription) -> None:
        """Pass on the messages that the hub delivers from now on, since it has answered SUCCESS."""
        self.subscriptions[subscription.topic, subscription.subscriber] = subscription
        self._by_names[subscription.names] = subscription
        subscription.begin_session()

    def forget(self, subscription: Subscription) -> None:
        """Stop serving a subscription, so that it no longer holds back others."""
        self.subscriptions.pop((subscription.topic, subscription.subscriber), None)
        self._by_names.pop(subscription.names, None)
        self.resume(subscription)

    def pause(self, subscription: Subscription) -> None:
        self._paused.add(subscription)
        assert self.channel is not None
        self.channel.pause()

    def resume(self, subscription: Subscription) -> None:
        self._paused.discard(subscription)
        if not self._paused and self.channel is not None:
            self.channel.resume()


class _Attachment:
    """The tie of one subscription to the channel that serves it."""

    def __init__(
        self,
        owner: "Attachments",
        serving: _ServingChannel,
        subscription: Subscription,
        preferences: SubscriptionPreferences,
    ) -> None:
        self.preferences = preferences
        self._owner = owner
        self._serving = serving
        self._subscription = subscription

    @property
    def is_serving(self) -> bool:
        key = self._subscription.topic, self._subscription.subscriber
        return self._channel.is_open and self._serving.subscriptions.get(key) is self._subscription

    @property
    def _channel(self) -> Channel:
        assert self._serving.channel is not None
        return self._serving.channel

    async def consume(self, seq_id: MessageSeqId) -> None:
        action = Consume(subscriber=self._subscription.subscriber, seq_id=seq_id)
        await self._channel.tell(self._owner.request(self._subscription.topic, action))

    def consume_at_once(self, seq_id: MessageSeqId) -> None:
        if self._channel.is_open:
            action = Consume(subscriber=self._subscription.subscriber, seq_id=seq_id)
            self._channel.tell_at_once(self._owner.request(self._subscription.topic, action))

    def pause(self) -> None:
        self._serving.pause(self._subscription)

    def resume(self) -> None:
        self._serving.resume(self._subscription)

    async def detach(self) -> bool:
        if not self.is_serving:  # Else the request could end it on another channel: the original hub does not check.
            await self.abandon()
            return False
        return await asyncio.shield(self._owner.end(self._serving, self._subscription))

    async def abandon(self) -> None:
        self._serving.forget(self._subscription)
        await self._owner.close_own(self._channel)


class Attachments:
    """Opens channels for subscriptions, and closes them."""

    def __init__(self, options: ClientOptions, routes: Routes, heartbeat: Heartbeat, activity: Activity) -> None:
        self._options = options
        self._activity = activity
        self._heartbeat = heartbeat
        self._routes = routes
        self._shared: dict[HubAddress, _ServingChannel] = {}
        self._opening = asyncio.Lock()
        self._channels: dict[Channel, None] = {}
        self._endings: set[asyncio.Task[bool]] = set()

    async def attach(self, subscription: Subscription, action: Subscribe) -> _Attachment:
        """Ask the owner of the topic to serve `subscription` from now on. Raises ServiceError."""
        for pause_s in _BUSY_PAUSES_S:
            try:
                return await self._attach_once(subscription, action)
            except TopicBusyError:
                # The hub may not have noticed yet that the previous channel of the subscription is gone.
                await self._options.clock.sleep(pause_s)
        return await self._attach_once(subscription, action)

    async def _attach_once(self, subscription: Subscription, action: Subscribe) -> _Attachment:
        try:
            return await self._attach(subscription, action)
        except UncertainAnswerError:
            # The original hub closes a channel on which it refused a SUBSCRIBE, so on a shared one the next SUBSCRIBE
            # may get lost. To attach may be repeated safely, but to create may not.
            if action.mode is CreateOrAttach.CREATE:
                raise
            return await self._attach(subscription, action)

    async def _attach(self, subscription: Subscription, action: Subscribe) -> _Attachment:
        key = subscription.topic, subscription.subscriber
        serving: _ServingChannel | None = None

        async def ask(address: HubAddress, request: Request, timeout_s: float) -> Answer:
            nonlocal serving
            if serving is not None:
                refused, serving = serving, None
                await self._release(refused, subscription)
            serving = free = await self._free_channel(address, key, timeout_s)
            assert free.channel is not None
            free.asked.add(key)
            try:
                # The first delivery may be in the same packet as the answer, and a delivery from before just ahead.
                return await free.channel.ask(
                    request, timeout_s, lambda: free.serve(subscription), subscription.stand_by
                )
            finally:
                free.asked.discard(key)

        try:
            _, answer = await self._routes.carry(subscription.topic, action, ask)
        except BaseException as exc:
            if serving is not None:
                is_refused = isinstance(exc, ServiceError) and exc.happened == "no"
                await self._release(serving, subscription, is_unanswered=not is_refused)
            raise
        assert serving is not None
        return _Attachment(self, serving, subscription, answer.preferences or SubscriptionPreferences())

    async def close(self) -> None:
        """Close all channels."""
        await asyncio.gather(*(channel.close() for channel in list(self._channels)))
        await asyncio.gather(*self._endings)

    async def close_own(self, channel: Channel) -> None:
        """Close a channel when its one subscription leaves it. A shared channel stays open."""
        if not self._options.share_channels:
            await channel.close()

    def count_dropped(self, delivery: Delivery) -> None:
        """Count a message that a hub had no reason to deliver."""
        if not self._activity.dropped:
            _log.warning(
                "dropped message %s of topic '%s' for subscriber '%s': the hub delivered it out of order or unasked; "
                "further ones are only counted",
                delivery.message.seq_id,
                show_name(delivery.topic),
                show_name(delivery.subscriber),
            )
        self._activity.dropped += 1

    def request(self, topic: Topic, action: Action) -> Request:
        return Request(topic=topic, txn_id=self._routes.new_txn_id(), action=action)

    async def _release(
        self, serving: _ServingChannel, subscription: Subscription, *, is_unanswered: bool = False
    ) -> None:
        """Leave a channel on which the subscription is not served after all."""
        serving.forget(subscription)
        # The original hub closes a channel on which it refused a SUBSCRIBE. If the channel serves nothing else, close
        # it first: that loses nothing, and the next SUBSCRIBE does not get lost at its end.
        if serving.channel is None or not serving.channel.is_open:
            return
        if not serving.is_used:
            await serving.channel.close()
        elif is_unanswered:
            self.end(serving, subscription)

    def end(self, serving: _ServingChannel, subscription: Subscription) -> "asyncio.Task[bool]":
        """Ask the hub to stop serving a subscription on a channel, also if it only may serve it later.

        The returned task waits for the answer. It goes on if a caller is cancelled, and until it ends the subscription
        is not attached on this channel again. It returns whether the hub has confirmed the end; if not, the channel has
        ended.
        """
        serving.forget(subscription)
        key = subscription.topic, subscription.subscriber
        ending = asyncio.create_task(self._ask_to_close(serving, *key))
        serving.closing[key] = ending
        self._endings.add(ending)
        ending.add_done_callback(lambda _: serving.closing.pop(key, None))
        ending.add_done_callback(self._endings.discard)
        return ending

    async def _ask_to_close(self, serving: _ServingChannel, topic: Topic, subscriber: SubscriberId) -> bool:
        """End delivery, also if the channel is closed then anyway; return whether the hub has confirmed the end.

        The original client just closes its channel in that case. Then the next client to attach may overtake the last
        consume pointer. It receives finished messages again, or the error that the subscription is busy.
        """
        assert serving.channel is not None
        try:
            answer = await serving.channel.ask(
                self.request(topic, CloseSubscription(subscriber)), self._options.answer_timeout_s
            )
            is_confirmed = answer.status is StatusCode.SUCCESS
        except ServiceError:
            is_confirmed = False
        if not is_confirmed:
            # The hub may serve it, now or later. Only closing the channel surely ends that.
            await serving.channel.close()
        else:
            await self.close_own(serving.channel)
        return is_confirmed

    async def _free_channel(self, address: HubAddress, key: _Key, timeout_s: float) -> _ServingChannel:
        """Return a channel on which no earlier attempt to attach the subscription is under way any more.

        Raises: ServiceDownError - the hub has not confirmed the end of one within `timeout_s`.
        """
        while True:
            serving = await self._serving_channel(address)
            ending = serving.closing.get(key)
            if ending is None:
                return serving
            done, _ = await asyncio.wait([ending], timeout=timeout_s)
            if not done:
                raise ServiceDownError(f"the hub {address} has not confirmed the end of an earlier attempt to attach")

    async def _serving_channel(self, address: HubAddress) -> _ServingChannel:
        if not self._options.share_channels:
            return await self._open(address)
        async with self._opening:
            serving = self._shared.get(address)
            if serving is None or serving.channel is None or not serving.channel.is_open:
                serving = self._shared[address] = await self._open(address)
            return serving

    async def _open(self, address: HubAddress) -> _ServingChannel:
        serving = _ServingChannel(self.count_dropped)

        def end(channel: Channel) -> None:
            self._channels.pop(channel, None)
            self._activity.lost_connections += channel.is_lost
            serving.end(channel)

        serving.channel = await Channel.open(
            address, self._options, serving.take, end, on_delivery=serving.take_delivery
        )
        self._channels[serving.channel] = None
        self._heartbeat.watch(serving.channel)
        return serving
