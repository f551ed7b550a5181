"""Counts: lets the users of limits make topics and subscriptions only while there are fewer than a limit says.

The hub takes from the count of the deployment what it may make, some at a time. It gives back what it has not made for
a while. A limit that is reached is counted anew from time to time, since what was deleted elsewhere is still counted.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from hedwig.access import Limit, Pattern, Principal
from hedwig.clock import Clock
from hedwig.concurrency.keyed_work import KeyedWork
from hedwig.errors import HedwigError, QuotaExceededError, ServiceDownError
from hedwig.metadata.access.count_records import Counted, CountKey, CountRecords
from hedwig.model import HubInfo

__all__ = ["IDLE_S", "Counts", "Making", "most_of"]

_log = logging.getLogger(__name__)

IDLE_S: Final = 60.0
"""What was not used for so long is given back."""
_FULL_S: Final = 1.0
"""For how long a limit that is reached is not asked again."""
_AGE_S: Final = 600.0
"""How old a count may be by which a limit is reached. Then it is counted anew."""
_WAIT_S: Final = 2.0
"""How long a request may wait while its limit is counted for the first time."""
_UNSURE_S: Final = 60.0
"""How long something may still be made after its making has failed for an unknown reason."""
_COUNTED_AT_ONCE: Final = 4
_GIVEN_AT_ONCE: Final = 64
_KEYS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class Making:
    """Who wants to make something, and the limits that say whether it may. `refused` is called if it may not."""

    principal: Principal
    counted: Counted
    limits: tuple[Limit, ...]
    refused: Callable[[], None]

    @property
    def bounds(self) -> Sequence[tuple["_Bound", Limit]]:
        """The limits, each with what it counts. Of several that count the same, the lowest."""
        found: dict[CountKey, tuple[_Bound, Limit]] = {}
        for limit in self.limits:
            most = most_of(limit, self.counted)
            assert most is not None, "it is no limit of that"
            key = CountKey(self.counted, Pattern((limit.topics.of(self.principal.name),), limit.topics.is_prefix))
            if key not in found or most < found[key][0].most:
                found[key] = _Bound(key, most), limit
        return list(found.values())


def most_of(limit: Limit, counted: Counted) -> int | None:
    """Return how many there may be by a limit; None if it does not say."""
    return limit.topics_max if counted is Counted.TOPICS else limit.subscriptions_max


@dataclass(frozen=True, slots=True)
class _Bound:
    """What is counted, and how many there may be. What was leased by one limit is not for who has a lower one."""

    key: CountKey
    most: int


@dataclass(slots=True)
class _Lease:
    """How many the hub may still make: those that nobody makes yet (`has`), and those that somebody may be making.

    Both together are at most what the record says. Until `full_until`, on the monotonic clock, there are no more, for
    the reason `why`.
    """

    used_at: float
    has: int = 0
    in_the_making: int = 0
    recorded: int = 0
    full_until: float = 0.0
    why: str = ""


class Counts:
    """What one incarnation of a hub may still make."""

    def __init__(
        self,
        records: CountRecords,
        count: Callable[[CountKey], Awaitable[int]],
        me: HubInfo,
        is_alive: Callable[[HubInfo], Awaitable[bool]],
        may_write_s: Callable[[], float],
        clock: Clock,
    ) -> None:
        """`count` counts what there is. `may_write_s` says for how many seconds this hub is surely alive."""
        self._records = records
        self._count = count
        self._me = me
        self._is_alive = is_alive
        self._may_write_s = may_write_s
        self._clock = clock
        self._leases: dict[_Bound, _Lease] = {}
        self._changing = KeyedWork[_Bound, None](_closed)
        """The leases that are taken or given back, one thing at a time for each."""
        self._counting = KeyedWork[CountKey, None](_closed)
        self._turns = asyncio.Semaphore(_COUNTED_AT_ONCE)

    @asynccontextmanager
    async def making(self, making: Making | None) -> AsyncIterator[None]:
        """Count one more while it is made. If the body raises, and it was surely not made, it counts no more.

        Raises: QuotaExceededError - a limit is reached, or nobody knows yet how many there are; ServiceDownError,
            MetadataError - the count cannot be changed.
        """
        taken: list[_Lease] = []
        if making is not None:
            try:
                for bound, limit in making.bounds:
                    taken.append(await self._take(bound, limit))
            except BaseException as exc:
                _end(taken, is_made=False)
                if isinstance(exc, QuotaExceededError):
                    making.refused()
                raise
        try:
            yield
        except BaseException as exc:
            if isinstance(exc, HedwigError) and exc.happened == "no":
                _end(taken, is_made=False)
            elif taken:
                # The store may still make it.
                asyncio.get_running_loop().call_later(_UNSURE_S, partial(_end, taken, is_made=True))
            raise
        _end(taken, is_made=True)

    def deleted(self, making: Making | None) -> None:
        """Record that this hub has deleted one."""
        for bound, _ in making.bounds if making is not None else ():
            lease = self._leases.get(bound)
            # Not more than by the record, or who counts anew would miss what is made of it.
            if lease is not None and lease.has + lease.in_the_making < lease.recorded:
                lease.has += 1

    async def sweep(self) -> None:
        """Give back what was not used for a while."""
        idle_since = self._clock.monotonic() - IDLE_S
        await self._give_back([bound for bound, lease in self._leases.items() if lease.used_at <= idle_since])

    async def close(self) -> None:
        """Give everything back. Nothing may be made afterwards."""
        await self._counting.aclose()
        await self._give_back(list(self._leases))
        await self.abandon()

    async def abandon(self) -> None:
        """Forget everything. What is not given back stays counted, until somebody counts anew."""
        await self._counting.aclose()
        await self._changing.aclose()
        self._leases.clear()

    # --------------------------------------------------------------------------------------------------- leases

    async def _take(self, bound: _Bound, limit: Limit) -> _Lease:
        while True:
            lease = self._leases.get(bound)
            if lease is None:
                if len(self._leases) >= _KEYS_MAX:
                    raise QuotaExceededError("this hub counts for too many limits at a time; try again", _FULL_S)
                lease = self._leases[bound] = _Lease(self._clock.monotonic())
            now = lease.used_at = self._clock.monotonic()
            if self._may_write_s() <= 0:
                raise ServiceDownError("this hub cannot prove that it is alive")
            if lease.has:
                lease.has -= 1
                lease.in_the_making += 1
                return lease
            if now < lease.full_until:
                raise QuotaExceededError(f"{lease.why}: {limit}", lease.full_until - now)
            await self._changing.join(bound, partial(self._lease, bound, lease))

    async def _lease(self, bound: _Bound, lease: _Lease) -> None:
        """Take some of what is left, or say for how long there is none."""
        key, most = bound.key, bound.most
        count = await self._records.read(key)
        if count is None:
            counting = self._counting.begin(key, partial(self._count_anew, key))
            await asyncio.wait([counting], timeout=_WAIT_S)
            if counting.done() and await self._records.read(key) is not None:
                return
            self._is_full(lease, "it is not yet known how many there are")
            return
        has = lease.has + lease.in_the_making
        if taken := await self._records.lease(key, self._me, has=has, most=most):
            lease.recorded = has + taken
            # Some may have been made meanwhile, or deleted.
            lease.has = min(lease.has + taken, lease.recorded - lease.in_the_making)
            return
        if self._clock.wall() - count.counted_at >= _AGE_S:
            await self._return(bound, lease)  # Else what was made of it would be counted twice.
            self._counting.begin(key, partial(self._count_anew, key))
        self._is_full(lease, f"there are {most} already")

    def _is_full(self, lease: _Lease, why: str) -> None:
        lease.full_until, lease.why = self._clock.monotonic() + _FULL_S, why

    async def _count_anew(self, key: CountKey) -> None:
        async with self._turns:
            try:
                await self._records.count_anew(key, partial(self._count, key), self._is_alive, self._clock.wall())
            except (HedwigError, TimeoutError) as exc:
                _log.warning("the %s cannot be counted; it is tried again: %s", key, exc)

    async def _return(self, bound: _Bound, lease: _Lease) -> None:
        has, lease.has = lease.has, 0
        if lease.recorded > lease.in_the_making:
            lease.recorded = lease.in_the_making
            await self._records.give_back(bound.key, self._me, bound.most, has, kept=lease.recorded)

    async def _give_back(self, bounds: Sequence[_Bound]) -> None:
        async def give(bound: _Bound) -> None:
            lease = self._leases[bound]
            if not lease.in_the_making:
                del self._leases[bound]
            await self._return(bound, lease)

        for start in range(0, len(bounds), _GIVEN_AT_ONCE):
            some = bounds[start : start + _GIVEN_AT_ONCE]
            # Where something else is under way, the lease is in use after all.
            try:
                tasks = [self._changing.begin(bound, partial(give, bound)) for bound in some]
            except ServiceDownError:
                return  # The registration of this hub has run out meanwhile.
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled() and (exc := task.exception()) is not None:
                    _log.warning("what this hub may still make is not given back: %s", exc)


def _end(leases: Sequence[_Lease], *, is_made: bool) -> None:
    for lease in leases:
        lease.in_the_making -= 1
        lease.has += not is_made


def _closed() -> Exception:
    return ServiceDownError("the hub is shutting down")
