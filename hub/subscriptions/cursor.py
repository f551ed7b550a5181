"""A cursor: the position of the delivery to one attached subscriber.

A cursor that is caught up gets each message as soon as it is part of the topic. Else the cursor advances by itself,
from memory or from the ledgers. It waits for room in its window, for its channel, or for a read.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hedwig.errors import CorruptEntryError, HedwigError
from hedwig.hub.subscriptions.filters import MessageFilter
from hedwig.model import SubscriptionPreferences
from hedwig.wire import DeliveryEncoder, Message

if TYPE_CHECKING:
    from hedwig.hub.connections.channel import Channel
    from hedwig.hub.subscriptions.read_budget import ReadBudget
    from hedwig.hub.topics.topic import Subscription

__all__ = ["Cursor"]

_log = logging.getLogger(__name__)

_BURST_MESSAGES: Final = 256
"""How many messages a cursor takes from memory before it lets other tasks run."""


class Cursor:
    """Delivers the messages of a topic to one subscription on one channel, in order, from the consume pointer on."""

    __slots__ = (
        "_busy",
        "_damaged",
        "_delivery",
        "_encoder",
        "_filter",
        "_filter_name",
        "_last_delivered",
        "_on_passed_over",
        "_unconsumed",
        "_window",
        "bound",
        "channel",
        "is_open",
        "next_id",
        "subscription",
    )

    def __init__(
        self,
        delivery: "ReadBudget",
        subscription: "Subscription",
        channel: "Channel",
        preferences: SubscriptionPreferences,
        message_filter: MessageFilter | None,
        on_passed_over: "Callable[[Subscription], None]",
    ) -> None:
        """`on_passed_over` is called when the consume pointer moves beyond a message that the filter did not accept."""
        self.subscription = subscription
        self.channel = channel
        self.is_open = True
        self.next_id = subscription.consumed + 1
        self._delivery = delivery
        self._encoder = DeliveryEncoder(subscription.topic.name, subscription.subscriber)
        self.bound = preferences.message_bound or 0
        window = preferences.message_window_size
        self._window = delivery.default_window if window is None else window
        self._unconsumed: deque[int] | None = deque() if self._window else None
        """The delivered messages after the consume pointer, which fill the window."""
        self._filter = message_filter
        self._filter_name = preferences.message_filter
        self._last_delivered = subscription.consumed
        self._on_passed_over = on_passed_over
        self._busy = False
        """Whether a read, or a callback of the event loop, will continue this cursor."""
        self._damaged: tuple[int, float] | None = None
        """The damaged message before which this cursor waits, and since when."""

    def offer(self, local: int, stored: bytes) -> None:
        """Deliver the newest message of the topic, if it is the next one and nothing holds the cursor up."""
        if self.next_id == local and not self._busy and not self._is_held_up():
            self._push(local, stored)
        # Else this cursor is behind, and reaches the message when it goes on.

    def go_on(self) -> None:
        """Deliver the messages that can be delivered now."""
        if self._busy:
            return
        log = self.subscription.topic.log
        for _ in range(_BURST_MESSAGES):
            if self.next_id > log.last_id or self._is_held_up():
                return
            self._skip_to_bound(log.last_id)
            stored = log.recent(self.next_id)
            if stored is None:
                self._busy = True
                self._delivery.tasks.start(self._read_on())
                return
            self._push(self.next_id, stored)
        self._busy = True
        asyncio.get_running_loop().call_soon(self._next_burst)

    def consumed(self, local: int) -> None:
        """Record the moved consume pointer, which may make room in the window."""
        if self._filter is not None and local >= self._last_delivered:
            self.subscription.pass_over(self.next_id - 1)
        if self._unconsumed is None:
            return
        was_full = len(self._unconsumed) >= self._window
        while self._unconsumed and self._unconsumed[0] <= local:
            self._unconsumed.popleft()
        if was_full and len(self._unconsumed) < self._window:
            self.go_on()

    def close(self) -> None:
        """Deliver nothing more."""
        self.is_open = False
        self.channel.forget_waiting(self)

    def _is_held_up(self) -> bool:
        if not self.is_open:
            return True
        if self.channel.is_full:
            self.channel.wait_for_room(self)
            return True
        return self._unconsumed is not None and len(self._unconsumed) >= self._window

    def _skip_to_bound(self, last_id: int) -> None:
        if self.bound and self.next_id <= last_id - self.bound:
            self.next_id = last_id - self.bound + 1

    def _push(self, local: int, stored: bytes) -> None:
        self.next_id = local + 1
        if self._filter is not None:
            if not self._wants(stored):
                # Else an unwanted message would count as lag, and be kept, until a wanted one is consumed.
                if self.subscription.consumed >= self._last_delivered and self.subscription.pass_over(local):
                    self._on_passed_over(self.subscription)
                return
            self._last_delivered = local
        # A late CONSUME of a former connection may have moved the pointer ahead. Then no later CONSUME would remove
        # this message from the window again.
        if self._unconsumed is not None and local > self.subscription.consumed:
            self._unconsumed.append(local)
        self.channel.deliver(self._encoder.encode(stored))
        self._delivery.delivered += 1

    def _wants(self, stored: bytes) -> bool:
        assert self._filter is not None
        try:
            return self._filter.accepts(Message.decode(stored))
        except Exception as exc:
            # A subscriber is promised each message that the filter accepts, and a broken filter cannot tell.
            _log.exception(
                "the message filter %r of %s failed with %r; the message is delivered",
                self._filter_name,
                self.subscription,
                exc,
            )
            return True

    def _next_burst(self) -> None:
        self._busy = False
        self.go_on()

    async def _read_on(self) -> None:
        """Read messages that are not in memory any more, and deliver them."""
        try:
            await self._read_and_push()
        except CorruptEntryError as exc:
            if not self._skips_damaged(exc):
                await self._delivery.pause_after_failure()
        except (HedwigError, TimeoutError) as exc:
            _log.warning("%s: message %d cannot be read: %s", self.subscription, self.next_id, exc)
            await self._delivery.pause_after_failure()
        except Exception:
            _log.exception("%s: message %d cannot be read", self.subscription, self.next_id)
            await self._delivery.pause_after_failure()
        finally:
            self._busy = False
        self.go_on()

    def _skips_damaged(self, exc: CorruptEntryError) -> bool:
        """Skip the next message if it has been damaged for long enough; return whether it was skipped."""
        if self._damaged is None or self._damaged[0] != self.next_id:
            self._damaged = self.next_id, self._delivery.now()
        if not self._delivery.is_lost(self._damaged[1]):
            _log.warning("%s: message %d is damaged; the hub reads it again: %s", self.subscription, self.next_id, exc)
            return False
        _log.error("%s goes on without message %d, which is lost to it: %s", self.subscription, self.next_id, exc)
        self._delivery.lost_messages += 1
        self.next_id += 1
        return True

    async def _read_and_push(self) -> None:
        topic = self.subscription.topic
        first = topic.log.first_id
        if self.next_id < first:
            _log.warning("%s misses messages %d to %d: they were deleted", self.subscription, self.next_id, first - 1)
            self.next_id = first
        messages_max = self._delivery.read_messages_max
        if self._unconsumed is not None:
            consumed = max(0, self.subscription.consumed - self.next_id + 1)
            messages_max = max(1, min(messages_max, consumed + self._window - len(self._unconsumed)))
        for stored in await self._delivery.read(topic.log, self.next_id, messages_max, self.channel.room):
            if self._is_held_up():
                return
            self._push(self.next_id, stored)
