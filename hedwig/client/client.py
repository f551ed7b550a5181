"""The client: publish, subscribe, unsubscribe."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Self

from hedwig.client.attachments import Attachments
from hedwig.client.channel import Channel
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.client.routes import Routes
from hedwig.client.subscription import Attachment, Subscription
from hedwig.errors import RemoteProtocolError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.names import as_subscriber, as_topic
from hedwig.wire import (
    Action,
    Answer,
    CreateOrAttach,
    Delivery,
    Event,
    Message,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
)

__all__ = ["HedwigClient"]


class HedwigClient:
    """A client of a region: it finds the owners of topics by itself. Use it as an async context manager, or close it.

    Example:
        async with HedwigClient() as client:
            await client.publish(Topic(b"news"), b"hello")
    """

    def __init__(self, options: ClientOptions | None = None) -> None:
        self._options = options or ClientOptions()
        self._routes = Routes(self._options)
        self._attachments = Attachments(self._options, self._routes)
        self._channels: dict[HubAddress, asyncio.Task[Channel]] = {}
        self._in_flight = asyncio.Semaphore(self._options.publishes_in_flight_max)
        self._subscriptions: dict[tuple[Topic, SubscriberId], Subscription] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all subscriptions and channels; publishes under way fail. May be called twice."""
        await asyncio.gather(*(subscription.close() for subscription in list(self._subscriptions.values())))
        self._subscriptions.clear()
        await self._attachments.close()
        opening = list(self._channels.values())
        self._channels.clear()
        for channel in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(channel, Channel):
                await channel.close()

    async def publish(self, topic: Topic, message: Message | bytes) -> MessageSeqId:
        """Publish a message; return its position in the topic once the hub keeps it safe.

        Raises: UncertainAnswerError - it was sent and not answered, it may have been published; ServiceError - it was
        not.
        """
        as_topic(topic)
        made = message if isinstance(message, Message) else Message(message)
        async with self._in_flight:
            answer = await self._ask(topic, Publish(made))
        if answer.published is None:
            raise RemoteProtocolError("the hub accepted a message without saying where; it is no hub of this protocol")
        return answer.published

    async def publish_many(
        self, topic: Topic, messages: Iterable[Message | bytes] | AsyncIterable[Message | bytes]
    ) -> AsyncIterator[MessageSeqId]:
        """Publish messages without waiting for each, and yield their positions in the order given.

        They keep their order unless a publish fails; then its error is raised after the positions of those before it,
        and those after it may have been published or not.
        """
        running: deque[asyncio.Task[MessageSeqId]] = deque()
        try:
            async for message in _aiter(messages):
                running.append(asyncio.create_task(self.publish(topic, message)))
                if len(running) == 1:
                    await asyncio.wait([running[0]])  # The first finds the owner, so that the others go one way.
                while running and (running[0].done() or len(running) >= self._options.publishes_in_flight_max):
                    yield await running.popleft()
            while running:
                yield await running.popleft()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def subscribe(
        self,
        topic: Topic,
        subscriber: SubscriberId,
        *,
        mode: CreateOrAttach = CreateOrAttach.CREATE_OR_ATTACH,
        preferences: SubscriptionPreferences | None = None,
        force_attach: bool = False,
        auto_consume: bool = True,
    ) -> Subscription:
        """Open a subscription; return it once the hub delivers to it.

        Args: mode - whether it must be new, must exist, or either; preferences - merged into those that are stored;
            force_attach - take it over from another client; auto_consume - see Subscription.
        Raises: ClientAlreadySubscribedError - CREATE, but it exists; ClientNotSubscribedError - ATTACH, but it does
        not;
            TopicBusyError - another client has it open; InvalidMessageFilterError; ServiceError.
        """
        as_topic(topic)
        as_subscriber(subscriber)
        first = Subscribe(
            subscriber=subscriber,
            mode=mode,
            preferences=preferences or SubscriptionPreferences(),
            synchronous=True,
            force_attach=force_attach,
        )
        again = Subscribe(
            subscriber=subscriber, mode=CreateOrAttach.ATTACH, preferences=first.preferences, synchronous=True
        )
        actions = iter([first])

        async def attach(opened: Subscription) -> Attachment:
            return await self._attachments.attach(opened, next(actions, again))

        def forget(closed: Subscription) -> None:
            if self._subscriptions.get((topic, subscriber)) is closed:
                del self._subscriptions[topic, subscriber]

        subscription = Subscription(topic, subscriber, self._options, attach, forget, auto_consume=auto_consume)
        await subscription.open()
        self._subscriptions[topic, subscriber] = subscription
        return subscription

    async def unsubscribe(self, topic: Topic, subscriber: SubscriberId) -> None:
        """Delete a subscription, after closing it if it is open here. Raises ClientNotSubscribedError, ServiceError."""
        as_topic(topic)
        as_subscriber(subscriber)
        opened = self._subscriptions.get((topic, subscriber))
        if opened is not None:
            await opened.close()
        await self._ask(topic, Unsubscribe(subscriber))

    async def _ask(self, topic: Topic, action: Action) -> Answer:
        _, answer = await self._routes.carry(topic, action, self._ask_hub)
        return answer

    async def _ask_hub(self, address: HubAddress, request: Request, timeout_s: float) -> Answer:
        channel = await self._channel(address)
        return await channel.ask(request, timeout_s)

    async def _channel(self, address: HubAddress) -> Channel:
        """Return the channel to a hub for all that is not a subscription; callers share one attempt to open it."""
        opening = self._channels.get(address)
        if opening is None or (opening.done() and not _is_open(opening)):
            opening = asyncio.create_task(Channel.open(address, self._options, _ignore, _forget))
            self._channels[address] = opening
        # Cancelling one caller must not cancel the attempt that others wait for.
        return await asyncio.shield(opening)


def _is_open(opening: asyncio.Task[Channel]) -> bool:
    return not opening.cancelled() and opening.exception() is None and opening.result().is_open


def _ignore(_: Delivery | Event) -> None:
    """Drop what a hub has no reason to send on this channel."""


def _forget(_: Channel) -> None:
    """Do nothing: the next request finds that the channel has ended."""


async def _aiter(
    messages: Iterable[Message | bytes] | AsyncIterable[Message | bytes],
) -> AsyncIterator[Message | bytes]:
    if isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
    else:
        for message in messages:
            yield message
