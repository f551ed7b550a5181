"""The runs of `check perf`: each operation many times through the managers, as hubs call them."""

import asyncio
import math
import time
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from hedwig.metadata import MetadataStore
from hedwig.model import (
    HubInfo,
    LedgerRanges,
    MessageSeqId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
)
from hedwig.operations.checks.perf_terms import PerfSize
from hedwig.operations.checks.scratch_topics import SUBSCRIBER, ScratchTopics
from hedwig.versions import NEW, Version

__all__ = ["Measured", "PerfRuns"]

_SECONDS_MAX: Final = 30.0
"""The longest time of one run. A store that is too slow has shown it by then."""
_SAY_EVERY: Final = 100
_WARM_UP_ROUNDS: Final = 25
_PAGE: Final = 1000
_HUB: Final = HubInfo(host="hedwig-check-perf", port=1)
"""This hub is never alive, so no hub redirects a client to it."""


@dataclass(slots=True)
class Measured:
    """The times of one operation, in microseconds. A listing has one time for each page of names."""

    done: int = 0
    seconds: float = 0.0
    times_us: "array[int]" = field(default_factory=lambda: array("Q"))

    @property
    def per_s(self) -> float:
        return self.done / self.seconds if self.seconds else 0.0

    def percentiles_ms(self, *percentiles: float) -> list[float]:
        """Return, for each percentile, the time that this percentage of the calls did not exceed; 0 without a call."""
        if not self.times_us:
            return [0.0] * len(percentiles)
        ordered = sorted(self.times_us)
        ranks = (math.ceil(len(ordered) * percentile / 100) for percentile in percentiles)
        return [ordered[max(0, rank - 1)] / 1000 for rank in ranks]


class PerfRuns:
    """Measures one store with the topics of one run. Raises, in all: MetadataError."""

    def __init__(self, store: MetadataStore, topics: ScratchTopics, size: PerfSize) -> None:
        self._store = store
        self._topics = topics
        self._size = size
        self._advance: Callable[[int], None] = lambda _: None
        self._made = 0
        self._subscribed: dict[int, Version] = {}

    async def warm_up(self) -> None:
        """Call the store a few times, so that both sides open connections and load code before anything is measured."""
        for _ in range(_WARM_UP_ROUNDS):
            await asyncio.gather(*(self._read_owner(number) for number in range(self._size.callers)))

    async def run(self, operation: str, advance: Callable[[int], None]) -> Measured:
        """Run an operation many times. Every now and then, `advance` receives the number of new calls.

        Run `create topic` before the others, and `subscribe` before `move pointer`.
        """
        self._advance = advance
        match operation:
            case "create topic":
                measured = await self._repeat(self._size.operations, self._create)
                self._made = measured.done
            case "claim":
                measured = await self._repeat(self._made, self._claim)
            case "read owner":
                measured = await self._repeat(self._made, self._read_owner)
            case "subscribe":
                measured = await self._repeat(self._made, self._subscribe)
            case "move pointer":
                measured = await self._repeat(len(self._subscribed), self._move_pointer)
            case "list":
                measured = await self._list()
            case _:
                raise ValueError(f"no operation {operation!r}")
        return measured

    async def _repeat(self, times: int, work: Callable[[int], Awaitable[object]]) -> Measured:
        """Call `work` with the numbers below `times`, in their order, from all callers at once.

        Every call that began has ended when this returns or raises, so that a cleanup finds all records. So no caller
        is cancelled, since its write would go on.
        """
        measured = Measured()
        if not times:  # The operation before this one did nothing in its time.
            return measured
        numbers = iter(range(times))
        is_over = False
        began = time.perf_counter()

        async def call() -> None:
            for number in numbers:
                start = time.perf_counter()
                if is_over or start - began > _SECONDS_MAX:
                    return
                await work(number)
                measured.times_us.append(round((time.perf_counter() - start) * 1e6))
                measured.done += 1
                if measured.done % _SAY_EVERY == 0:  # A report after each call would show up in the times.
                    self._advance(_SAY_EVERY)

        callers = [asyncio.create_task(call()) for _ in range(min(self._size.callers, times))]
        try:
            await asyncio.wait(callers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            is_over = True
            await asyncio.wait(callers)
            errors = [error for caller in callers if (error := caller.exception()) is not None]
        if errors:
            raise errors[0]
        measured.seconds = time.perf_counter() - began
        return measured

    async def _create(self, number: int) -> None:
        await self._store.persistence.write(self._topics.topic(number), LedgerRanges(), NEW)

    async def _claim(self, number: int) -> None:
        await self._store.ownership.write(self._topics.topic(number), _HUB, NEW)

    async def _read_owner(self, number: int) -> None:
        await self._store.ownership.read(self._topics.topic(number))

    async def _subscribe(self, number: int) -> None:
        data = SubscriptionData(preferences=SubscriptionPreferences(), state=SubscriptionState())
        topic = self._topics.topic(number)
        self._subscribed[number] = await self._store.subscriptions.create(topic, SUBSCRIBER, data)

    async def _move_pointer(self, number: int) -> None:
        data = SubscriptionData(state=SubscriptionState(MessageSeqId(number + 1)))
        topic, version = self._topics.topic(number), self._subscribed[number]
        await self._store.subscriptions.update(topic, SUBSCRIBER, data, version)

    async def _list(self) -> Measured:
        """List as many topics as were made. They may be other topics, since ours may stand anywhere in the order."""
        measured = Measured()
        began = start = time.perf_counter()
        async for _ in self._store.persistence.topics():
            measured.done += 1
            if measured.done % _PAGE == 0 or measured.done >= self._made:
                now = time.perf_counter()
                measured.times_us.append(round((now - start) * 1e6))
                start = now
                self._advance(_PAGE)
                if measured.done >= self._made or now - began > _SECONDS_MAX:
                    break
        measured.seconds = time.perf_counter() - began
        return measured
