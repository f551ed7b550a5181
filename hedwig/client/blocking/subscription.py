"""A subscription and a share for scripts: blocking iterators over the asyncio ones."""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from hedwig.client.blocking.background_call import BackgroundCall
from hedwig.client.blocking.reader import BlockingCall, BlockingReader
from hedwig.client.subscriptions.share import Share
from hedwig.client.subscriptions.subscription import Subscription
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.names import Name
from hedwig.wire import Received

__all__ = ["BlockingShare", "BlockingSubscription"]


class BlockingSubscription(BlockingReader[Received]):
    """An open subscription. Consuming and reconnecting work as in `hedwig.client.Subscription`."""

    def __init__(
        self,
        subscription: Subscription,
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[BackgroundCall[Any]], None],
        call: BlockingCall,
        on_close: Callable[["BlockingSubscription"], None],
    ) -> None:
        super().__init__(subscription, loop, begin, call, on_close)
        self._subscription = subscription

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

    def consume(self, seq_id: MessageSeqId) -> None:
        """Move the consume pointer: `seq_id` and all messages before it are finished. See Subscription.consume."""
        self._call(partial(self._subscription.consume, seq_id))


class BlockingShare(BlockingReader[tuple[Topic, Received]]):
    """The part of a share that falls to this worker: pairs of topic and message. See `hedwig.client.Share`."""

    def __init__(
        self,
        share: Share,
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[BackgroundCall[Any]], None],
        call: BlockingCall,
        on_close: Callable[["BlockingShare"], None],
    ) -> None:
        super().__init__(share, loop, begin, call, on_close)
        self._share = share

    @property
    def topics(self) -> Collection[Topic]:
        """Return the topics that this worker serves now."""

        async def look() -> Collection[Topic]:
            return self._share.topics

        return self._call(look)

    def consume(self, topic: Name, seq_id: MessageSeqId) -> None:
        """Move the consume pointer of a topic. Raises SubscriptionClosedError; see Share.consume."""
        self._call(partial(self._share.consume, topic, seq_id))
