"""Balance: topics that a hub gives up because others should have them.

A hub with more than its share gives a few up at a time, and whoever is asked for them next chooses a hub with less. How
much it has above its share is told from loads that were just read, and from what it gave up and nobody has yet. A hub
that is drained gives all of them up and claims no more, so that it can be stopped without anybody noticing; not
while there is no other that takes them.
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
"""How old the loads of the others may be when a hub decides on them, beside what they wait for their hubs to tell."""
_SLICES: Final = 10
"""A second's topics of a drain go in so many lots, so that their subscribers do not all come to the others at once."""


class Balance:
    """Announces the load of a hub, and keeps it to its share. `run` is to be run for as long as the hub lives."""

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
        """Go on with the topics of another incarnation; none is given up while `is_frozen` says so."""
        self._topics = topics
        self._is_frozen = is_frozen or self._is_frozen
        topics.claims_nothing_new = self.is_draining
        self.announce()

    def drain(self, state: bool) -> None:
        """Begin to give all topics up, and claim no more, or end that."""
        self.is_draining = state
        if self._topics is not None:
            self._topics.claims_nothing_new = state
        self.announce(at_once=True)

    def close(self) -> None:
        """Announce that this hub takes no topics from now on, since it ends; it is its end that releases what it has.

        Others hear of it when they next read the loads, and pass it over, as one that is drained.
        """
        self._is_closing = True
        self.announce(at_once=True)

    async def tell_others(self) -> None:
        """After `close`, have the others hear of it at once, before clients come to them.

        Clients of the original give up for a while when they are sent back and forth.
        """
        try:
            await self._liveness.leave()
        except ServiceDownError as exc:
            _log.info("%s; they read it with the other loads", exc)

    @property
    def others(self) -> int:
        """How many other hubs there are, as far as is known, that take topics."""
        return 0 if self._mine is None else len(self._loads_of_others(self._mine))

    @property
    def _mine(self) -> str | None:
        return self._liveness.registration.hub.address if self._liveness.is_proven() else None

    def _loads_of_others(self, mine: str) -> list[int]:
        return [hub.load for hub in self._liveness.live if hub.info.address != mine and not hub.is_draining]

    def announce(self, *, at_once: bool = False) -> None:
        """Tell the load, which goes out with the next proof of life, or with one now."""
        topics = len(self._topics) if self._topics is not None else 0
        takes_none = self.is_draining or self._is_closing
        self._liveness.set_load(DRAINING_LOAD if takes_none else topics, at_once=at_once)

    async def run(self) -> None:
        """Look every second, until cancelled."""
        next_look = self._clock.monotonic() + self._options.rebalance_interval_s
        while True:
            await self._clock.sleep(_LOOK_S / _SLICES if self.is_draining else _LOOK_S)
            try:
                self.announce()
                if self._is_closing or self._is_frozen():
                    continue
                if self.is_draining:
                    # What nobody else takes would only come back, and its subscribers be cut off for nothing.
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
                _log.exception("topics could not be given up; it is tried again")

    def excess(self) -> int:
        """Return how many topics this hub should give up now: what is above the mean, if it is above the tolerance."""
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
        """Release so many topics."""
        topics = self._topics
        if topics is None or number <= 0 or not len(topics):
            return
        serving = (topic for topic in topics if topic.is_serving)
        if self.is_draining:
            # All go, so any will do; to look at each of a million for every lot would leave time for nothing else. What
            # is drained is left to others for as long as that lasts, and not a moment longer.
            chosen, give_up = list(itertools.islice(serving, number)), topics.release
        else:
            chosen, give_up = self._choose(list(serving), number), topics.leave
        _log.info("gives up %d of %d topics", len(chosen), len(topics))
        await asyncio.gather(*(give_up(topic) for topic in chosen))

    def _choose(self, serving: Sequence[OwnedTopic], number: int) -> list[OwnedTopic]:
        """Return so many at random, those first that nobody is attached to."""
        chosen = self._random.sample(serving, min(len(serving), 4 * number))
        chosen.sort(key=lambda topic: topic.has_attached)
        return chosen[:number]
