"""A subscription for scripts: a blocking iterator over the asyncio one."""

import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Protocol, Self, TypeVar

from hedwig.client.subscription import Subscription
from hedwig.clock import Clock, Deadline, SystemClock
from hedwig.errors import ClientClosedError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Message

__all__ = ["BlockingSubscription"]

T = TypeVar("T")

_SLICE_S: Final = 1.0
"""How long one wait for a message lasts before it is looked whether anything can still come."""


class _Submit(Protocol):
    """Begins work on the client's loop."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> "Future[T]": ...


class _Call(Protocol):
    """Does work on the client's loop."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class BlockingSubscription:
    """An open subscription: iterate over it for its messages, or `receive` them one by one.

    What `hedwig.client.Subscription` says of consuming and of reconnecting holds here too. Several threads may share
    one: each message goes to one of them, and with automatic consuming it counts as finished when any of them asks for
    another, so these should call `consume` themselves.
    """

    def __init__(
        self,
        subscription: Subscription,
        submit: _Submit,
        call: _Call,
        on_close: Callable[["BlockingSubscription"], None],
        clock: Clock | None = None,
    ) -> None:
        self._subscription = subscription
        self._submit = submit
        self._call = call
        self._on_close = on_close
        self._clock = clock or SystemClock()
        # One question at a time, and one that was interrupted or timed out goes on: its message must not get lost.
        self._asking = threading.Lock()
        self._asked: Future[Message | None] | None = None

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

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """Return the next message, however long it takes; Ctrl-C ends the wait and loses nothing.

        Raises: StopIteration - it was closed, by any thread; and what Subscription raises.
        """
        while True:
            message = self.receive(_SLICE_S)
            if message is not None:
                return message
            if not self._subscription.is_open and self._asked is None:
                raise StopIteration

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message; None if none came within that many seconds, or after `close`.

        Raises: SubscriptionClosedError - another client took it over, or the connection was lost and it does not
            resubscribe; ServiceError - it cannot be attached again.
        """
        deadline = Deadline.after(self._clock, timeout_s)
        if not self._asking.acquire(timeout=timeout_s):
            return None  # Another thread waits for the message that comes next.
        try:
            if self._asked is None:
                self._asked = self._submit(self._next())
            message = self._asked.result(deadline.remaining_s())
            self._asked = None
            return message
        except TimeoutError:
            return None
        except (ClientClosedError, CancelledError):
            self._asked = None
            return None
        except Exception:
            self._asked = None
            raise
        finally:
            self._asking.release()

    def messages(self, *, idle_s: float) -> Iterator[Message]:
        """Iterate over the messages until none came for `idle_s` seconds."""
        while (message := self.receive(idle_s)) is not None:
            yield message

    def consume(self, seq_id: MessageSeqId) -> None:
        """Move the consume pointer: `seq_id` and all messages before it are finished. See Subscription.consume."""
        self._call(self._subscription.consume(seq_id))

    def close(self, *, last_is_finished: bool = True) -> bool:
        """End delivery and tell the hub what is finished; the subscription itself stays. May be called twice.

        Argument and result: Subscription.close.
        """
        # A question that nobody waits for any more may have got a message, which nobody has seen then. The one before
        # it counted as finished when the question was asked.
        is_seen = self._asked is None
        self._on_close(self)
        try:
            return self._call(self._subscription.close(last_is_finished=last_is_finished and is_seen))
        except ClientClosedError:
            return False  # With the client, all its subscriptions were closed before.

    async def _next(self) -> Message | None:
        return await anext(self._subscription, None)
