"""The client for scripts: the same operations, each a call that returns when it is done.

The asyncio client does the work, on the event loop of one background thread. Any thread may make calls, also several at
a time. Every wait ends with the answer, with an error after the deadline that the options set, or with Ctrl-C. The
client stays usable after Ctrl-C.
"""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, Final, Self, TypeVar

from hedwig.client.activity import ClientCounters
from hedwig.client.blocking.background_call import BackgroundCall
from hedwig.client.blocking.reader import BlockingReader
from hedwig.client.blocking.subscription import BlockingShare, BlockingSubscription
from hedwig.client.client import HedwigClient
from hedwig.client.options import ClientOptions
from hedwig.client.publishing.publisher import NamedPublisher
from hedwig.client.subscriptions.share import Share
from hedwig.errors import ClientClosedError, UncertainAnswerError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.names import Name, subscriber_of, topic_of
from hedwig.wire import CreateOrAttach, Message

__all__ = ["BlockingClient", "BlockingPublisher"]

T = TypeVar("T")

_GRACE_S: Final = 5.0
"""The time that a call gets beyond the deadlines of the work itself, in case the machine is busy."""


class BlockingPublisher:
    """A NamedPublisher whose calls block."""

    def __init__(
        self, publisher: NamedPublisher, call: Callable[[Callable[[], Coroutine[Any, Any, MessageSeqId]]], MessageSeqId]
    ) -> None:
        self._publisher = publisher
        self._call = call

    def publish(self, topic: Name, message: Message | bytes, *, sequence: int, age_s: float = 0.0) -> MessageSeqId:
        """Publish a message once. Arguments and errors: NamedPublisher.publish."""
        return self._call(partial(self._publisher.publish, topic, message, sequence=sequence, age_s=age_s))


