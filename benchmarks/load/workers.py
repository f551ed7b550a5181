"""Callers: tasks that run operations on an asynchronous client, each of them one operation after the other."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.load import Observer
from hedwig.benchmarks.load.workloads import Operation

__all__ = ["CarryOut", "Workers"]

CarryOut: TypeAlias = Callable[[int, int, Operation, int], Awaitable[None]]
"""Runs an operation. Its arguments are the index of the caller, and the operation's number, kind and topic."""


class Workers:
    """At most `count` tasks, made when they are needed, so that an operation costs no task of its own.

    The error that an operation raises is its outcome: the text of a BenchmarkError, of others the name of the class.
    """

    def __init__(self, count: int, carry_out: CarryOut) -> None:
        self._count = count
        self._carry_out = carry_out
        self._observer: Observer | None = None
        self._waiting: deque[tuple[int, Operation, int]] = deque()
        self._workers: list[asyncio.Task[None]] = []
        self._idle: list[asyncio.Future[None]] = []

    def open(self, observer: Observer) -> None:
        """Report outcomes to `observer` from now on."""
        self._observer = observer

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        """Queue an operation for the next free caller."""
        self._waiting.append((number, operation, topic))
        if self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
        elif len(self._workers) < self._count:
            self._workers.append(asyncio.create_task(self._work(len(self._workers))))

    async def close(self) -> None:
        """Cancel the operations still in flight."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self, caller: int) -> None:
        assert self._observer is not None, "no observer is set"
        while True:
            while self._waiting:
                number, operation, topic = self._waiting.popleft()
                error: str | None = None
                try:
                    await self._carry_out(caller, number, operation, topic)
                except Exception as exc:
                    error = str(exc) if isinstance(exc, BenchmarkError) else type(exc).__name__
                self._observer.answered(number, error)
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter
