"""New subscriptions on their way to the metadata: those that are asked for at the same time travel together.

One record costs a store much more alone than in company, and a hub that restarts gets thousands at once. What waits is
bounded by the requests that the hub admits.
"""

import asyncio
from typing import Final

from hedwig.errors import HedwigError, MetadataUnavailableError
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.versions import NEW, Version
from metadata import Outcome, RecordKey, SubscriptionDataManager, Write

__all__ = ["Creations"]

_BATCH: Final = 256
_BATCHES_AT_ONCE: Final = 8


class Creations:
    """Creates subscriptions, many in one operation of the store."""

    def __init__(self, manager: SubscriptionDataManager) -> None:
        self._manager = manager
        self._waiting: list[tuple[Write[SubscriptionData], asyncio.Future[Version]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def create(self, topic: Topic, subscriber: SubscriberId, data: SubscriptionData) -> Version:
        """Create a subscription. Raises as SubscriptionDataManager.create_subscription_data."""
        created: asyncio.Future[Version] = asyncio.get_running_loop().create_future()
        self._waiting.append((Write(RecordKey(topic, subscriber), data, NEW), created))
        if len(self._waiting) == 1:
            # Whatever else this turn of the event loop brings goes along.
            asyncio.get_running_loop().call_soon(self._begin)
        return await created

    def _begin(self) -> None:
        while self._waiting and len(self._running) < _BATCHES_AT_ONCE:
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            task = asyncio.get_running_loop().create_task(self._carry_out(batch))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._begin()

    async def _carry_out(self, batch: list[tuple[Write[SubscriptionData], asyncio.Future[Version]]]) -> None:
        outcomes: list[Outcome[SubscriptionData]] = []
        try:
            outcomes = await self._manager.apply([write for write, _ in batch])
        except HedwigError as exc:
            outcomes = [Outcome(error=exc)] * len(batch)
        finally:
            if not outcomes:
                outcomes = [Outcome(error=MetadataUnavailableError("the hub is shutting down"))] * len(batch)
            for (_, created), outcome in zip(batch, outcomes, strict=True):
                if created.done():
                    continue
                if outcome.error is None:
                    created.set_result(outcome.written())
                else:
                    created.set_exception(outcome.error)
