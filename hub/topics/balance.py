"""Balance: topics that a hub gives up because other hubs should own them.

A hub with more than its share gives up a few topics at a time. The next hub that is asked for one chooses an owner with
fewer. The hub computes its excess from loads that it has just read, and from topics given up but not claimed yet.

A draining hub gives up all topics and claims no more. So an operator can stop it without clients noticing. It gives up
none while no other hub takes topics.
"""

import asyncio
import itertools
import logging
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from hedwig.clock import Clock
from hedwig.errors import ServiceDownError
from hedwig.hub.liveness import DRAINING_LOAD, ClusterLiveness
from hedwig.hub.options.cluster_options import ClusterOptions
from hedwig.hub.topics.given_up import GivenUp
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.hub.topics.topics import Topics

__all__ = ["Balance"]

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_FRESH_S: Final = 1.0
"""How old the hub's copy of the other loads may be when it decides by them.

A load itself may be older than that, because its hub writes it at intervals.
"""
_SLICES: Final = 10
"""A drain releases the topics of each second in N lots, so that not all their subscribers move to other hubs at once.
"""


class Balance:
    """Announces the load of a hub, and keeps it to its share. The hub runs `run` for as long as it lives."""

    def __init__(self, options: ClusterOptions, liveness: ClusterLiveness, clock: Clock, random: Random) -> None:
        self._options = options
        self._liveness = liveness
        self._clock = clock
        self._random = random
        self._given_up = GivenUp(clock)
        self._topics: Topics | None = None
        self._is_frozen: Callable[[], bool] = lambda: False
        self.is_draining = False
        self._is_closing = False

    def attach(self, topics: Topics, is_frozen: Callable[[], bool] | None = None) -> None:
        """Use the topics of another incarnation; give up none while `is_frozen` returns true."""
        self._topics = topics
        self._is_frozen = is_frozen or self._is_frozen
        topics.claims_nothing_new = self.is_draining
        self.announce()

    def drain(self, state: bool) -> None:
        """Start or end a drain: give up all topics, and claim no more."""
        self.is_draining = state
        if self._topics is not None:
            self._topics.claims_nothing_new = state
        self.announce(at_once=True)

    def close(self) -> None:
        """Announce that this hub takes no topics from now on, because it is closing. `Hub.close` releases its topics.

        Other hubs learn of it when they next read the loads. They pass this hub over, as they do a draining hub.
        """
        self._is_closing = True
        self.announce(at_once=True)

    async def tell_others(self) -> None:
        """Make the other hubs learn of the end at once, before clients connect to them; call `close` first.

        Clients of the original give up for a while when hubs redirect them back and forth.
        """
        try:
            await self._liveness.leave()
        except ServiceDownError as exc:
            _log.info("%s; they read it with the other loads", exc)

    @property
    def others(self) -> int:
        """How many other hubs take topics, as far as this hub knows."""
        return 0 if self._mine is None else len(self._loads_of_others(self._mine))

    @property
    def _mine(self) -> str | None:
        return self._liveness.registration.hub.address if self._liveness.is_proven() else None

    def _loads_of_others(self, mine: str) -> list[int]:
        return [hub.load for hub in self._liveness.live if hub.info.address != mine and not hub.is_draining]

    def announce(self, *, at_once: bool = False) -> None:
        """Set the load, which the hub writes with its next beat, or at once."""
        topics = len(self._topics) if self._topics is not None else 0
        takes_none = self.is_draining or self._is_closing
        self._liveness.set_load(DRAINING_LOAD if takes_none else topics, at_once=at_once)

    async def run(self) -> None:
        """Announce the load and give up topics as needed, every second, until cancelled."""
        next_look = self._clock.monotonic() + self._options.rebalance_interval_s
        while True:
            await self._clock.sleep(_LOOK_S / _SLICES if self.is_draining else _LOOK_S)
            try:
                self.announce()
                if self._is_closing or self._is_frozen():
                    continue
                if self.is_draining:
                    # If no other hub takes topics, they would only come back, and their subscribers be cut off in vain.
                    if self.others:
                        await self._give_up(max(1, self._options.drain_rate // _SLICES))
                elif self._options.rebalance_interval_s and self._clock.monotonic() >= next_look:
                    next_look = self._clock.monotonic() + self._options.rebalance_interval_s
                    await self._liveness.refresh(_FRESH_S)
                    if number := self.excess():
                        self._given_up.note(number)
                        await self._give_up(number)
            except ServiceDownError as exc:
                _log.info("no topics are given up for the balance now: %s", exc)
            except Exception:
                _log.exception("topics could not be given up; the hub tries again")

    def excess(self) -> int:
        """Return how many topics this hub should give up now: those above the mean, if they exceed the tolerance."""
        if self._topics is None:
            return 0
        mine = len(self._topics)
        others = [] if self._mine is None else self._loads_of_others(self._mine)
        if not others:
            return 0
        mean = (mine + sum(others) + self._given_up.unclaimed(sum(others))) / (1 + len(others))
        if mine <= max(1, math.ceil(mean * (1 + self._options.rebalance_tolerance))):
            return 0
        return min(mine - max(1, math.ceil(mean)), self._options.rebalance_topics_max)

    async def _give_up(self, number: int) -> None:
        """Release at most `number` topics."""
        topics = self._topics
        if topics is None or number <= 0 or not len(topics):
            return
        serving = (topic for topic in topics if topic.is_serving)
        if self.is_draining:
            # All topics go, so any will do. To scan a million topics for every lot would take all the time. `release`,
            # not `leave`: a drained topic is left to other hubs only while the drain lasts.
            chosen, give_up = list(itertools.islice(serving, number)), topics.release
        else:
            chosen, give_up = self._choose(list(serving), number), topics.leave
        _log.info("gives up %d of %d topics", len(chosen), len(topics))
        await asyncio.gather(*(give_up(topic) for topic in chosen))

    def _choose(self, serving: Sequence[OwnedTopic], number: int) -> list[OwnedTopic]:
        """Return `number` random topics, first those without attached subscribers."""
        chosen = self._random.sample(serving, min(len(serving), 4 * number))
        chosen.sort(key=lambda topic: topic.has_attached)
        return chosen[:number]
