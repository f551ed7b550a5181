"""A target with known delays, stalls and failures: tests know beforehand what a load measures on it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from hedwig.benchmarks.load.load import Load, Observer
from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.load.workloads import Operation, Workload
from tests.support.virtual_time import VirtualTime

__all__ = ["KnownTarget", "measured"]


class KnownTarget:
    """Answers each operation `delay_s` after its begin. Answers due in a stall come at its end.

    delays: the delays of single operations, instead of `delay_s`. stalls: (from, to) in seconds since the first
    operation. fails: returns the error of an operation. answers: returns whether an operation is answered at all.
    receptions: how often each message arrives, `delay_s` apart, after its answer. lost_after: the hub is gone after N
    operations. refuses: how often an operation is refused before its answer, evenly until then.
    """

    def __init__(
        self,
        delay_s: float,
        *,
        delays: Mapping[int, float] = MappingProxyType({}),
        stalls: Sequence[tuple[float, float]] = (),
        fails: Callable[[int], str | None] = lambda _: None,
        answers: Callable[[int], bool] = lambda _: True,
        receptions: int = 0,
        lost_after: int | None = None,
        refuses: Callable[[int], int] = lambda _: 0,
    ) -> None:
        self._delay_s = delay_s
        self._delays = delays
        self._stalls = stalls
        self._fails = fails
        self._answers = answers
        self._receptions = receptions
        self._lost_after = lost_after
        self._refuses = refuses
        self._first_s: float | None = None
        self.begun: list[tuple[Operation, int]] = []

    async def open(self, observer: Observer) -> None:
        self._observer = observer

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        loop = asyncio.get_running_loop()
        if self._first_s is None:
            self._first_s = loop.time()
        self.begun.append((operation, topic))
        if len(self.begun) == self._lost_after:
            loop.call_soon(self._observer.lost)
        if not self._answers(number):
            return
        refusals = self._refuses(number)
        for refusal in range(1, refusals + 1):
            loop.call_at(loop.time() + refusal * self._delay_s / (refusals + 1), self._observer.refused, number)
        at = loop.time() - self._first_s + self._delays.get(number, self._delay_s)
        for begin, end in self._stalls:
            if begin <= at < end:
                at = end
        loop.call_at(self._first_s + at, self._observer.answered, number, self._fails(number))
        for reception in range(1, self._receptions + 1):
            loop.call_at(self._first_s + at + reception * self._delay_s, self._observer.delivered, number)

    async def close(self) -> None:
        pass


def measured(
    workload: Workload, target: KnownTarget, *, share: int = 0, shares: int = 1, early_s: float = 0.0
) -> Summary:
    """Return what a load measures on a target in virtual time, on a loop whose sleeps end `early_s` too early."""
    time = VirtualTime(early_s)

    async def run() -> Summary:
        load = Load(workload, target, share=share, shares=shares, now_ns=time.now_ns)
        await target.open(load)
        recording = await load.run(time.now_ns() + 1_000_000_000)
        return recording.summarize()

    return time.run(run())
