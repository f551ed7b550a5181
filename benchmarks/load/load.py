"""The load loop: it begins operations at their time, and records when each began and finished."""

import asyncio
import contextlib
import math
import time
from array import array
from collections.abc import Callable
from typing import Final, Protocol

from hedwig.benchmarks.load.recording import Recording
from hedwig.benchmarks.load.workloads import Operation, Workload

__all__ = ["Load", "Observer", "Target"]

_SECOND_NS: Final = 1_000_000_000
_TICK_S: Final = 0.001
"""The shortest sleep of an open loop before it looks for due operations; event loops count in milliseconds."""
_UNFINISHED: Final = "unfinished"


class Observer(Protocol):
    """Receives the outcomes of operations."""

    def answered(self, number: int, error: str | None) -> None:
        """Record the answer to an operation: success, or an error."""
        ...

    def delivered(self, number: int) -> None:
        """Record that one subscriber has received the message of an operation."""
        ...

    def refused(self, number: int) -> None:
        """Record that an attempt of an operation was refused, because another caller was faster; it is repeated."""
        ...

    def lost(self) -> None:
        """End the load, since the hub cannot be reached any more."""
        ...


class Target(Protocol):
    """Runs operations against a hub or a store, over some client. It uses the event loop that runs it."""

    async def open(self, observer: Observer) -> None:
        """Connect, and attach the subscribers of the workload."""
        ...

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        """Begin an operation. Report to the observer later, never before this returns."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class Load:
    """One share of a workload on one target.

    Operations carry local numbers 0, 1, 2 … With several shares, share i of n takes the workload's numbers i, i + n, …
    Where topics are drawn, each round has draws of its own.
    Times come from `now_ns`, which is monotonic and the same clock in all processes.
    """

    def __init__(
        self,
        workload: Workload,
        target: Target,
        *,
        share: int = 0,
        shares: int = 1,
        round_number: int = 0,
        drain_s: float = 30.0,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._workload = workload
        self._target = target
        self._share, self._shares = share, shares
        self._drain_s = drain_s
        self._now_ns = now_ns
        self._topic_of = workload.topic_chooser(round_number)
        self._operation_of = workload.operation_chooser()
        self._in_flight_max = max(1, workload.in_flight // shares)
        self._in_flight = 0
        self._count_max = len(range(share, workload.operations, shares)) if workload.operations else None
        self._pending = array("i")
        self._recording = Recording(workload)
        self._end_ns = 0
        self._is_over = False
        self._changed = asyncio.Event()

    async def run(self, start_ns: int) -> Recording:
        """Run the share from `start_ns` on; return once all operations have finished, or the drain time is over."""
        self._recording.start_ns = start_ns
        self._end_ns = start_ns + round(self._workload.seconds * _SECOND_NS)
        # Event loops round their timers, so one sleep may end early. The first operations would begin before the load.
        while (ahead_ns := start_ns - self._now_ns()) > 0:  # noqa: ASYNC110 (the time is the event)
            await asyncio.sleep(ahead_ns / _SECOND_NS)
        if self._workload.is_open_loop:
            await self._run_open()
        else:
            await self._run_closed()
        self._is_over = True
        if self._in_flight:
            self._changed.clear()
            await self._wait_for_change(self._drain_s)
        self._give_up()
        return self._recording

    # ---------------------------------------------------------------------------------------- what the target reports

    def answered(self, number: int, error: str | None) -> None:
        """Record an answer; an error finishes the operation, even if deliveries are outstanding."""
        if error is None:
            self._step(number)
        elif self._pending[number] > 0:
            self._pending[number] = 1
            self._recording.errors[number] = error
            self._step(number)

    def delivered(self, number: int) -> None:
        """Record a delivery."""
        recording = self._recording
        now = self._now_ns()
        if not 0 <= number < len(self._pending) or self._pending[number] <= 0:
            recording.unexpected_deliveries += 1
            return
        recording.delivered_ns.append(now)
        recording.delivery_us.append((now - recording.intended_ns[number]) // 1000)
        self._step(number)

    def refused(self, _: int) -> None:
        """Record a refusal."""
        self._recording.refused_ns.append(self._now_ns())

    def lost(self) -> None:
        """End the load now."""
        self._end_ns = min(self._end_ns, self._now_ns())
        self._changed.set()

    def _step(self, number: int) -> None:
        left = self._pending[number] - 1
        self._pending[number] = left
        if left:
            return
        now = self._now_ns()
        self._recording.finished_ns[number] = now
        self._in_flight -= 1
        if self._is_over:
            if not self._in_flight:
                self._changed.set()
        elif self._workload.is_open_loop or not self._is_due(now):
            self._changed.set()
        else:
            self._begin(now, now)

    # -------------------------------------------------------------------------------------------------- the two loops

    def _is_due(self, at_ns: int) -> bool:
        return at_ns < self._end_ns and (self._count_max is None or len(self._pending) < self._count_max)

    async def _run_closed(self) -> None:
        """Begin as many operations as may be in flight; from then on each that finishes begins the next."""
        self._changed.clear()
        while self._in_flight < self._in_flight_max and self._is_due(now := self._now_ns()):
            self._begin(now, now)
        if self._is_due(self._now_ns()):
            await self._wait_for_change((self._end_ns - self._now_ns()) / _SECOND_NS)
        if self._count_max is not None:
            self._recording.missed = self._count_max - len(self._pending)

    async def _run_open(self) -> None:
        """Begin each operation at its time; while the limit in flight is reached, operations are late or missed."""
        step_ns = _SECOND_NS * self._shares / self._workload.rate_per_s
        first_ns = self._recording.start_ns + _SECOND_NS * self._share / self._workload.rate_per_s
        while True:
            intended = round(first_ns + len(self._pending) * step_ns)
            now = self._now_ns()
            if not self._is_due(intended):
                break
            if intended > now:
                await asyncio.sleep(max(_TICK_S, (intended - now) / _SECOND_NS))
            elif self._in_flight >= self._in_flight_max:
                if now >= self._end_ns:
                    break
                self._changed.clear()
                await self._wait_for_change((self._end_ns - now) / _SECOND_NS)
            else:
                self._begin(intended, now)
        offered = max(0, math.ceil((self._end_ns - first_ns) / step_ns))
        if self._count_max is not None:
            offered = min(offered, self._count_max)
        self._recording.missed = offered - len(self._pending)

    async def _wait_for_change(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _begin(self, intended_ns: int, now_ns: int) -> None:
        recording, number = self._recording, len(self._pending)
        overall = number * self._shares + self._share
        operation = self._operation_of(overall)
        self._pending.append(1 + self._workload.subscribers if operation is Operation.DELIVER else 1)
        recording.intended_ns.append(intended_ns)
        recording.begun_ns.append(now_ns)
        recording.finished_ns.append(0)
        self._in_flight += 1
        self._target.begin(number, operation, self._topic_of(overall))

    def _give_up(self) -> None:
        """Count unfinished operations as failed, with the time that they have taken so far."""
        now = self._now_ns()
        for number, left in enumerate(self._pending):
            if left > 0:
                self._recording.errors[number] = _UNFINISHED
                self._recording.finished_ns[number] = now
