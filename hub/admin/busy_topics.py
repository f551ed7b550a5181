"""The topics of a hub with the most publishes. The hub finds them on request, so that no publish pays for it."""

import asyncio
import heapq
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hedwig.hub.topics.topic import OwnedTopic
from hedwig.model import Topic
from hedwig.names import name_fields

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["BusyTopics"]

_SLICE: Final = 5000
"""How many topics a look visits before it lets other tasks run."""
_RECENT_S: Final = 60
_KEPT_MAX: Final = 100_000
"""For how many topics the last id is kept from one look to the next; a few megabytes."""


class BusyTopics:
    """Compares the last ids of topics with those of the look before.

    It visits topics that have attached subscribers, or were used within the last minute.
    """

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._before: dict[Topic, int] = {}
        self._at: float | None = None

    async def look(self, limit: int, sees: Callable[[Topic], bool]) -> Mapping[str, Any]:
        """Return at most `limit` of the busiest topics that somebody `sees`.

        They come by messages per second since the look before, then by lag. The rate is None at the first look, and for
        a topic that the look before did not visit.
        """
        now, before_at, before = self._hub.clock.monotonic(), self._at, self._before
        seconds = None if before_at is None else now - before_at
        recent = self._hub.topics.now() - _RECENT_S
        kept: dict[Topic, int] = {}
        rows: list[tuple[float, int, Topic, OwnedTopic]] = []
        is_cut = False
        for index, topic in enumerate(list(self._hub.topics)):
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            if topic.used_at < recent and not topic.has_attached:
                continue
            if len(kept) == _KEPT_MAX:
                is_cut = True
                break
            last_id = kept[topic.name] = topic.log.last_id
            rate = (last_id - before[topic.name]) / seconds if seconds and topic.name in before else -1.0
            if not sees(topic.name):
                continue
            entry = (rate, _attached_lag(topic), topic.name, topic)
            if len(rows) < limit:
                heapq.heappush(rows, entry)
            elif entry[:3] > rows[0][:3]:
                heapq.heapreplace(rows, entry)
        self._before, self._at = kept, now
        rows.sort(key=lambda row: row[:3], reverse=True)
        return {
            "topics": [
                {
                    **name_fields(name),
                    "publishes_per_s": None if rate < 0 else round(rate, 3),
                    "attached": sum(each.cursor is not None for each in (topic.subscriptions or {}).values()),
                    "attached_lag_messages": lag,
                    "last_id": topic.log.last_id,
                }
                for rate, lag, name, topic in rows
            ],
            "rates_over_s": None if seconds is None else round(seconds, 3),
            "is_cut": is_cut,
        }


def _attached_lag(topic: OwnedTopic) -> int:
    """Return the sum of the unconsumed messages of all attached subscriptions of a topic."""
    last_id = topic.log.last_id
    attached = (each for each in (topic.subscriptions or {}).values() if each.cursor is not None)
    return sum(max(0, last_id - each.consumed) for each in attached)
