"""A subscription for scripts: a blocking iterator over the asyncio one."""

import asyncio
import threading
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, Protocol, Self, TypeVar

from hedwig.client.background_call import BackgroundCall
from hedwig.client.subscription import Subscription
from hedwig.errors import ClientClosedError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Received

__all__ = ["BlockingSubscription"]

T = TypeVar("T")

_SLICE_S: Final = 1.0
"""How long one wait for a message lasts before it is looked whether anything can still come."""
_GRACE_S: Final = 5.0
"""How much later than agreed the loop's thread may answer, on a machine that is busy with other things."""


class _Call(Protocol):
    """Does work on the client's loop."""

    def __call__(self, work: Callable[[], Coroutine[Any, Any, T]], /) -> T: ...


class BlockingSubscription:
    """An open subscription: iterate over it for its messages, or `receive` them one by one.

    What `hedwig.client.Subscription` says of consuming and of reconnecting holds here too. Several threads may share
    one: each message goes to one of them, and with automatic consuming it counts as finished when any of them asks for
    another, so these should call `consume` themselves.
    """

    def __init__(
        self,
        subscription: Subscription,
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[BackgroundCall[Any]], None],
        call: _Call,
        on_close: Callable[["BlockingSubscription"], None],
    ) -> None:
        """`begin` begins a call on `loop`, and raises ClientClosedError if it does not."""
        self._subscription = subscription
        self._loop = loop
        self._begin = begin
        self._call = call
        self._on_close = on_close
        # A message that came for somebody who was interrupted must not get lost: it comes next. So each thread leaves a
        # note of what it asked for, until it has the message or has withdrawn.
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
        """Say whether a hub delivers to it now, as far as is known here."""
        return self._subscription.is_attached

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(last_is_finished=kind is None)

    def __iter__(self) -> Iterator[Received]:
        return self

    def __next__(self) -> Received:
        """Return the next message, however long it takes; Ctrl-C ends the wait and loses nothing.

        Raises: StopIteration - it was closed, by any thread; and what Subscription raises.
        """
        while True:
            message = self.receive(_SLICE_S)
            if message is not None:
                return message
            if not self._subscription.is_open and not self._given_back:
                raise StopIteration

    def receive(self, timeout_s: float) -> Received | None:
        """Return the next message; None if none came within that many seconds, or after `close`.

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
            # From here on the message is the caller's: no function is called any more, so no interrupt comes between.
            del self._asked[me]
            return message
        except (ClientClosedError, CancelledError):
            return None
        finally:
            if me in self._asked:
                self._withdraw_last()

    def messages(self, *, idle_s: float) -> Iterator[Received]:
        """Iterate over the messages until none came for `idle_s` seconds."""
        while (message := self.receive(idle_s)) is not None:
            yield message

    def consume(self, seq_id: MessageSeqId) -> None:
        """Move the consume pointer: `seq_id` and all messages before it are finished. See Subscription.consume."""
        self._call(partial(self._subscription.consume, seq_id))

    def close(self, *, last_is_finished: bool = True) -> bool:
        """End delivery and tell the hub what is finished; the subscription itself stays. May be called twice.

        Argument and result: Subscription.close.
        """
        self._withdraw_last()
        self._on_close(self)
        try:
            return self._call(partial(self._close, last_is_finished))
        except ClientClosedError:
            return False  # With the client, all its subscriptions were closed before.

    async def _close(self, last_is_finished: bool) -> bool:
        # The last one that was given back has been seen by nobody. The one before it counted as finished when somebody
        # asked for more.
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
        """Withdraw what this thread asked for and did not take, also after an interrupt in this very place."""
        me = threading.get_ident()
        if (call := self._asked.get(me)) is not None:
            call.withdraw(self._give_back)
            del self._asked[me]

    def _give_back(self, message: Received | None) -> None:
        if message is not None:
            self._given_back.append(message)
