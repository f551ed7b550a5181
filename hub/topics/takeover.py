"""Takeover in bulk: the topics of a hub that is gone, which the other hubs take over without being asked.

The hubs share them by key range. Each reads the owner records of its own ranges, and claims the topics in batches. Once
it is through, it gives the others as much time as it took itself, and then takes what is left in their ranges. A topic
that is asked for does not wait for this: it is claimed at once, as any other.

Hubs may see different hubs alive, and cut the ranges differently. Then two of them read the same ranges, and
compare-and-set lets one have each topic.

Most hubs that leave in order have released all of their topics, and most hubs that start have none left over from
before. So the hub first looks at some of the records, and reads on only if one of them names such a hub.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from hedwig.clock import Clock
from hedwig.concurrency.rate_limiter import RateLimiter
from hedwig.errors import HedwigError, TooManyNamesError
from hedwig.hub.liveness import LiveHub
from hedwig.hub.topics.topics import Topics
from hedwig.metadata import MetadataStore
from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.model import HubInfo

__all__ = ["Takeover"]

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.25
_RETRY_S: Final = 2.0
_TRIES_MAX: Final = 30
_RANGES_EACH: Final = 8
"""Into how many ranges the topics are cut for each hub."""
_BATCH: Final = 128
"""How many topics the hub claims at once. One batch follows the other, so that other work has its turn."""
_GRACE_S: Final = 2.0
"""How long the others have at least for their ranges."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """A hub that is gone: one incarnation, or with `is_any_before` all that came before at its address."""

    hub: HubInfo
    is_any_before: bool = False
    is_surely_owner: bool = True
    """Whether it was killed while it owned topics, as far as is known."""

    def owned(self, owner: HubInfo) -> bool:
        if self.is_any_before:
            return owner.address == self.hub.address and owner.epoch < self.hub.epoch
        return owner.is_same(self.hub)


class Takeover:
    """Takes over what hubs leave behind that are gone. The hub runs `run` for as long as an incarnation lives."""

    def __init__(
        self,
        rate: int,
        me: HubInfo,
        live: Callable[[], Sequence[LiveHub]],
        topics: Topics,
        metadata: MetadataStore,
        clock: Clock,
        may_write: Callable[[], bool],
    ) -> None:
        """`rate` is how many topics are claimed a second. `live` returns the hubs that are alive, sorted by address.

        `may_write` says whether this hub may change metadata now.
        """
        self._me = me
        self._live = live
        self._topics = topics
        self._metadata = metadata
        self._clock = clock
        self._may_write = may_write
        self._pace = RateLimiter(rate, clock)

    async def run(self) -> None:
        """Take over topics until this is cancelled."""
        waiting = deque([_Gone(self._me, is_any_before=True, is_surely_owner=False)])
        seen = self._live()
        while True:
            while waiting:
                gone = waiting.popleft()
                try:
                    await self._take_all(gone)
                except Exception:
                    _log.exception("the topics of hub %s are left until they are asked for", gone.hub.address)
                seen = self._look(seen, waiting)
            await self._clock.sleep(_LOOK_S)
            seen = self._look(seen, waiting)

    def _look(self, seen: Sequence[LiveHub], waiting: "deque[_Gone]") -> Sequence[LiveHub]:
        """Add the hubs to `waiting` that were alive and are not any more; return those that are alive."""
        live = self._live()
        if live is not seen:
            alive = {(hub.info.address, hub.info.epoch) for hub in live}
            for hub in seen:
                if (hub.info.address, hub.info.epoch) not in alive and not hub.info.is_same(self._me):
                    waiting.append(_Gone(hub.info, is_surely_owner=not hub.is_draining))
        return live

    async def _take_all(self, gone: _Gone) -> None:
        """Take over the topics of one hub: first this hub's share, then what is left."""
        if not self._topics.takes_over:
            _log.info("leaves the topics of hub %s, which is gone, until they are asked for", gone.hub.address)
            return
        began, before = self._clock.monotonic(), self._topics.taken_over
        sharing = sorted({self._me.address, *(hub.info.address for hub in self._live() if not hub.is_draining)})
        mine, parts = sharing.index(self._me.address), len(sharing) * _RANGES_EACH
        ranges: Sequence[KeyRange] = ()
        while not ranges:
            try:
                ranges = await self._metadata.key_ranges(OWNERSHIP, parts)
                if not gone.is_surely_owner and not await self._owns_some(gone, ranges):
                    return
            except TooManyNamesError as exc:
                _log.warning("the topics of hub %s are left until they are asked for: %s", gone.hub.address, exc)
                return
            except (HedwigError, TimeoutError) as exc:
                _log.warning("the topics of hub %s are not taken over yet: %s", gone.hub.address, exc)
                await self._clock.sleep(_RETRY_S)
        _log.info(
            "takes over the topics of hub %s, which is gone, %s",
            gone.hub.address,
            f"with {len(sharing) - 1} other hubs" if len(sharing) > 1 else "alone",
        )
        own = ranges[mine :: len(sharing)]
        for keys in own:
            await self._take_range(gone, keys)
        taken, took_s = self._topics.taken_over - before, self._clock.monotonic() - began
        _log.info("took over %d topics of hub %s in %.1f s", taken, gone.hub.address, took_s)
        if len(sharing) == 1:
            return
        await self._clock.sleep(max(_GRACE_S, took_s))
        before = self._topics.taken_over
        for keys in ranges:
            if keys not in own:
                await self._take_range(gone, keys)
        if left := self._topics.taken_over - before:
            _log.info("took over %d more topics of hub %s, which other hubs had left", left, gone.hub.address)

    async def _owns_some(self, gone: _Gone, ranges: Sequence[KeyRange]) -> bool:
        """Look at the first owner records of each range. Raises: MetadataError."""
        for keys in ranges:
            async with aclosing(self._metadata.scan_range(keys)) as pages:
                async for page in pages:
                    if any(each.error is None and gone.owned(each.read().value) for each in page):
                        return True
                    break
        return False

    async def _take_range(self, gone: _Gone, keys: KeyRange) -> None:
        """Take over the topics in a range, for as long as this hub takes topics. After a failure it tries again.

        It does not try for ever: the ledgers of one topic may be away for long, and others wait.
        """
        tries = 0
        while self._topics.takes_over:
            if self._may_write():
                try:
                    await self._try_range(gone, keys)
                    return
                except (HedwigError, TimeoutError) as exc:
                    tries += 1
                    is_last = tries == _TRIES_MAX
                    _log.warning(
                        "some topics of hub %s are %s: %s",
                        gone.hub.address,
                        "left until they are asked for" if is_last else "not taken over yet",
                        exc if str(exc) else repr(exc),
                    )
                    if is_last:
                        return
            await self._clock.sleep(_RETRY_S)

    async def _try_range(self, gone: _Gone, keys: KeyRange) -> None:
        """Read a range, and take over the topics of a hub in it, at the pace. Raises: as `Topics.take_over`."""
        async with aclosing(self._metadata.scan_range(replace(keys, hub=gone.hub.address))) as pages:
            async for page in pages:
                records = ((each.key.topic, each.read()) for each in page if each.error is None)
                found = [(topic, record) for topic, record in records if gone.owned(record.value)]
                for first in range(0, len(found), _BATCH):
                    batch = found[first : first + _BATCH]
                    while (wait_s := self._pace.wait_s(len(batch))) > 0:
                        await self._clock.sleep(wait_s)
                    if not self._topics.takes_over:
                        return
                    await self._topics.take_over(batch)
