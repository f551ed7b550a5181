"""Attachments: which channel serves which subscription.

A channel serves one subscription, or, if channels are shared, all subscriptions of one hub. Then a subscription whose
application does not keep up holds the others of its hub back too, as in the original.
"""

import asyncio
from typing import Final

from hedwig.client.channel import Channel
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.client.routes import Routes
from hedwig.client.subscription import Subscription
from hedwig.errors import ServiceDownError, ServiceError, TopicBusyError, UncertainAnswerError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import (
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

_BUSY_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2)


class _ServingChannel:
    """A channel and the subscriptions that it serves."""

    def __init__(self) -> None:
        self.channel: Channel | None = None
        self.subscriptions: dict[tuple[Topic, SubscriberId], Subscription] = {}
        self.closing: dict[tuple[Topic, SubscriberId], asyncio.Task[None]] = {}
        """Attempts to attach that were not answered, until the hub has confirmed their end."""
        self._paused: set[Subscription] = set()

    def take(self, news: Delivery | Event) -> None:
        subscription = self.subscriptions.get((news.topic, news.subscriber))
        if subscription is None:
            return  # It was closed while this was on its way.
        if isinstance(news, Delivery):
            subscription.deliver(news.message)
        else:
            # After an event, this channel must not serve the pair again: whoever wants it back opens another.
            self.forget(subscription)
            subscription.notify(news)

    def end(self, _: Channel) -> None:
        lost = list(self.subscriptions.values())
        self.subscriptions.clear()
        self._paused.clear()
        for subscription in lost:
            subscription.lose()

    def forget(self, subscription: Subscription) -> None:
        """Serve a subscription no more, and let it hold back no other."""
        self.subscriptions.pop((subscription.topic, subscription.subscriber), None)
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
        serving: _ServingChannel,
        subscription: Subscription,
        preferences: SubscriptionPreferences,
        routes: Routes,
        options: ClientOptions,
    ) -> None:
        self.preferences = preferences
        self._serving = serving
        self._subscription = subscription
        self._routes = routes
        self._options = options

    @property
    def is_serving(self) -> bool:
        key = self._subscription.topic, self._subscription.subscriber
        return self._channel.is_open and self._serving.subscriptions.get(key) is self._subscription

    @property
    def _channel(self) -> Channel:
        assert self._serving.channel is not None
        return self._serving.channel

    async def consume(self, seq_id: MessageSeqId) -> None:
        topic, subscriber = self._subscription.topic, self._subscription.subscriber
        action = Consume(subscriber=subscriber, seq_id=seq_id)
        await self._channel.tell(Request(topic=topic, txn_id=self._routes.new_txn_id(), action=action))

    def pause(self) -> None:
        self._serving.pause(self._subscription)

    def resume(self) -> None:
        self._serving.resume(self._subscription)

    async def detach(self) -> bool:
        was_serving, is_confirmed = self.is_serving, False
        self._serving.forget(self._subscription)
        if was_serving:  # Else another channel may serve it by now, and the original hub does not ask which one.
            is_confirmed = await self._ask_to_close(self._subscription.topic, self._subscription.subscriber)
        if not self._options.share_channels:
            await self._channel.close()
        return was_serving and is_confirmed

    async def abandon(self) -> None:
        self._serving.forget(self._subscription)
        if not self._options.share_channels:
            await self._channel.close()

    async def _ask_to_close(self, topic: Topic, subscriber: SubscriberId) -> bool:
        """End delivery, and wait for that also where the channel ends too; say whether the hub has confirmed it.

        The original client just closes its channel then. Whoever attaches next may overtake the consume pointer that
        was sent last, and is told of messages that were finished, or that the subscription is busy.
        """

        async def ask(_: HubAddress, request: Request, timeout_s: float) -> Answer:
            return await self._channel.ask(request, timeout_s)

        try:
            await self._routes.carry(topic, CloseSubscription(subscriber), ask)
        except ServiceError:
            # A hub that does not answer is made to notice by the end of the channel.
            await self._channel.close()
            return False
        return True


