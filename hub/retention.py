"""Retention: ledgers whose messages everybody has consumed are deleted, whole."""

import asyncio
import logging
from typing import Final

from hedwig.errors import HedwigError
from hedwig.names import show_name
from hub.options import HubOptions
from hub.subscribing import Subscribing
from hub.topic import OwnedTopic
from hub.topics import Topics
from metadata import SubscriptionDataManager

__all__ = ["Retention"]

_log = logging.getLogger(__name__)

_SLICE: Final = 5000
"""How many topics are looked at before others have a turn."""


class Retention:
    """Looks through the owned topics every so often, and through one when it is released."""

    def __init__(
        self, options: HubOptions, topics: Topics, manager: SubscriptionDataManager, subscribing: Subscribing
    ) -> None:
        self._options = options
        self._topics = topics
        self._manager = manager
        self._subscribing = subscribing
        self.deleted_messages = 0

    async def detach_all(self, topic: OwnedTopic) -> None:
        """As Caretaker.detach_all."""
        await self._subscribing.detach_all(topic)

    async def collect(self, topic: OwnedTopic) -> int:
        """Delete the closed ledgers of `topic` below the lowest stored consume pointer of all its subscriptions.

        The subscriptions are read anew each time: one that was made, or moved, by somebody else counts.

        Raises: MetadataError, LedgerError, TimeoutError - and nothing that is needed is gone.
        """
        if not topic.log.has_closed:
            return 0
        topic.is_to_collect = False
        last_id = topic.log.last_id
        # A subscription that is being made may be missed by the reading, and then be there. One that is begun later
        # starts at `last_id` or behind it.
        starting = self._subscribing.lowest_start(topic)
        lowest = last_id if starting is None else min(last_id, starting)
        bound: int | None = 0
        async for _, found in self._manager.read_subscriptions(topic.name):
            data = found.value
            lowest = min(lowest, data.state.consumed.local if data.state is not None else 0)
            theirs = data.preferences.message_bound if data.preferences is not None else None
            bound = max(bound, theirs) if bound is not None and theirs else None
        if bound and starting is None:  # Everybody has one, so nobody gets anything that is older than the largest.
            lowest = max(lowest, last_id - bound)
        deleted = await topic.log.delete_consumed(lowest)
        self.deleted_messages += deleted
        return deleted

    async def sweep(self) -> None:
        """Look through all owned topics in which a stored consume pointer moved, or a ledger was closed."""
        for index, topic in enumerate(list(self._topics)):
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            if not (topic.is_to_collect and topic.is_serving and topic.log.has_closed):
                continue
            try:
                await self.collect(topic)
            except (HedwigError, TimeoutError) as exc:
                topic.is_to_collect = True
                _log.warning("topic '%s': consumed ledgers stay for now: %s", show_name(topic.name), exc)
