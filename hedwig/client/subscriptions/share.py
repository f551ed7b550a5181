"""A share: workers that divide the subscriptions of many topics among themselves."""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from typing import Final, Self

from hedwig.client.activity import Activity
from hedwig.client.subscriptions.members import RANK_BYTES, Members, MembersClient, rank
from hedwig.client.subscriptions.subscription import Listener, Subscription
from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import (
    HedwigError,
    InvalidMessageFilterError,
    MalformedRequestError,
    NotAuthenticatedError,
    NotPermittedError,
    ServiceError,
    SubscriptionClosedError,
)
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.names import Name, show_name, topic_of
from hedwig.wire import Received

__all__ = ["Share"]

_log = logging.getLogger(__name__)

_ASKED_AT_ONCE: Final = 64
_SLICE: Final = 500
"""For how many topics ranks are compared before other tasks run."""
_PAUSE_S: Final = 1.0
_LOST_S: Final = 1.0
"""Subscriptions that are lost within N seconds are one line in the log."""
_FINAL: Final = (InvalidMessageFilterError, MalformedRequestError, NotAuthenticatedError, NotPermittedError)
"""Errors that no further attempt to attach can change."""


class _Part:
    """A topic that falls to this worker, from the attempt to attach until the subscription is closed."""

    __slots__ = (
        "consumed",
        "handed_out",
        "has_permit",
        "is_closing",
        "is_leaving",
        "is_ready",
        "opening",
        "subscription",
        "topic",
    )

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.opening: asyncio.Task[None] | None = None
        self.subscription: Subscription | None = None
        """The subscription once it is attached."""
        self.has_permit = False
        self.is_ready = False
        """Whether it is among those with messages for the application."""
        self.is_leaving = False
        """Whether another worker is to serve the topic."""
        self.is_closing = False
        self.handed_out = self.consumed = 0