class Attachments:
    """Opens channels for subscriptions, and closes them."""

    def __init__(self, options: ClientOptions, routes: Routes) -> None:
        self._options = options
        self._routes = routes
        self._shared: dict[HubAddress, _ServingChannel] = {}
        self._opening = asyncio.Lock()
        self._channels: set[Channel] = set()
        self._endings: set[asyncio.Task[None]] = set()

    async def attach(self, subscription: Subscription, action: Subscribe) -> _Attachment:
        """Ask the owner of the topic to serve `subscription` from now on. Raises ServiceError."""
        for pause_s in _BUSY_PAUSES_S:
            try:
                return await self._attach_once(subscription, action)
            except TopicBusyError:
                # The hub may not have noticed yet that the channel which served the subscription before is gone.
                await self._options.clock.sleep(pause_s)
        return await self._attach_once(subscription, action)

    async def _attach_once(self, subscription: Subscription, action: Subscribe) -> _Attachment:
        try:
            return await self._attach(subscription, action)
        except UncertainAnswerError:
            # The original hub closes a channel on which it refused a SUBSCRIBE, so on a shared one the next SUBSCRIBE
            # may get lost. Attaching twice is attaching once; creating twice is not.
            if action.mode is CreateOrAttach.CREATE:
                raise
            return await self._attach(subscription, action)

    async def _attach(self, subscription: Subscription, action: Subscribe) -> _Attachment:
        key = subscription.topic, subscription.subscriber
        serving: _ServingChannel | None = None

        async def ask(address: HubAddress, request: Request, timeout_s: float) -> Answer:
            nonlocal serving
            await self._release(serving, subscription)
            serving = await self._free_channel(address, key, timeout_s)
            # The first delivery may come in the same packet as the answer.
            serving.subscriptions[key] = subscription
            assert serving.channel is not None
            return await serving.channel.ask(request, timeout_s)

        try:
            _, answer = await self._routes.carry(subscription.topic, action, ask)
        except BaseException as exc:
            await self._release(
                serving, subscription, is_unanswered=not (isinstance(exc, ServiceError) and exc.definite)
            )
            raise
        assert serving is not None
        preferences = answer.preferences or SubscriptionPreferences()
        return _Attachment(serving, subscription, preferences, self._routes, self._options)

    async def close(self) -> None:
        """Close all channels."""
        await asyncio.gather(*(channel.close() for channel in list(self._channels)))
        await asyncio.gather(*self._endings)

    async def _release(
        self, serving: _ServingChannel | None, subscription: Subscription, *, is_unanswered: bool = False
    ) -> None:
        """Give up a channel on which the subscription is not served after all."""
        if serving is None:
            return
        serving.forget(subscription)
        # The original hub closes a channel on which it refused a SUBSCRIBE; on one that serves nobody, nothing is lost
        # by being first, and the next SUBSCRIBE does not run into the end of it.
        if serving.channel is None or not serving.channel.is_open:
            return
        if not serving.subscriptions:
            await serving.channel.close()
        elif is_unanswered:
            key = subscription.topic, subscription.subscriber
            ending = asyncio.create_task(self._close_unheard(serving.channel, *key))
            serving.closing[key] = ending
            self._endings.add(ending)
            ending.add_done_callback(lambda _: serving.closing.pop(key, None))
            ending.add_done_callback(self._endings.discard)

    async def _close_unheard(self, channel: Channel, topic: Topic, subscriber: SubscriberId) -> None:
        """Have a hub that may yet serve a subscription end that, and wait until it has: nobody here takes the messages.

        Those of this attempt would be taken for those of the next one on the channel, though some are gone already.
        """
        action = CloseSubscription(subscriber)
        request = Request(topic=topic, txn_id=self._routes.new_txn_id(), action=action)
        try:
            await channel.ask(request, self._options.answer_timeout_s)
        except ServiceError:
            await channel.close()

    async def _free_channel(
        self, address: HubAddress, key: tuple[Topic, SubscriberId], timeout_s: float
    ) -> _ServingChannel:
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
                raise ServiceDownError(f"the hub {address} has not ended yet what it may serve since the last attempt")

    async def _serving_channel(self, address: HubAddress) -> _ServingChannel:
        if not self._options.share_channels:
            return await self._open(address)
        async with self._opening:
            serving = self._shared.get(address)
            if serving is None or serving.channel is None or not serving.channel.is_open:
                serving = self._shared[address] = await self._open(address)
            return serving

    async def _open(self, address: HubAddress) -> _ServingChannel:
        serving = _ServingChannel()

        def end(channel: Channel) -> None:
            self._channels.discard(channel)
            serving.end(channel)

        serving.channel = await Channel.open(address, self._options, serving.take, end)
        self._channels.add(serving.channel)
        return serving
