"""A subscription for scripts: a blocking iterator over the asyncio one."""

import asyncio
import threading
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, Protocol, Self, TypeVar

from hedwig.client.background_call import BackgroundCall
from hedwig.client.subscriptions.subscription import Subscription
from hedwig.errors import ClientClosedError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Received

__all__ = ["BlockingSubscription"]

T = TypeVar("T")

_SLICE_S: Final = 1.0
"""How long one wait for a message lasts before the thread checks whether the subscription is still open."""
_GRACE_S: Final = 5.0
"""How much later than agreed the loop's thread may answer, in case the machine is busy."""


class _Call(Protocol):
    """Runs work on the client's loop, and waits for it."""

    def __call__(self, work: Callable[[], Coroutine[Any, Any, T]], /) -> T: ...


class BlockingSubscription:
    """An open subscription: iterate over it for its messages, or `receive` them one by one.

    Consuming and reconnecting work as in `hedwig.client.Subscription`. Several threads may share one subscription: each
    message goes to one of them. With several threads auto-consume is unsafe, since a message counts as finished when
    any of them asks for another. So these should call `consume` themselves.
    """

    def __init__(
        self,
        subscription: Subscription,
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[BackgroundCall[Any]], None],
        call: _Call,
        on_close: Callable[["BlockingSubscription"], None],
    ) -> None:
        """`begin` begins a call on `loop`, or raises ClientClosedError."""
        self._subscription = subscription
        self._loop = loop
        self._begin = begin
        self._call = call
        self._on_close = on_close
        # A message that arrives for an interrupted thread must not get lost, but be returned next. So each thread
        # records its call until it has the message or has withdrawn.
        self._asked: dict[int, BackgroundCall[Received | None]] = {}
        self._given_back: deque[Received] = deque()
        self._asking = asyncio.Lock()

    @property
    def topic(self) -> Topic:
        return self._subscription.topic

    @property
    def subscriber(self) -> SubscriberId:
        return self._subscription.subscriber

    @property
    def preferences(self) -> SubscriptionPreferences:
        """Return the preferences that the hub holds for the subscription, as of the last time it attached."""
        return self._subscription.preferences

    @property
    def is_attached(self) -> bool:
        """Say whether a hub delivers to it now, as far as the client knows."""
        return self._subscription.is_attached

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(last_is_finished=kind is None)

    def __iter__(self) -> Iterator[Received]:
        return self

    def __next__(self) -> Received:
        """Return the next message, and wait for it without limit. Ctrl-C ends the wait and loses nothing.

        Raises: StopIteration - it was closed, by any thread; any error of Subscription.
        """
        while True:
            message = self.receive(_SLICE_S)
            if message is not None:
                return message
            if not self._subscription.is_open and not self._given_back:
                raise StopIteration

    def receive(self, timeout_s: float) -> Received | None:
        """Return the next message; None if none arrived within `timeout_s` seconds, or after `close`.

        Raises: SubscriptionClosedError - another client took it over, or the connection was lost and it does not
            resubscribe; ServiceError - it cannot be attached again.
        """
        self._withdraw_last()
        me = threading.get_ident()
        call = self._asked[me] = BackgroundCall(self._loop, partial(self._next, timeout_s))
        try:
            self._begin(call)
            if not call.wait(timeout_s + _GRACE_S):
                return None
            message = call.outcome()
            # From here on the caller has the message. No function is called any more, so no interrupt can come between.
            del self._asked[me]
            return message
        except (ClientClosedError, CancelledError):
            return None
        finally:
            if me in self._asked:
                self._withdraw_last()

    def messages(self, *, idle_s: float) -> Iterator[Received]:
        """Iterate over the messages until none arrived for `idle_s` seconds."""
        while (message := self.receive(idle_s)) is not None:
            yield message

    def consume(self, seq_id: MessageSeqId) -> None:
        """Move the consume pointer: `seq_id` and all messages before it are finished. See Subscription.consume."""
        self._call(partial(self._subscription.consume, seq_id))

    def close(self, *, last_is_finished: bool = True) -> bool:
        """End delivery and send the hub the consume pointer; the subscription itself stays. May be called twice.

        Argument and result are those of Subscription.close.
        """
        self._withdraw_last()
        self._on_close(self)
        try:
            return self._call(partial(self._close, last_is_finished))
        except ClientClosedError:
            return False  # The client is closed, and it has closed all its subscriptions.

    async def _close(self, last_is_finished: bool) -> bool:
        # No thread has seen a message that was given back. The message before it counted as finished when a thread
        # asked for the next one.
        return await self._subscription.close(last_is_finished=last_is_finished and not self._given_back)

    async def _next(self, timeout_s: float) -> Received | None:
        try:
            async with asyncio.timeout(timeout_s), self._asking:
                if self._given_back:
                    return self._given_back.popleft()
                return await anext(self._subscription, None)
        except TimeoutError:
            return None

    def _withdraw_last(self) -> None:
        """Withdraw a call whose message this thread did not take, also after an interrupt at this very point."""
        me = threading.get_ident()
        if (call := self._asked.get(me)) is not None:
            call.withdraw(self._give_back)
            del self._asked[me]

    def _give_back(self, message: Received | None) -> None:
        if message is not None:
            self._given_back.append(message)
