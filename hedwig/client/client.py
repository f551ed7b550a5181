"""The client: publish, subscribe, unsubscribe."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Generator, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Self

from hedwig.client.activity import Activity, ClientCounters
from hedwig.client.connections.heartbeat import Heartbeat
from hedwig.client.connections.request_channels import RequestChannels
from hedwig.client.connections.routes import Routes
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.client.publishing.lines import OnOutcome
from hedwig.client.publishing.publisher import NamedPublisher, publisher_name
from hedwig.client.publishing.publishing import Publishing
from hedwig.client.subscriptions.attachments import Attachments
from hedwig.client.subscriptions.late_pointers import LatePointers
from hedwig.client.subscriptions.share import Share
from hedwig.client.subscriptions.subscription import Attachment, Listener, Subscription
from hedwig.errors import (
    ClientClosedError,
    ClientNotSubscribedError,
    InvalidArgumentError,
    InvalidMessageFilterError,
    TopicBusyError,
)
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.names import Name, subscriber_of, subscription_subject, topic_of
from hedwig.property_filter import FILTER_NAME, PASS_ALL_NAME, PropertyFilter, with_filter
from hedwig.wire import (
    Action,
    Answer,
    CreateOrAttach,
    Message,
    Received,
    Request,
    Subscribe,
    Unsubscribe,
)

__all__ = ["HedwigClient", "Opening"]


class Opening:
    """A subscription to open. Await it, or open it with `async with`, which also closes it.

    Nothing happens before that. Each `await` opens it once more.
    """

    def __init__(self, opener: Callable[[Callable[[Subscription], None]], Coroutine[Any, Any, Subscription]]) -> None:
        self._opener = opener
        self._made: Subscription | None = None

    @property
    def place(self) -> int | None:
        """Return the place in line while the subscription, opened with `standby`, waits. See Subscription.place."""
        return self._made.place if self._made is not None else None

    async def open(self) -> Subscription:
        """Open the subscription; return it once the hub delivers to it. Raises as HedwigClient.subscribe."""
        return await self._opener(self._begin)

    def _begin(self, made: Subscription) -> None:
        self._made = made

    def __await__(self) -> Generator[Any, Any, Subscription]:
        return self.open().__await__()

    async def __aenter__(self) -> Subscription:
        return await self.open()

    async def __aexit__(self, *raised: Any) -> None:
        assert self._made is not None, "it was entered"
        await self._made.__aexit__(*raised)


class HedwigClient:
    """A client of a region, which finds the owners of topics by itself. Use it as async context manager, or close it.

    Example:
        async with HedwigClient("127.0.0.1:4080") as client:
            await client.publish("news", b"hello")
    """

    def __init__(self, hub: str | ClientOptions | None = None) -> None:
        """`hub` is the address of any hub, host:port, or the options of the client.

        Raises: ConfigurationError - it is no address.
        """
        self._options = ClientOptions.of(hub)
        self._routes = Routes(self._options)
        self._heartbeat = Heartbeat(self._options.silence_s)
        self._activity = Activity()
        self._attachments = Attachments(self._options, self._routes, self._heartbeat, self._activity)
        self._channels = RequestChannels(self._options, self._heartbeat, self._activity)
        self._publishing = Publishing(self._options, self._routes, self._channels, self._activity)
        self._named: dict[bytes, Publishing] = {}
        self._late_pointers = LatePointers(self._options.consume_within_s)
        self._subscriptions: dict[tuple[Topic, SubscriberId], Subscription] = {}
        self._shares: dict[Share, None] = {}
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(last_is_finished=kind is None)

    async def close(self, *, last_is_finished: bool = True) -> None:
        """Close all subscriptions and channels. Publishes under way fail. May be called twice.

        Args: last_is_finished - see Subscription.close.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(last_is_finished))
        await asyncio.shield(self._closing)  # It goes on if a caller is cancelled.

    async def _close(self, last_is_finished: bool) -> None:
        async with contextlib.AsyncExitStack() as stack:  # Each step is taken, whatever comes of those before.
            stack.callback(self._heartbeat.close)
            stack.push_async_callback(self._channels.close)
            stack.push_async_callback(self._attachments.close)
            stack.callback(self._late_pointers.close)
            stack.push_async_callback(self._close_subscriptions, last_is_finished)
            for share in list(self._shares):
                stack.push_async_callback(share.close, last_is_finished=last_is_finished)

    async def _close_subscriptions(self, last_is_finished: bool) -> None:
        self._is_closed = True
        for publishing in (self._publishing, *self._named.values()):
            publishing.close()
        opened = list(self._subscriptions.values())
        await asyncio.gather(*(subscription.close(last_is_finished=last_is_finished) for subscription in opened))
        self._subscriptions.clear()

    @property
    def counters(self) -> ClientCounters:
        """Return the counters as they are now. Looks at each subscription and each connection."""
        activity = self._activity
        return ClientCounters(
            published=activity.published,
            publish_errors=activity.publish_errors,
            publish_repeats=activity.publish_repeats,
            publishes_in_flight=sum(each.in_flight for each in (self._publishing, *self._named.values())),
            late_topics=len(activity.late_topics),
            received=activity.received,
            dropped=activity.dropped,
            subscriptions=sum(each.is_open for each in self._subscriptions.values()),
            attached_subscriptions=sum(each.is_attached for each in self._subscriptions.values()),
            late_subscriptions=len(activity.late_subscriptions),
            lost_attachments=activity.lost_attachments,
            connections=self._heartbeat.open_channels,
            lost_connections=activity.lost_connections,
        )

    async def publish(self, topic: Name, message: Message | bytes) -> MessageSeqId:
        """Publish a message; return its position in the topic once the hub has stored it safely.

        While a hub refuses it for a reason that passes, does not answer, or none can be reached, the client tries again
        until `answer_timeout_s`. The hub stores it once. The messages of a topic keep the order of the calls.

        Raises: UncertainAnswerError - it was sent and not answered, so it may have been published; ServiceError - it
            was not published, for the reason that the last hub gave; LocalProtocolError - it is larger than hubs
            accept; InvalidArgumentError - `topic` cannot be a name; ClientClosedError.
        """
        return await self._publishing.publish(topic_of(topic), message)

    def begin_publish(self, topic: Name, message: Message | bytes, on_outcome: OnOutcome) -> Coroutine[Any, Any, None]:
        """Begin to publish a message, once fewer than `publishes_in_flight_max` are on their way.

        `on_outcome` is called once: with the position of the message, or with an error as `publish` raises it. It may
        be called before this returns, and must not wait. This costs less than `publish`, which needs a task for each
        message that is on its way.

        Raises: InvalidArgumentError - `topic` cannot be a name; ClientClosedError. Then `on_outcome` is not called.
        """
        # One coroutine less to go through: this is for programs that publish very often.
        return self._publishing.begin(topic_of(topic), message, on_outcome)

    def publisher(self, name: Name) -> NamedPublisher:
        """Return the publisher with this name, whose messages the application numbers.

        No other process may publish under this name at the same time.

        Raises: InvalidArgumentError - it has no bytes, or more than 64.
        """
        encoded = publisher_name(name)
        publishing = self._named.get(encoded)
        if publishing is None:
            self._check_open()
            publishing = self._named[encoded] = Publishing(
                self._options, self._routes, self._channels, self._activity, encoded
            )
        return NamedPublisher(publishing)

    def publish_many(
        self, topic: Name, messages: Iterable[Message | bytes] | AsyncIterable[Message | bytes]
    ) -> AsyncIterator[MessageSeqId]:
        """Publish messages without waiting for each, and yield their positions in the order given.

        At most `publishes_in_flight_max` are unanswered at a time. Nothing happens before the caller asks for the first
        position. Messages keep their order. If a publish fails, its error is raised after the positions of the messages
        before it. Messages after it may have been published or not.
        """
        return self._publishing.publish_many(topic_of(topic), messages)

    def subscribe(
        self,
        topic: Name,
        subscriber: Name,
        *,
        mode: CreateOrAttach = CreateOrAttach.CREATE_OR_ATTACH,
        preferences: SubscriptionPreferences | None = None,
        force_attach: bool = False,
        auto_consume: bool = True,
        resubscribe: bool = True,
        standby: bool = False,
        filter: str | None = None,
        on_message: Callable[[Received], object] | None = None,
    ) -> Opening:
        """Open a subscription: `async with client.subscribe(…) as subscription`, or await it. Then the hub delivers.

        Args: mode - whether it must be new, must exist, or either; preferences - merged into the stored ones;
            force_attach - take it over from the client that has it open; auto_consume, resubscribe - see Subscription;
            standby - wait in line while another client has it open, however long, instead of TopicBusyError; filter -
            which messages are wanted, by their properties: see hedwig.property_filter. It replaces the stored filter,
            which an empty one removes. If the hub does not know such filters, the client filters; on_message - a
            function that is called with each message instead of iterating, which costs least: see Subscription.
        Raises: ClientAlreadySubscribedError - CREATE, but it exists; ClientNotSubscribedError - ATTACH, but it does
            not; TopicBusyError - it is open already, in this client or another; InvalidMessageFilterError - the hub has
            no such filter; ServiceError; InvalidArgumentError - `topic` or `subscriber` cannot be a name.
        """
        given = preferences or SubscriptionPreferences()
        first = Subscribe(
            subscriber=subscriber_of(subscriber),
            mode=mode,
            preferences=given if filter is None else with_filter(given, filter),
            synchronous=True,
            force_attach=force_attach,
            standby=standby,
            silence_ms=self._options.silence_ms,
        )
        return Opening(partial(self._open, topic_of(topic), first, auto_consume, resubscribe, on_message=on_message))

    def share(
        self,
        topics: Iterable[Name],
        subscriber: Name,
        *,
        worker: Name | None = None,
        through: Name | None = None,
        preferences: SubscriptionPreferences | None = None,
        auto_consume: bool = True,
        filter: str | None = None,
    ) -> Share:
        """Take part in a share: `async with client.share(…) as share`, then iterate over it. See Share.

        All workers that share the subscriptions of `subscriber` to these topics call this, with the same topics.

        Args: worker - the name of this worker, used by no other; a random one by default; through - the topic through
            which the workers find each other, `share/` and the subscriber by default; preferences - of each
            subscription; auto_consume - see Subscription; filter - see `subscribe`.
        Raises: InvalidArgumentError - something cannot be a name, or the topics are one name.
        """
        self._check_open()
        if isinstance(topics, str | bytes):
            raise InvalidArgumentError(f"a share has a list of topics, not one: give [{topics!r}]")
        reader = subscriber_of(subscriber)
        given = preferences or SubscriptionPreferences()
        first = Subscribe(
            subscriber=reader,
            preferences=given if filter is None else with_filter(given, filter),
            synchronous=True,
            standby=True,
            silence_ms=self._options.silence_ms,
        )
        # Of thousands of subscriptions, each would have a connection of its own.
        attachments = Attachments(
            replace(self._options, share_channels=True), self._routes, self._heartbeat, self._activity
        )

        async def open_part(topic: Topic, listener: Listener) -> Subscription:
            return await self._open(topic, first, auto_consume, True, lambda _: None, attachments, listener)

        async def on_close() -> None:
            await attachments.close()
            self._shares.pop(share, None)

        share = Share(
            self,
            open_part,
            on_close,
            topics,
            reader,
            topic_of(b"share/" + reader if through is None else through),
            subscriber_of(secrets.token_hex(6) if worker is None else worker),
            self._options.clock,
            self._activity,
            auto_consume=auto_consume,
        )
        self._shares[share] = None
        return share

    async def _open(
        self,
        topic: Topic,
        first: Subscribe,
        auto_consume: bool,
        resubscribe: bool,
        on_made: Callable[[Subscription], None],
        attachments: Attachments | None = None,
        listener: Listener | None = None,
        on_message: Callable[[Received], object] | None = None,
    ) -> Subscription:
        subscriber = first.subscriber
        self._check_open()
        await self._make_way(topic, subscriber, force=first.force_attach)
        again = replace(first, mode=CreateOrAttach.ATTACH, force_attach=False)
        actions = iter([first])
        serving = attachments or self._attachments

        async def attach(opened: Subscription) -> Attachment:
            return await _attach(serving, opened, next(actions, again))

        def forget(closed: Subscription) -> None:
            if self._subscriptions.get((topic, subscriber)) is closed:
                del self._subscriptions[topic, subscriber]

        subscription = Subscription(
            topic,
            subscriber,
            self._options,
            attach,
            forget,
            self._late_pointers,
            self._activity,
            auto_consume=auto_consume,
            resubscribe=resubscribe,
            standby=first.standby,
            listener=listener,
            on_message=on_message,
        )
        on_made(subscription)
        self._subscriptions[topic, subscriber] = subscription
        try:
            await subscription.open()
        except BaseException:
            await subscription.close()
            raise
        return subscription

    async def close_subscription(self, topic: Name, subscriber: Name) -> None:
        """Close a subscription that is open here, as its own `close` does. The subscription still exists afterwards.

        Raises: ClientNotSubscribedError - it is not open here.
        """
        key = topic_of(topic), subscriber_of(subscriber)
        opened = self._subscriptions.get(key)
        if opened is None:
            raise ClientNotSubscribedError(f"{subscription_subject(*key)} is not open in this client")
        await opened.close()

    async def unsubscribe(self, topic: Name, subscriber: Name) -> None:
        """Delete a subscription, after closing it if it is open here. Raises ClientNotSubscribedError, ServiceError."""
        name, reader = topic_of(topic), subscriber_of(subscriber)
        opened = self._subscriptions.get((name, reader))
        if opened is not None:
            await opened.close()
        await self._ask(name, Unsubscribe(reader))

    async def _make_way(self, topic: Topic, subscriber: SubscriberId, *, force: bool) -> None:
        """Close the same subscription if it is open here, since a shared channel cannot serve it twice.

        Raises: TopicBusyError - it is open, and not `force`.
        """
        while (opened := self._subscriptions.get((topic, subscriber))) is not None:
            if opened.is_open and not force:
                raise TopicBusyError(
                    f"{subscription_subject(topic, subscriber)} is open in this client; close it first"
                )
            opened.take_over()
            await opened.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError("the client was closed; make another one")

    async def _ask(self, topic: Topic, action: Action) -> Answer:
        self._check_open()
        _, answer = await self._routes.carry(topic, action, self._ask_hub)
        return answer

    async def _ask_hub(self, address: HubAddress, request: Request, timeout_s: float) -> Answer:
        channel = await self._channels.channel(address)
        return await channel.ask(request, timeout_s)


async def _attach(serving: Attachments, opened: Subscription, action: Subscribe) -> Attachment:
    """Attach a subscription. If the hub does not know filters on properties, filter here."""
    opened.filter_here(None)
    try:
        return await serving.attach(opened, action)
    except InvalidMessageFilterError as exc:
        refused = exc
    if action.preferences.message_filter == FILTER_NAME:
        opened.filter_here(PropertyFilter.of(action.preferences))
    elif action.preferences.message_filter != "":
        raise refused
    # A hub of the original has made the subscription, and stored the name, before it refused it.
    mode = CreateOrAttach.CREATE_OR_ATTACH if action.mode is CreateOrAttach.CREATE else action.mode
    for name in (None, "", PASS_ALL_NAME):
        preferences = replace(action.preferences, message_filter=name)
        try:
            return await serving.attach(opened, replace(action, mode=mode, preferences=preferences))
        except InvalidMessageFilterError:
            continue
    raise refused
