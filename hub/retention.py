"""Retention: the hub deletes whole ledgers whose messages all subscribers have consumed."""

import asyncio
import logging
from contextlib import AbstractContextManager
from typing import Final

from hedwig.errors import HedwigError
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.options.options import HubOptions
from hedwig.hub.subscriptions.needs import Needs
from hedwig.hub.subscriptions.subscribing import Subscribing
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.hub.topics.topics import Topics
from hedwig.metadata import SubscriptionDataManager
from hedwig.names import show_name

__all__ = ["Retention"]

_log = logging.getLogger(__name__)

_SLICE: Final = 5000
"""How many topics a sweep visits before it lets other tasks run."""


class Retention:
    """Deletes consumed ledgers of all owned topics at intervals, and of one topic when it is released."""

    def __init__(
        self,
        options: HubOptions,
        topics: Topics,
        manager: SubscriptionDataManager,
        subscribing: Subscribing,
        ledgers: LedgerStore,
    ) -> None:
        self._options = options
        self._topics = topics
        self._manager = manager
        self._subscribing = subscribing
        self._ledgers = ledgers
        self._is_short = False
        self.deleted_messages = 0

    def parting(self, topic: OwnedTopic) -> AbstractContextManager[None]:
        """As Caretaker.parting."""
        return self._subscribing.parting(topic)

    async def detach_all(self, topic: OwnedTopic) -> None:
        """As Caretaker.detach_all."""
        await self._subscribing.detach_all(topic)

    async def collect(self, topic: OwnedTopic) -> int:
        """Delete the closed ledgers of `topic` that no subscriber needs any more, and merge small ones that stay.

        A message is needed if it is after the stored consume pointer of any subscription. It is also needed if the hub
        has not sent it to an attached subscriber yet, which may have consumed ahead of that. The hub reads the
        subscriptions each time, because another program may have made or moved one.

        Raises: MetadataError, LedgerError, TimeoutError - and no needed message is deleted.
        """
        if not (topic.log.has_closed or self._is_short):
            return 0
        topic.is_to_collect = False
        starts = self._subscribing.starts
        with starts.watch(topic.name) as watch:
            needs = Needs(topic.log.last_id)
            async for _, record in self._manager.read_subscriptions(topic.name):
                data = record.value
                needs.add(data.consumed, data.preferences.message_bound if data.preferences is not None else None)
            async with starts.deletion(topic.name):
                lowest = needs.lowest
                # From here on no pointer moves back, and a new session starts from a pointer read above, or later.
                if watch.lowest is not None and watch.lowest < needs.last_id:
                    # The scan may have missed this subscription, or read it before its pointer moved back.
                    needs.add(watch.lowest, None)
                for cursor in topic.cursors():
                    needs.add(cursor.next_id - 1, cursor.bound)
                if needs.lowest < lowest:
                    topic.is_to_collect = True  # Look again: this need may end without a move of a pointer.
                if self._is_short and needs.lowest >= topic.log.last_id:
                    await topic.log.end_ledger()
                deleted = await topic.log.delete_consumed(needs.lowest)
        if topic.log.is_keeping:
            topic.is_to_collect = True
        self.deleted_messages += deleted
        if not self._is_short:
            await self._merge(topic)
        return deleted

    async def _merge(self, topic: OwnedTopic) -> None:
        try:
            if await topic.log.merge_small():
                topic.is_to_collect = True
        except (HedwigError, TimeoutError) as exc:
            topic.is_to_collect = True
            _log.warning("topic '%s': small ledgers are not merged for now: %s", show_name(topic.name), exc)

    async def sweep(self) -> None:
        """Collect all owned topics in which a stored consume pointer moved or a ledger was closed."""
        await self._look_for_space()
        for index, topic in enumerate(list(self._topics)):
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            if not (topic.is_to_collect and topic.is_serving and (topic.log.has_closed or self._is_short)):
                continue
            try:
                await self.collect(topic)
            except (HedwigError, TimeoutError) as exc:
                topic.is_to_collect = True
                _log.warning("topic '%s': consumed ledgers stay for now: %s", show_name(topic.name), exc)

    async def _look_for_space(self) -> None:
        """Check whether the disk is full. Then open ledgers count too, because no append succeeds."""
        was_short, self._is_short = self._is_short, await self._is_full()
        if self._is_short and not was_short:
            for topic in self._topics:
                topic.is_to_collect = True

    async def _is_full(self) -> bool:
        # When bookies are missing, an open ledger goes on, and ending it would free nothing.
        return not self._options.is_clustered and (await self._ledgers.stats()).is_full
