"""The load of a hub: its counters, and their rates over the last minute."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["LoadSampler"]

_INTERVAL_S: Final = 5.0
_SLICE: Final = 5000
"""How many subscriptions `attached_lag` visits before it lets other tasks run."""
_SAMPLES: Final = 13
"""The samples of a minute, and the one at its start."""


class LoadSampler:
    """Reads the plain counters of a hub every 5 s, so that no message pays for it."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._samples: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=_SAMPLES)

    def counters(self) -> Mapping[str, int]:
        """Return the counters that only grow, since the start of the hub."""
        return self._hub.counters()

    def levels(self) -> Mapping[str, int]:
        """Return the present values that may rise and fall."""
        hub = self._hub
        return {
            "topics": len(hub.topics),
            "acquiring_topics": hub.topics.acquiring,
            "channels": len(hub.channels),
            "handshakes": hub.handshakes,
            "attached_subscriptions": sum(len(channel.subscriptions) for channel in hub.channels),
            "standbys": hub.subscribing.standbys.count,
            "unanswered_bytes": hub.requests.unanswered_bytes,
            "unfinished_bytes": hub.frames.bytes,
            "unsent_bytes": hub.unsent.bytes,
            "cache_bytes": hub.tails.bytes,
            "waiting_consume_pointers": hub.subscribing.pointers.waiting,
            "waiting_ledger_deletions": hub.deletions.waiting,
        }

    async def attached_lag(self) -> int:
        """Return the sum of the unconsumed messages of all attached subscriptions."""
        lag = looked_at = 0
        for channel in list(self._hub.channels):
            for subscription in list(channel.subscriptions.values()):
                lag += max(0, subscription.topic.log.last_id - subscription.consumed)
                looked_at += 1
                if looked_at % _SLICE == 0:
                    await asyncio.sleep(0)
        return lag

    def rates_per_s(self) -> tuple[float, Mapping[str, float]]:
        """Return a number of seconds, and the rate of each counter in them; a minute, or less after the start."""
        now, counters = self._sample()
        then, before = self._samples[0] if self._samples else (now, counters)
        seconds = now - then
        # Over zero seconds there is no rate.
        return seconds, {key: (counters[key] - before[key]) / seconds if seconds else 0.0 for key in counters}

    async def run(self) -> None:
        """Take samples, until cancelled."""
        while True:
            self._samples.append(self._sample())
            await self._hub.clock.sleep(_INTERVAL_S)

    def _sample(self) -> tuple[float, Mapping[str, int]]:
        return self._hub.clock.monotonic(), self.counters()
