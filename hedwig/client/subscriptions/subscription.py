"""A subscription as the application sees it: an iterator over messages that outlives connections."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol, Self, TypeAlias

from hedwig.client.activity import Activity
from hedwig.client.options import ClientOptions
from hedwig.client.subscriptions.late_pointers import LatePointers
from hedwig.errors import (
    ClientNotSubscribedError,
    HedwigError,
    InvalidMessageFilterError,
    MalformedRequestError,
    NotAuthenticatedError,
    NotPermittedError,
    ServiceError,
    SubscriptionClosedError,
    TopicBusyError,
)
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.names import subscription_subject
from hedwig.property_filter import PropertyFilter
from hedwig.wire import DeliveryEncoder, Event, EventKind, Message, Received

__all__ = ["Attachment", "Listener", "Subscription"]

_Pointer: TypeAlias = Received | MessageSeqId
"""A position in the topic. Of a message it is read only once it is sent."""
_FINAL: Final = (
    ClientNotSubscribedError,
    InvalidMessageFilterError,
    MalformedRequestError,
    NotAuthenticatedError,
    NotPermittedError,
)
"""Errors that no further attempt to attach can change."""


class Attachment(Protocol):
    """The tie of a subscription to the channel that serves it now."""

    preferences: SubscriptionPreferences

    @property
    def is_serving(self) -> bool:
        """Say whether the channel is open and the hub delivers on it, as far as the client knows."""
        ...

    async def consume(self, seq_id: MessageSeqId) -> None:
        """Send the consume pointer. Raises CouldNotConnectError if the channel has ended."""
        ...

    def consume_at_once(self, seq_id: MessageSeqId) -> None:
        """Send the consume pointer, if the channel is open, without waiting until the hub reads it."""
        ...

    def pause(self) -> None:
        """Stop reading messages from the channel."""
        ...

    def resume(self) -> None:
        """Read messages from the channel again."""
        ...

    async def detach(self) -> bool:
        """End delivery; the subscription stays. Return whether the hub has confirmed it."""
        ...

    async def abandon(self) -> None:
        """Drop a channel on which the hub has ended delivery."""
        ...


class Listener(Protocol):
    """Who serves many subscriptions, as each of them uses it."""

    def on_message(self, subscription: "Subscription") -> None:
        """A message has come, and none waited before."""
        ...

    def on_wait(self, subscription: "Subscription") -> None:
        """The subscription waits in line."""
        ...

    def on_end(self, subscription: "Subscription") -> None:
        """An error has ended it."""
        ...


class Subscription:
    """An open subscription: iterate over it for its messages, in order. While it is open, each message comes once.

    With `auto_consume`, a message counts as finished when the application asks for the next one, or closes the
    subscription in order. If an error ends the `with` block, its current message stays unfinished. The consume pointer
    is sent after every `consume_every` messages, `consume_within_s` after a message is finished, before a wait for the
    next message, and at `close`. Without `auto_consume`, call `consume`.

    With `resubscribe`, it reattaches by itself after the loss of a connection or of a hub. Messages that this object
    has delivered already are not delivered again. Without `resubscribe`, such a loss ends it. Messages that were not
    consumed before `close` are delivered again to the next client that opens the subscription.

    With `standby`, it waits while another client has the subscription, also when it reattaches. `place` tells where.

    With `on_message`, that is called with each message, and iterating only waits for the end. A message is finished
    when it returns. If it raises, the message stays unfinished, the subscription ends, and the exception handler of the
    event loop is told.
    """

    def __init__(
        self,
        topic: Topic,
        subscriber: SubscriberId,
        options: ClientOptions,
        attach: Callable[["Subscription"], Awaitable[Attachment]],
        on_close: Callable[["Subscription"], None],
        late_pointers: LatePointers,
        activity: Activity,
        *,
        auto_consume: bool,
        resubscribe: bool,
        standby: bool = False,
        listener: Listener | None = None,
        on_message: Callable[[Received], object] | None = None,
    ) -> None:
        self.topic = topic
        self.subscriber = subscriber
        self.names = DeliveryEncoder(topic, subscriber).names
        """How a delivery names it."""
        self._options = options
        self._queued_max = options.deliveries_queued_max
        self._attach = attach
        self._on_close = on_close
        self._late_pointers = late_pointers
        self._activity = activity
        self._auto_consume = auto_consume
        self._resubscribe = resubscribe
        self._standby = standby
        self._listener = listener
        self._on_message = on_message
        self._failing: asyncio.Task[bool] | None = None
        self._filter: PropertyFilter | None = None
        """The filter, if the hub does not have it."""
        self._passed_over: Received | None = None
        """The last message that this filter did not accept."""
        self._place: int | None = None
        self._attachment: Attachment | None = None
        self._session_last: _Pointer | None = None
        """The newest message that the hub delivered since it last attached this subscription."""
        self._preferences = SubscriptionPreferences()
        self._queue: deque[Received] = deque()
        self._arrived = asyncio.Event()
        self._last_queued = 0
        self._handed_out: Received | None = None
        self._finished: _Pointer | None = None
        self._unsent = 0
        self._consumed: _Pointer | None = None
        """The newest message that was delivered here and counts as consumed."""
        self._skipped: MessageSeqId | None = None
        """A pointer beyond the messages delivered here, until it is sent to the hub."""
        self._pointer_sent = 0
        """The consume pointer sent to the hub since it last attached this subscription."""
        self._telling: asyncio.Task[None] | None = None
        self._end: HedwigError | None = None
        self._attaching: asyncio.Task[None] | None = None
        """The attempt to attach that is under way, or the last one."""
        self._closing: asyncio.Task[bool] | None = None

    @property
    def preferences(self) -> SubscriptionPreferences:
        """Return the preferences that the hub holds for the subscription, as of the last time it attached."""
        return self._preferences

    @property
    def is_open(self) -> bool:
        """Say whether messages may still arrive: not after `close`, nor after an error that ended it."""
        return self._end is None

    @property
    def is_attached(self) -> bool:
        """Say whether a hub delivers to it now, as far as the client knows; False while it is reconnecting."""
        return self._end is None and self._attachment is not None and self._attachment.is_serving

    @property
    def place(self) -> int | None:
        """Return the place in the line of clients that wait for the subscription, 1 for the next one.

        None: it does not wait, or its hub is of the original or of an older release. Those keep no lines, and the
        client asks again and again.
        """
        return self._place

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(last_is_finished=kind is None)

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        """Return the next message.

        Raises: StopAsyncIteration - it was closed; SubscriptionClosedError - another client took it over, or the
            connection was lost and it does not resubscribe; ServiceError - it cannot be attached again, for instance
            because it was deleted.
        """
        self._finish_last()
        while (message := self.take()) is None:
            if isinstance(self._end, _ClosedHere):
                raise StopAsyncIteration
            if self._end is not None:
                raise self._end
            if self._unsent and self._finished is not None:
                # The hub may hold back the next message until it receives the pointer, since its window may be small.
                await self._consume(self._finished)
                continue
            self._arrived.clear()
            await self._arrived.wait()
        return message

    async def receive(self, timeout_s: float) -> Received | None:
        """Return the next message; None if none came within `timeout_s` seconds, or after `close`.

        Raises: as `__anext__`, except StopAsyncIteration.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await anext(self, None)
        except TimeoutError:
            return None

    async def batches(self, messages_max: int, wait_s: float = 0.0) -> AsyncIterator[list[Received]]:
        """Iterate over lists of the next messages, of one to `messages_max`. They are finished, or not, together.

        Args: wait_s - how long to wait for more once there is one. With 0, only what is there makes a list. At most
            `deliveries_queued_max` messages come without a wait.
        Raises: as `__anext__`.
        """
        while True:
            before = self._handed_out
            try:
                batch = [await anext(self)]
            except StopAsyncIteration:
                return
            self._add_to(batch, messages_max)
            if wait_s and len(batch) < messages_max:
                try:
                    await self._wait_for_more(batch, messages_max, wait_s)
                except asyncio.CancelledError:
                    # The application has none of them, so the next call returns them.
                    self._queue.extendleft(reversed(batch))
                    self._handed_out = before
                    raise
            yield batch

    async def _wait_for_more(self, batch: list[Received], messages_max: int, wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while len(batch) < messages_max and self._end is None:
                    self._arrived.clear()
                    await self._arrived.wait()
                    self._add_to(batch, messages_max)

    def _add_to(self, batch: list[Received], messages_max: int) -> None:
        while len(batch) < messages_max and (message := self.take()) is not None:
            batch.append(message)

    def take(self) -> Received | None:
        """Return the next message if it is here, without finishing the last one."""
        if not self._queue:
            return None
        message = self._queue.popleft()
        if self._attachment is not None and len(self._queue) == self._queued_max // 2:
            self._attachment.resume()
        self._handed_out = message
        return message

    def filter_here(self, here: PropertyFilter | None) -> None:
        """Filter the messages here, if the hub does not. For what attaches the subscription."""
        self._filter = here

    def _pass_over(self, message: Received) -> None:
        """Finish a message that the filter did not accept, once all messages before it are finished."""
        self._passed_over = message
        done = self._finished if self._auto_consume else self._consumed
        if self._queue or (self._handed_out is not None and (done is None or done.local < self._handed_out.local)):
            return
        self._finished = message
        self._unsent += 1
        if self._unsent == 1:
            # With the others that were read together. The window may be too small for more.
            asyncio.get_running_loop().call_soon(self._consume_late)

    def _and_passed_over(self, pointer: _Pointer) -> _Pointer:
        """Return the last message that is finished with this one: the filter may not have accepted those behind it."""
        passed = self._passed_over
        is_last = not self._queue and (self._handed_out is None or pointer.local >= self._handed_out.local)
        return passed if passed is not None and is_last and pointer.local < passed.local else pointer

    @property
    def has_messages(self) -> bool:
        """Say whether messages wait for the application."""
        return bool(self._queue)

    async def finish_last(self) -> None:
        """Finish the last message that `take` returned, and send the consume pointer unless another message waits."""
        self._finish_last()
        if not self._queue and self._unsent and self._finished is not None:
            await self._consume(self._finished)

    def drop_messages(self) -> None:
        """Drop the messages that wait for the application. The hub delivers them again to the next client."""
        self._queue.clear()

    async def consume(self, seq_id: MessageSeqId) -> None:
        """Move the consume pointer: `seq_id` and all messages before it are finished.

        If the hub cannot be reached now, the pointer is sent once the subscription has reattached. It then follows the
        messages that the hub delivers again.

        Raises: SubscriptionClosedError, ServiceError - it is not open any more; the text says why.
        """
        if isinstance(self._end, _ClosedHere):
            raise SubscriptionClosedError("the subscription was closed; open it again to consume")
        if self._end is not None:
            raise self._end
        await self._consume(self._and_passed_over(seq_id))

    async def close(self, *, last_is_finished: bool = True) -> bool:
        """End delivery and send the hub the consume pointer; the subscription itself stays. May be called twice.

        Args: last_is_finished - whether, with `auto_consume`, the last returned message counts as finished; if not, it
            is delivered again.
        Returns: whether the hub has confirmed the end, and thereby that it has received the consume pointer. If not,
            the hub may have missed the latest pointers.
        """
        if self._closing is None:
            is_to_finish = self._end is None
            self._conclude(_ClosedHere("the subscription was closed"))
            self._queue.clear()
            self._closing = asyncio.create_task(self._close(is_to_finish, last_is_finished))
        # A cancelled caller leaves nothing attached: the closing goes on, and the next opening waits for it.
        return await asyncio.shield(self._closing)

    async def _close(self, is_to_finish: bool, last_is_finished: bool) -> bool:
        for task in (self._attaching, self._telling):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        try:
            if is_to_finish:
                if last_is_finished:
                    self._finish_last()
                if self._unsent and self._finished is not None:
                    await self._consume(self._finished)
                if self._consumed is not None and self._consumed.local > self._pointer_sent:
                    await self._tell(self._consumed)  # This session delivers nothing more, so it can miss nothing.
            return await self._attachment.detach() if self._attachment is not None else False
        finally:
            # These objects refer to each other. Closing many subscriptions must not need the garbage collector.
            self._attachment = self._attaching = self._telling = None
            self._on_close(self)

    async def open(self) -> None:
        """Attach for the first time.

        Raises: SubscriptionClosedError - it was closed meanwhile; any error that the hub answers.
        """
        self._attaching = asyncio.create_task(self._attach_first())
        try:
            await self._attaching
        except asyncio.CancelledError:
            opener = asyncio.current_task()
            if self._closing is None or (opener is not None and opener.cancelling()):
                raise
        if self._end is not None:
            raise SubscriptionClosedError("the subscription was closed while it was being opened")
        if self._attachment is not None and not self._attachment.is_serving:
            self.lose()  # Already lost again: the channel's end came right after its answer.

    async def _attach_first(self) -> None:
        try:
            self._serve_by(await self._attach(self))
        except ServiceError as exc:
            is_waiting = self._place is not None or (self._standby and isinstance(exc, TopicBusyError))
            if not is_waiting or isinstance(exc, _FINAL):
                raise
            await self._recover()
            if self._end is not None:
                raise self._end from exc

    def _serve_by(self, attachment: Attachment) -> None:
        self._attachment = attachment
        self._activity.late_subscriptions.end(self)
        self._preferences = attachment.preferences
        if len(self._queue) >= self._queued_max:
            attachment.pause()

    def begin_session(self) -> None:
        """Accept messages from now on, since the hub has attached it. For the channel that serves the subscription."""
        self._session_last = None
        self._pointer_sent = 0
        self._place = None

    def stand_by(self, place: int) -> None:
        """Record the place in the line. For the channel that asked for the subscription.

        Another client may finish the messages that wait here for the application. If it does not, the hub delivers them
        again.
        """
        self._activity.late_subscriptions.end(self)
        if self._place is None:
            self._queue.clear()
            self._last_queued = self._handed_out.local if self._handed_out is not None else 0
            if self._listener is not None:
                self._listener.on_wait(self)
        self._place = place

    def deliver(self, message: Message) -> bool:
        """Accept a message that the hub delivers. For the channel that serves the subscription.

        Returns: whether it follows all messages that the hub delivered since it last attached this subscription, as it
            must.
        """
        return message.seq_id is not None and self._deliver(Received.of(message))

    def deliver_stored(self, stored: bytes) -> bool:
        """Accept a message as `deliver` does, from its bytes. For the channel that serves the subscription."""
        message = Received.read(stored)
        return message is not None and self._deliver(message)

    def _deliver(self, message: Received) -> bool:
        local = message.local
        if self._session_last is not None and local <= self._session_last.local:
            return False
        self._session_last = message
        if self._end is not None:
            return True
        if local <= self._last_queued:  # Delivered before the channel was lost.
            if self._pointer_to_send() is not None and (self._telling is None or self._telling.done()):
                self._telling = asyncio.create_task(self._tell_consumed())
            return True
        self._last_queued = local
        self._activity.received += 1
        if self._filter is not None and not self._filter.accepts(message):
            self._pass_over(message)
            return True
        if self._on_message is not None:
            self._hand_over(message, self._on_message)
            return True
        queue = self._queue
        queue.append(message)
        if len(queue) == 1:
            self._arrived.set()
            if self._listener is not None:
                self._listener.on_message(self)
        if len(queue) >= self._queued_max and self._attachment is not None:
            self._attachment.pause()
        return True

    def _hand_over(self, message: Received, on_message: Callable[[Received], object]) -> None:
        self._handed_out = message
        try:
            on_message(message)
        except Exception as exc:
            self._consume_late()  # Those before it are finished.
            self._conclude(SubscriptionClosedError(f"on_message failed with {exc!r}"))
            self._failing = asyncio.create_task(self.close(last_is_finished=False))
            what = f"on_message of {subscription_subject(self.topic, self.subscriber)} failed"
            asyncio.get_running_loop().call_exception_handler({"message": what, "exception": exc})
        else:
            self._finish_last()

    def notify(self, event: Event) -> None:
        """Accept an event of the hub. For the channel that serves the subscription."""
        if event.kind is EventKind.SUBSCRIPTION_FORCED_CLOSED:
            self.take_over(event.text)
        else:
            self.lose()

    def take_over(self, why: str | None = None) -> None:
        """End it for its reader, since another client attached by force, or for what the hub says."""
        why = why or "another client attached to the subscription and took it over"
        self._conclude(SubscriptionClosedError(why))

    def lose(self) -> None:
        """Begin to reattach, since the channel has ended. For the channel that served the subscription."""
        if self._end is not None or self._attachment is None:
            return  # A failing attempt to attach reports itself.
        if not self._resubscribe:
            self._conclude(SubscriptionClosedError("the connection to its hub was lost, or the topic moved"))
        elif self._attaching is None or self._attaching.done():
            self._activity.lost_attachments += 1
            self._attaching = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        pause_s = self._options.reconnect_pause_s
        while True:
            try:
                if await self._attach_again():
                    return
            except _FINAL as exc:
                self._conclude(exc)
                return
            except ServiceError as exc:
                if self._end is None and not (self._standby and isinstance(exc, TopicBusyError)):
                    self._activity.late_subscriptions.begin(self, exc)
            await self._options.clock.sleep(pause_s * (0.5 + self._options.random.random()))
            pause_s = min(2 * pause_s, self._options.reconnect_pause_max_s)

    async def _attach_again(self) -> bool:
        """Attach, and return whether the channel is still serving. While this runs, `lose` begins nothing new."""
        lost, self._attachment = self._attachment, None
        if lost is not None:
            await lost.abandon()
        attachment = await self._attach(self)
        self._serve_by(attachment)
        await self._tell_consumed()
        return attachment.is_serving

    def _finish_last(self) -> None:
        last = self._handed_out
        if (
            last is None
            or not self._auto_consume
            or (self._finished is not None and last.local <= self._finished.local)
        ):
            return
        self._finished = last if self._passed_over is None else self._and_passed_over(last)
        self._unsent += 1
        if self._unsent == self._options.consume_every:
            # Those that follow until then go with it.
            asyncio.get_running_loop().call_soon(self._consume_late)
        elif self._unsent == 1:
            self._late_pointers.add(self._consume_late)

    def _consume_late(self) -> None:
        """Send the pointer to the last finished message without waiting, if it is not sent yet."""
        if not self._unsent or self._finished is None or self._end is not None:
            return
        self._unsent = 0
        if self._consumed is None or self._finished.local > self._consumed.local:
            self._consumed = self._finished
        if self._attachment is not None and (pointer := self._pointer_to_send()) is not None:
            self._pointer_sent = pointer.local
            self._attachment.consume_at_once(_seq_id_of(pointer))

    async def _consume(self, pointer: _Pointer) -> None:
        self._unsent = 0
        if pointer.local > self._last_queued:
            self._skipped = _seq_id_of(pointer)
        elif self._consumed is None or pointer.local > self._consumed.local:
            self._consumed = pointer
        await self._tell_consumed()

    async def _tell_consumed(self) -> None:
        """Send the hub of the current session the consume pointers that it does not have yet."""
        if self._skipped is not None and self._attachment is not None:
            skipped, self._skipped = self._skipped, None
            await self._tell(skipped)
        while (pointer := self._pointer_to_send()) is not None:
            self._pointer_sent = pointer.local
            await self._tell(pointer)

    def _pointer_to_send(self) -> _Pointer | None:
        """Return the consume pointer to send to the hub now; None if there is none.

        It is never beyond the messages that this session has delivered, even if an earlier session delivered more. The
        hub may delete all messages up to the pointer, and they would be missing in this session.
        """
        if self._attachment is None or self._consumed is None or self._session_last is None:
            return None
        pointer = min(self._consumed, self._session_last, key=lambda each: each.local)
        return pointer if pointer.local > self._pointer_sent else None

    async def _tell(self, pointer: _Pointer) -> None:
        if self._attachment is None:
            return
        with contextlib.suppress(ServiceError):  # The next session sends it.
            await self._attachment.consume(_seq_id_of(pointer))

    def _conclude(self, end: HedwigError) -> None:
        if self._end is None:
            self._end = end
            self._activity.late_subscriptions.end(self)
            if self._listener is not None and not isinstance(end, _ClosedHere):
                self._listener.on_end(self)
        self._arrived.set()


def _seq_id_of(pointer: _Pointer) -> MessageSeqId:
    return pointer.seq_id if isinstance(pointer, Received) else pointer


class _ClosedHere(HedwigError):
    """The application closed the subscription itself."""