class BlockingClient:
    """A client of a region for scripts. Use it as a context manager, or close it. Create it after forking, not before.

    Example:
        with BlockingClient("127.0.0.1:4080") as client:
            client.publish("news", b"hello")
    """

    def __init__(self, hub: str | ClientOptions | None = None) -> None:
        """`hub` is the address of any hub, host:port, or the options, as of HedwigClient."""
        self._options = ClientOptions.of(hub)
        attempts = self._options.redirects_max + 1
        self._patience_s = self._options.answer_timeout_s + attempts * self._options.connect_timeout_s + _GRACE_S
        self._loop = asyncio.new_event_loop()
        # A script that ends without closing the client must still end.
        self._thread = threading.Thread(target=self._run_loop, name="hedwig-client", daemon=True)
        self._submitting = threading.Lock()
        self._is_closed = False
        self._opened: dict[tuple[Topic, SubscriberId], BlockingSubscription] = {}
        self._shares: set[BlockingShare] = set()
        self._thread.start()
        self._client = self._call(self._make)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(last_is_finished=kind is None)

    def close(self, *, last_is_finished: bool = True) -> None:
        """Close all subscriptions and connections, and end the thread. May be called twice.

        Args: last_is_finished - whether the last message of each subscription counts as finished, with `auto_consume`.
        Raises: UncertainAnswerError - a hub does not accept the last consume pointers; all is closed nevertheless.
        """
        try:
            readers: list[BlockingReader[Any]] = [*self._shares, *self._opened.values()]
            for opened in readers:
                opened.close(last_is_finished=last_is_finished)
        finally:
            self._end(last_is_finished)

    def _end(self, last_is_finished: bool) -> None:
        with self._submitting:
            if self._is_closed:
                return
            self._is_closed = True
            closing = BackgroundCall(self._loop, partial(self._client.close, last_is_finished=last_is_finished))
            closing.begin()
        try:
            self._result(closing, self._patience_s)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(self._patience_s)

    @property
    def counters(self) -> ClientCounters:
        """Return the counters as they are now. See HedwigClient.counters."""

        async def read() -> ClientCounters:
            return self._client.counters

        return self._call(read)

    def publish(self, topic: Name, message: Message | bytes) -> MessageSeqId:
        """Publish a message; return its position in the topic once the hub has stored it safely.

        It tries again as HedwigClient.publish does, and raises the same.
        """
        return self._call(partial(self._client.publish, topic, message))

    def publisher(self, name: Name) -> "BlockingPublisher":
        """Return the publisher with this name, whose messages the application numbers. See HedwigClient.publisher."""

        async def make() -> NamedPublisher:
            return self._client.publisher(name)

        return BlockingPublisher(self._call(make), self._call)

    def publish_many(self, topic: Name, messages: Iterable[Message | bytes]) -> Iterator[MessageSeqId]:
        """Publish messages without waiting for each, and yield their positions in the order given.

        At most `publishes_in_flight_max` are unanswered at a time. `messages` is read no further than that, in the
        thread that iterates. Nothing happens before the caller asks for the first position. On an error see
        HedwigClient.publish_many.
        """
        running: deque[BackgroundCall[MessageSeqId]] = deque()
        try:
            for message in messages:
                running.append(BackgroundCall(self._loop, partial(self._client.publish, topic, message)))
                self._begin(running[-1])
                while running and (running[0].is_over or len(running) >= self._options.publishes_in_flight_max):
                    yield self._result(running.popleft(), self._patience_s)
            while running:
                yield self._result(running.popleft(), self._patience_s)
        finally:
            for call in running:
                call.withdraw()

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
    ) -> BlockingSubscription:
        """Open a subscription; return it once the hub delivers to it. Arguments and errors: HedwigClient.subscribe.

        With `standby` the wait may have no end. Ctrl-C ends it.
        """
        opening = self._client.subscribe(
            topic,
            subscriber,
            mode=mode,
            preferences=preferences,
            force_attach=force_attach,
            auto_consume=auto_consume,
            resubscribe=resubscribe,
            standby=standby,
            filter=filter,
        )
        opened = self._call(opening.open, patience_s=math.inf if standby else self._patience_s)
        made = BlockingSubscription(opened, self._loop, self._begin, self._call, self._forget)
        self._opened[opened.topic, opened.subscriber] = made
        return made

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
    ) -> BlockingShare:
        """Begin to take part in a share; close it, or use it as a context manager. Arguments: HedwigClient.share.

        Raises: TopicBusyError - another worker has this name; ServiceError; InvalidArgumentError.
        """

        async def begin() -> Share:
            return await self._client.share(
                topics,
                subscriber,
                worker=worker,
                through=through,
                preferences=preferences,
                auto_consume=auto_consume,
                filter=filter,
            ).__aenter__()

        made = BlockingShare(self._call(begin), self._loop, self._begin, self._call, self._shares.discard)
        self._shares.add(made)
        return made

    def unsubscribe(self, topic: Name, subscriber: Name) -> None:
        """Delete a subscription, after closing it if it is open here. Raises ClientNotSubscribedError, ServiceError."""
        opened = self._opened.get((topic_of(topic), subscriber_of(subscriber)))
        if opened is not None:
            opened.close()
        self._call(partial(self._client.unsubscribe, topic, subscriber))

    def close_subscription(self, topic: Name, subscriber: Name) -> None:
        """Close a subscription that is open here; it still exists afterwards. Raises ClientNotSubscribedError."""
        opened = self._opened.get((topic_of(topic), subscriber_of(subscriber)))
        if opened is not None:
            opened.close()
        else:
            self._call(partial(self._client.close_subscription, topic, subscriber))

    def _forget(self, closed: BlockingSubscription) -> None:
        if self._opened.get((closed.topic, closed.subscriber)) is closed:
            del self._opened[closed.topic, closed.subscriber]

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]], *, patience_s: float | None = None) -> T:
        call = BackgroundCall(self._loop, work)
        try:
            self._begin(call)
            return self._result(call, self._patience_s if patience_s is None else patience_s)
        finally:
            if not call.is_over:
                call.withdraw()  # An interrupted caller no longer wants the result.

    def _begin(self, call: "BackgroundCall[Any]") -> None:
        with self._submitting:
            if not self._is_closed:
                call.begin()
                return
        raise ClientClosedError("the client was closed; make another one")

    def _result(self, call: BackgroundCall[T], patience_s: float) -> T:
        """Wait for the outcome of a call. It is withdrawn if that takes too long."""
        if not call.wait(patience_s):
            call.withdraw()
            raise UncertainAnswerError(f"no outcome within {patience_s:g} s")
        try:
            return call.outcome()
        except asyncio.CancelledError as exc:
            raise UncertainAnswerError("the client was closed before the outcome was known") from exc

    async def _make(self) -> HedwigClient:
        return HedwigClient(self._options)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._cancel_the_rest()
        finally:
            self._loop.close()

    def _cancel_the_rest(self) -> None:
        """Cancel the calls of other threads, so that their waits end."""
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        if rest:
            self._loop.run_until_complete(asyncio.wait(rest, timeout=_GRACE_S))