class Share:
    """The part of a share that falls to this worker: iterate over it for pairs of topic and message.

    Use it with `async with`. Messages of a topic come in order, from one worker at a time. While the workers come and
    go, topics move from one to another, and no more of them than must. A topic moves once its message in hand is
    finished. Consuming works as in Subscription.
    """

    def __init__(
        self,
        client: MembersClient,
        open_part: Callable[[Topic, Listener], Awaitable[Subscription]],
        on_close: Callable[[], Awaitable[None]],
        topics: Iterable[Name],
        subscriber: SubscriberId,
        through: Topic,
        worker: SubscriberId,
        clock: Clock,
        activity: Activity,
        *,
        auto_consume: bool,
    ) -> None:
        """`open_part` opens the subscription of one topic. If another worker has it, it waits in line."""
        self._open_part = open_part
        self._on_close = on_close
        self._subscriber = subscriber
        self._me = worker
        self._clock = clock
        self._late = activity.late_subscriptions
        self._auto_consume = auto_consume
        self._best = dict.fromkeys(sorted({topic_of(topic) for topic in topics}), b"")
        """For each topic the highest rank of a worker that is alive."""
        purpose = hashlib.blake2b(digest_size=8)
        for topic in self._best:
            purpose.update(len(topic).to_bytes(4) + topic)
        self._members = Members(client, through, worker, purpose.digest(), clock, self._divide_soon)
        self._changed = asyncio.Event()
        self._parts: dict[Topic, _Part] = {}
        self._asking = asyncio.Semaphore(_ASKED_AT_ONCE)
        self._dividing = Tasks()
        self._openings = Tasks()
        """What attaches and closes subscriptions."""
        self._ready: deque[_Part] = deque()
        self._arrived = asyncio.Event()
        self._held: _Part | None = None
        """The part whose last message is in the hands of the application, with `auto_consume`."""
        self._lost = 0
        """The number of subscriptions that are lost and not logged yet."""
        self._logging_lost: asyncio.TimerHandle | None = None
        self._failure: HedwigError | None = None
        self._is_closed = False
        self._closing: asyncio.Task[bool] | None = None
        self._are_confirmed = True
        """Whether the hubs have confirmed the ends of all subscriptions so far."""

    @property
    def topics(self) -> Collection[Topic]:
        """Return the topics that this worker serves now."""
        return [each.topic for each in self._parts.values() if each.subscription is not None and not each.is_leaving]

    @property
    def workers(self) -> Collection[SubscriberId]:
        """Return the workers that are alive, as far as this one knows, itself included."""
        return sorted(self._members.alive)

    async def __aenter__(self) -> Self:
        """Begin to take part. Raises: TopicBusyError - another worker has this name; ServiceError."""
        try:
            await self._members.join()
        except BaseException:
            await self.close()
            raise
        self._dividing.start(self._divide())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(last_is_finished=kind is None)

    def __aiter__(self) -> AsyncIterator[tuple[Topic, Received]]:
        return self

    async def __anext__(self) -> tuple[Topic, Received]:
        """Return the next message of any topic, with the topic.

        Raises: StopAsyncIteration - it was closed; InvalidMessageFilterError - the hub has no such filter.
        """
        await self._finish_last()
        while True:
            while self._ready:
                if (message := self._take(part := self._ready.popleft())) is not None:
                    return part.topic, message
            if self._failure is not None:
                raise self._failure
            if self._is_closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()

    async def consume(self, topic: Name, seq_id: MessageSeqId) -> None:
        """Move the consume pointer of a topic: `seq_id` and all messages before it are finished.

        Raises: SubscriptionClosedError - this worker does not serve the topic any more, since it lost its connection,
            or another client has taken the subscription by force. Another worker gets the message again.
        """
        part = self._parts.get(topic_of(topic))
        if part is None or part.subscription is None:
            raise SubscriptionClosedError(f"this worker does not serve topic '{show_name(topic_of(topic))}' any more")
        await part.subscription.consume(seq_id)
        part.consumed = max(part.consumed, seq_id.local)
        self._close_if_left(part)

    @property
    def is_open(self) -> bool:
        """Say whether messages may still arrive: not after `close`, nor after an error that ended it."""
        return not self._is_closed and self._failure is None

    async def close(self, *, last_is_finished: bool = True) -> bool:
        """Leave the share: the other workers serve the topics from now on. May be called twice.

        Argument and result are those of Subscription.close, for all subscriptions together.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close_all(last_is_finished))
        return await asyncio.shield(self._closing)  # It goes on if a caller is cancelled.

    async def _close_all(self, last_is_finished: bool) -> bool:
        self._is_closed = True
        self._arrived.set()
        await self._dividing.cancel()
        leaving = asyncio.create_task(self._members.leave())
        self._held = None
        for part in list(self._parts.values()):
            self._give_up(part, last_is_finished=last_is_finished, at_once=True)
        await self._openings.settle()
        for topic in self._best:
            self._late.end((self, topic))
        self._log_lost()
        await leaving
        await self._on_close()
        return self._are_confirmed

    # ------------------------------------------------------------------------------------------------- messages

    async def _finish_last(self) -> None:
        part, self._held = self._held, None
        if part is None or part.subscription is None:
            return
        try:
            await part.subscription.finish_last()
        finally:
            self._close_if_left(part)

    def _take(self, part: _Part) -> Received | None:
        part.is_ready = False
        subscription = part.subscription
        if subscription is None or part.is_leaving or (message := subscription.take()) is None:
            return None
        if subscription.has_messages:
            self._note_ready(part)  # Behind the others, so that each topic has its turn.
        if self._auto_consume:
            self._held = part
        part.handed_out = message.seq_id.local
        return message

    def _note_ready(self, part: _Part) -> None:
        if not part.is_ready:
            part.is_ready = True
            self._ready.append(part)
            self._arrived.set()

    def on_message(self, subscription: Subscription) -> None:
        """For the subscriptions: see Listener."""
        part = self._parts.get(subscription.topic)
        if part is not None:
            self._note_ready(part)

    # ------------------------------------------------------------------------------------------------- division

    def _divide_soon(self) -> None:
        self._changed.set()

    async def _divide(self) -> None:
        """Take and give up topics whenever the workers change."""
        known: frozenset[SubscriberId] = frozenset()
        while True:
            self._changed.clear()
            alive = self._members.alive
            await self._compare(known, alive)
            if alive != known:
                _log.info("%s: %d workers share %d topics", self, len(alive), len(self._best))
            known = alive
            for topic, best in self._best.items():
                part = self._parts.get(topic)
                if best[RANK_BYTES:] == self._me:
                    if part is None:
                        self._serve(topic)
                    continue
                self._late.end((self, topic))
                if part is not None and not part.is_leaving:
                    self._give_up(part)
            await self._changed.wait()

    async def _compare(self, known: frozenset[SubscriberId], alive: frozenset[SubscriberId]) -> None:
        """Find for each topic the worker with the highest rank."""
        new = alive - known
        for number, (topic, best) in enumerate(self._best.items()):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            others = new
            if best[RANK_BYTES:] not in alive:
                best, others = b"", alive
            self._best[topic] = max((best, *(rank(each, topic) for each in others)))

    def _serve(self, topic: Topic) -> None:
        part = self._parts[topic] = _Part(topic)
        part.opening = self._openings.start(self._open(part))

    async def _open(self, part: _Part) -> None:
        """Attach the subscription of a topic; try again until that succeeds, or another worker is to serve it."""
        try:
            while not await self._open_once(part):
                await self._clock.sleep(_PAUSE_S)
        except _FINAL as exc:
            self._failure = exc
            self._arrived.set()
        finally:
            if part.subscription is None:
                self._over(part)
        self._close_if_left(part)

    async def _open_once(self, part: _Part) -> bool:
        await self._asking.acquire()
        part.has_permit = True
        try:
            part.subscription = await self._open_part(part.topic, self)
            self._late.end((self, part.topic))
            if part.subscription.has_messages:
                self._note_ready(part)
            return True
        except (ServiceError, SubscriptionClosedError) as exc:
            if isinstance(exc, _FINAL):
                raise
            self._late.begin((self, part.topic), exc)
            return False
        finally:
            self._return_permit(part)

    def _return_permit(self, part: _Part) -> None:
        if part.has_permit:
            part.has_permit = False
            self._asking.release()

    def on_wait(self, subscription: Subscription) -> None:
        """For the subscriptions: see Listener."""
        part = self._parts.get(subscription.topic)
        if part is not None:
            self._late.end((self, subscription.topic))
            self._return_permit(part)  # Others may ask meanwhile.

    def on_end(self, subscription: Subscription) -> None:
        """For the subscriptions: see Listener. This worker waits in line for the topic again, if it is still to."""
        part = self._parts.get(subscription.topic)
        if part is not None and part.subscription is subscription:
            self._note_lost()
            self._give_up(part, at_once=True)

    def _note_lost(self) -> None:
        """Log lost subscriptions, those of a while together."""
        self._lost += 1
        if self._logging_lost is None:
            self._logging_lost = asyncio.get_running_loop().call_later(_LOST_S, self._log_lost)

    def _log_lost(self) -> None:
        if self._logging_lost is not None:
            _log.warning("%s: %d subscriptions are lost; other clients may have them", self, self._lost)
            self._logging_lost.cancel()
            self._logging_lost, self._lost = None, 0

    def _give_up(self, part: _Part, *, at_once: bool = False, last_is_finished: bool = True) -> None:
        """Leave a topic to another worker: once its message in hand is finished, or `at_once`."""
        was_leaving, part.is_leaving = part.is_leaving, True
        if part.subscription is None:
            if part.opening is not None and not was_leaving:
                part.opening.cancel()
            return
        part.subscription.drop_messages()
        self._close_if_left(part, at_once=at_once, last_is_finished=last_is_finished)

    def _close_if_left(self, part: _Part, *, at_once: bool = False, last_is_finished: bool = True) -> None:
        is_in_hand = self._held is part if self._auto_consume else part.handed_out > part.consumed
        if part.is_leaving and not part.is_closing and (at_once or not is_in_hand):
            part.is_closing = True
            self._openings.start(self._close(part, last_is_finished))

    async def _close(self, part: _Part, last_is_finished: bool) -> None:
        try:
            if part.subscription is not None:
                self._are_confirmed &= await part.subscription.close(last_is_finished=last_is_finished)
        finally:
            self._over(part)

    def _over(self, part: _Part) -> None:
        if self._held is part:
            self._held = None
        if self._parts.get(part.topic) is part:
            del self._parts[part.topic]
        if not self._is_closed:
            self._changed.set()

    def __str__(self) -> str:
        return f"worker '{show_name(self._me)}' of subscriber '{show_name(self._subscriber)}'"
