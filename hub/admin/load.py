"""What a hub has to do: its counters, and how fast they moved over the last minute."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["Load"]

_INTERVAL_S: Final = 5.0
_SLICE: Final = 5000
"""How many subscriptions are looked at before others have a turn."""
_SAMPLES: Final = 13
"""A minute, and the sample that it begins with."""


class Load:
    """Reads the plain counters of a hub every few seconds: no message pays for it."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._samples: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=_SAMPLES)

    def counters(self) -> Mapping[str, int]:
        """Return what only goes up, since the start."""
        return self._hub.counters()

    def levels(self) -> Mapping[str, int]:
        """Return what goes up and down, as it is now."""
        hub = self._hub
        return {
            "topics": len(hub.topics),
            "acquiring_topics": hub.topics.acquiring,
            "channels": len(hub.channels),
            "handshakes": hub.handshakes,
            "attached_subscriptions": sum(len(channel.subscriptions) for channel in hub.channels),
            "unanswered_bytes": hub.requests.unanswered_bytes,
            "unfinished_bytes": hub.frames.bytes,
            "unsent_bytes": hub.unsent.bytes,
            "cache_bytes": hub.tails.bytes,
            "waiting_consume_pointers": hub.subscribing.pointers.waiting,
            "waiting_ledger_deletions": hub.deletions.waiting,
        }

    async def attached_lag(self) -> int:
        """Return how many messages all attached subscriptions together have not consumed."""
        lag = looked_at = 0
        for channel in list(self._hub.channels):
            for subscription in list(channel.subscriptions.values()):
                lag += max(0, subscription.topic.log.last_id - subscription.consumed)
                looked_at += 1
                if looked_at % _SLICE == 0:
                    await asyncio.sleep(0)
        return lag

    def rates_per_s(self) -> tuple[float, Mapping[str, float]]:
        """Return seconds, and how much each counter moved per second in them; a minute, less after the start."""
        now, counters = self._sample()
        then, before = self._samples[0] if self._samples else (now, counters)
        seconds = now - then
        # Of a moment there is no rate.
        return seconds, {key: (counters[key] - before[key]) / seconds if seconds else 0.0 for key in counters}

    async def run(self) -> None:
        """Take samples, until cancelled."""
        while True:
            self._samples.append(self._sample())
            await self._hub.clock.sleep(_INTERVAL_S)

    def _sample(self) -> tuple[float, Mapping[str, int]]:
        return self._hub.clock.monotonic(), self.counters()
