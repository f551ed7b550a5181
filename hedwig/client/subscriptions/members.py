"""The workers of a share: which of them are alive.

Each worker says in a topic of the share, again and again, that it is there. All of them read that topic. A worker is
gone once another has heard itself `_MISSED_MAX` times since it heard that worker. No clock counts: while the topic is
not served, nobody hears anything, and nobody is gone.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from hedwig.client.subscriptions.subscription import Subscription
from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import HedwigError, InvalidArgumentError, ServiceError, SubscriptionClosedError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.names import show_name
from hedwig.wire import Message, Received

__all__ = ["RANK_BYTES", "Members", "MembersClient", "rank"]

_log = logging.getLogger(__name__)

RANK_BYTES: Final = 8
_BEAT_S: Final = 0.5
"""How often a worker says that it is there."""
_BEATS_PER_S: Final = 50
"""All workers together say it about so often, since each of them reads it."""
_MISSED_MAX: Final = 4
_FORGOTTEN_AFTER: Final = 120
"""After so many beats, the subscription of a worker that is gone is deleted. It may come back until then."""
_KEPT_MAX: Final = 256
"""The messages that the topic keeps for a worker that is away."""
_HERE: Final = "here"
_GONE: Final = "gone"
_RUN: Final = "run"
_PURPOSE: Final = "purpose"
_PAUSE_S: Final = 1.0
_FAREWELL_S: Final = 2.0


class MembersClient(Protocol):
    """The client, as its part in a share uses it."""

    async def publish(self, topic: Topic, message: Message) -> MessageSeqId: ...
    async def unsubscribe(self, topic: Topic, subscriber: SubscriberId) -> None: ...
    def subscribe(
        self, topic: Topic, subscriber: SubscriberId, *, preferences: SubscriptionPreferences
    ) -> Awaitable[Subscription]: ...


class Members:
    """Takes part in a share as the worker `me`, and knows the others. `on_change` is called after each change."""

    def __init__(
        self,
        client: MembersClient,
        topic: Topic,
        me: SubscriberId,
        purpose: bytes,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        """`purpose` stands for what the workers share. Those with another purpose do not count."""
        self._client = client
        self._purpose = purpose
        self._topic = topic
        self._me = me
        self._clock = clock
        self._on_change = on_change
        self._run = secrets.token_bytes(8)
        """Sets the messages of this worker apart from those of a former one with its name."""
        self._missed: dict[SubscriberId, int] = {}
        """How often this worker has heard itself since it heard each of the others, also of those that are gone."""
        self._may_be_in = False
        """Whether the topic may have a subscription of this worker, also if `join` was cancelled."""
        self._was_heard = False
        self._are_known = asyncio.Event()
        """Set once this worker has heard itself twice. The others have answered the first time."""
        self._beat_now = asyncio.Event()
        self._tasks = Tasks()

    @property
    def alive(self) -> frozenset[SubscriberId]:
        """The workers that are alive, this one included."""
        return frozenset(each for each, missed in self._missed.items() if missed < _MISSED_MAX) | {self._me}

    async def join(self) -> None:
        """Take part; return once the other workers are known.

        Raises: TopicBusyError - another worker has this name; ServiceError.
        """
        self._may_be_in = True
        try:
            subscription = await self._open()
        except ServiceError as exc:
            self._may_be_in = exc.happened != "no"
            raise
        self._tasks.start(self._listen(subscription))
        self._tasks.start(self._beat())
        await self._are_known.wait()

    async def leave(self) -> None:
        """Tell the others that this worker is gone, so that they need not notice it by themselves."""
        if not self._may_be_in:
            return
        await self._tasks.cancel()
        with contextlib.suppress(HedwigError, TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await self._client.publish(self._topic, self._message(_GONE))
                await self._client.unsubscribe(self._topic, self._me)

    async def _open(self) -> Subscription:
        preferences = SubscriptionPreferences(message_bound=_KEPT_MAX)
        return await self._client.subscribe(self._topic, self._me, preferences=preferences)

    def _message(self, kind: str) -> Message:
        return Message(self._me, properties={_RUN: self._run, _PURPOSE: self._purpose}, message_type=kind)

    async def _beat(self) -> None:
        """Say that this worker is there, again and again, but not before the last time has an outcome."""
        while True:
            self._beat_now.clear()
            with contextlib.suppress(ServiceError):
                await self._client.publish(self._topic, self._message(_HERE))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(_BEAT_S, len(self._missed) / _BEATS_PER_S)):
                    await self._beat_now.wait()

    async def _listen(self, subscription: Subscription) -> None:
        while True:
            try:
                async with subscription:
                    async for message in subscription:
                        with contextlib.suppress(InvalidArgumentError):  # A stranger's, whose properties are no text.
                            self._hear(message)
            except (ServiceError, SubscriptionClosedError) as exc:
                _log.info("share '%s': its topic is not read for now: %s", show_name(self._topic), exc)
            subscription = await self._open_again()

    async def _open_again(self) -> Subscription:
        """Open the subscription anew: another worker may have deleted it, since it took this one for gone."""
        while True:
            await self._clock.sleep(_PAUSE_S)
            try:
                return await self._open()
            except ServiceError as exc:
                _log.info("share '%s': its topic is not read for now: %s", show_name(self._topic), exc)

    def _hear(self, message: Received) -> None:
        worker, properties = SubscriberId(message.body), message.properties
        if worker == self._me:
            if properties.get(_RUN) == self._run:
                self._hear_itself()
        elif properties.get(_PURPOSE) != self._purpose:
            return
        elif message.message_type == _GONE:
            if self._missed.pop(worker, _MISSED_MAX) < _MISSED_MAX:
                self._on_change()
        else:
            is_new = self._missed.get(worker, _MISSED_MAX) >= _MISSED_MAX
            self._missed[worker] = 0
            if is_new:
                self._beat_now.set()  # It knows nobody yet.
                self._on_change()

    def _hear_itself(self) -> None:
        gone = 0
        for worker, missed in list(self._missed.items()):
            self._missed[worker] = missed + 1
            gone += missed + 1 == _MISSED_MAX
            if missed + 1 >= _FORGOTTEN_AFTER:
                del self._missed[worker]
                if max(self.alive, key=lambda each: rank(each, worker)) == self._me:
                    self._tasks.start(self._delete(worker))
        if gone:
            self._on_change()
        if self._was_heard:
            self._are_known.set()
        self._was_heard = True

    async def _delete(self, worker: SubscriberId) -> None:
        """Delete the subscription that a worker has left behind. Else the topic would keep messages for it."""
        with contextlib.suppress(HedwigError):
            await self._client.unsubscribe(self._topic, worker)
        _log.info("share '%s': worker '%s' is forgotten", show_name(self._topic), show_name(worker))


def rank(worker: bytes, name: bytes) -> bytes:
    """Return the rank of a worker for a name: `RANK_BYTES` bytes, and then the worker itself.

    The worker with the highest one is to serve the name. So only the names of a worker that goes are given to others,
    and one that comes takes its share from each.
    """
    key = hashlib.blake2b(worker, digest_size=16).digest()
    return hashlib.blake2b(name, digest_size=RANK_BYTES, key=key).digest() + worker
