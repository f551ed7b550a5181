"""A subscription as the application sees it: an iterator of messages that outlives connections."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol, Self

from hedwig.client.options import ClientOptions
from hedwig.errors import (
    ClientNotSubscribedError,
    HedwigError,
    InvalidMessageFilterError,
    MalformedRequestError,
    ServiceError,
    SubscriptionClosedError,
)
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Event, EventKind, Message

__all__ = ["Attachment", "Subscription"]

_log = logging.getLogger(__name__)

_FINAL: Final = (ClientNotSubscribedError, InvalidMessageFilterError, MalformedRequestError)
"""What no further attempt to attach can change."""


class Attachment(Protocol):
    """The tie of a subscription to the channel that serves it now."""

    preferences: SubscriptionPreferences

    async def consume(self, seq_id: MessageSeqId) -> None:
        """Send the consume pointer. Raises CouldNotConnectError if the channel has ended."""
        ...

    def pause(self) -> None:
        """Let no more messages come for now."""
        ...

    def resume(self) -> None:
        """Let messages come again."""
        ...

    async def detach(self) -> None:
        """End delivery; the subscription stays."""
        ...


class Subscription:
    """An open subscription: iterate over it for its messages, in order, each once for as long as it is open.

    With `auto_consume`, a message counts as finished when the next one is asked for, and the consume pointer is sent
    after every few, and at `close`. Without, call `consume`. Across the loss of a connection or of a hub it attaches
    again by itself; messages that this object has delivered already are not delivered again, those that were not
    consumed before it is closed come again to the next one that opens the subscription.
    """

    def __init__(
        self,
        topic: Topic,
        subscriber: SubscriberId,
        options: ClientOptions,
        attach: Callable[["Subscription"], Awaitable[Attachment]],
        on_close: Callable[["Subscription"], None],
        *,
        auto_consume: bool,
    ) -> None:
        self.topic = topic
        self.subscriber = subscriber
        self._options = options
        self._attach = attach
        self._on_close = on_close
        self._auto_consume = auto_consume
        self._attachment: Attachment | None = None
        self._queue: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self._last_queued = 0
        self._handed_out: MessageSeqId | None = None
        self._finished = 0
        self._consumed: MessageSeqId | None = None
        self._end: HedwigError | None = None
        self._recovery: asyncio.Task[None] | None = None

    @property
    def preferences(self) -> SubscriptionPreferences:
        """Return the preferences that the hub holds for the subscription, as of the last time it attached."""
        assert self._attachment is not None, "an application gets a subscription after it has attached"
        return self._attachment.preferences

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        """Return the next message.

        Raises: StopAsyncIteration - it was closed; SubscriptionClosedError - another client took it over; ServiceError
        -
            it cannot be attached again, for instance because it was deleted.
        """
        await self._finish_one()
        while not self._queue:
            if isinstance(self._end, _ClosedHere):
                raise StopAsyncIteration
            if self._end is not None:
                raise self._end
            self._arrived.clear()
            await self._arrived.wait()
        message = self._queue.popleft()
        if self._attachment is not None and len(self._queue) == self._options.deliveries_queued_max // 2:
            self._attachment.resume()
        self._handed_out = message.seq_id
        return message

    async def consume(self, seq_id: MessageSeqId) -> None:
        """Move the consume pointer: `seq_id` and all messages before it are finished.

        If the hub cannot be told now, it is told as soon as the subscription has attached again.
        """
        if self._consumed is None or seq_id.local > self._consumed.local:
            self._consumed = seq_id
        self._finished = 0
        await self._send_consumed()

    async def close(self) -> None:
        """End delivery and tell the hub what is finished; the subscription itself stays. May be called twice."""
        if self._end is None:
            await self._finish_one()
            if self._finished and self._handed_out is not None:
                await self.consume(self._handed_out)
        self._conclude(_ClosedHere("the subscription was closed"))
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.wait([self._recovery])
        self._on_close(self)
        if self._attachment is not None:
            await self._attachment.detach()

    async def open(self) -> None:
        """Attach for the first time. Raises what the hub answers."""
        self._serve_by(await self._attach(self))

    def _serve_by(self, attachment: Attachment) -> None:
        self._attachment = attachment
        if len(self._queue) >= self._options.deliveries_queued_max:
            attachment.pause()

    def deliver(self, message: Message) -> None:
        """Take a message that the hub delivers. For the channel that serves the subscription."""
        seq_id = message.seq_id
        if seq_id is None or seq_id.local <= self._last_queued or self._end is not None:
            return  # Delivered before the channel was lost.
        self._last_queued = seq_id.local
        self._queue.append(message)
        self._arrived.set()
        if self._attachment is not None and len(self._queue) >= self._options.deliveries_queued_max:
            self._attachment.pause()

    def notify(self, event: Event) -> None:
        """Take news of the hub. For the channel that serves the subscription."""
        if event.kind is EventKind.SUBSCRIPTION_FORCED_CLOSED:
            self._conclude(SubscriptionClosedError("another client attached to the subscription and took it over"))
        else:
            self.lose()

    def lose(self) -> None:
        """Begin to attach again, since the channel has ended. For the channel that served the subscription."""
        if self._end is None and (self._recovery is None or self._recovery.done()):
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        pause_s = self._options.reconnect_pause_s
        while True:
            try:
                self._serve_by(await self._attach(self))
            except _FINAL as exc:
                self._conclude(exc)
                return
            except ServiceError as exc:
                _log.info("subscription %r on %r: not attached again yet: %s", self.subscriber, self.topic, exc)
            else:
                await self._send_consumed()
                return
            await self._options.clock.sleep(pause_s * (0.5 + self._options.random.random()))
            pause_s = min(2 * pause_s, self._options.reconnect_pause_max_s)

    async def _finish_one(self) -> None:
        if not self._auto_consume or self._handed_out is None or self._is_consumed(self._handed_out):
            return
        self._finished += 1
        if self._finished >= self._options.consume_every:
            await self.consume(self._handed_out)

    def _is_consumed(self, seq_id: MessageSeqId) -> bool:
        return self._consumed is not None and seq_id.local <= self._consumed.local

    async def _send_consumed(self) -> None:
        if self._consumed is None or self._attachment is None:
            return
        try:
            await self._attachment.consume(self._consumed)
        except ServiceError as exc:
            _log.debug("subscription %r on %r: not told yet what is consumed: %s", self.subscriber, self.topic, exc)

    def _conclude(self, end: HedwigError) -> None:
        if self._end is None:
            self._end = end
        self._arrived.set()


class _ClosedHere(HedwigError):
    """The application closed the subscription itself."""
