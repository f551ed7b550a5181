"""A target of metadata records: operations of a workload, carried out by a client of theirs."""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from benchmarks.errors import BenchmarkError
from benchmarks.load import Observer
from benchmarks.record_clients import RecordClient
from benchmarks.workloads import Operation, Workload, topic_name

__all__ = ["RecordTarget"]

_FILL_IN_FLIGHT: Final = 64


class RecordTarget:
    """A Target over a client that stays open: one record for each topic of the workload, and new ones to create.

    It works like the callers of a metadata manager: as many tasks as operations are in flight, each doing one after the
    other, so that an operation costs no task of its own. Each task has records of its own, which it takes in turn, so
    that nobody is refused by accident; with fewer records than tasks, as many tasks as are meant to share one do.
    """

    def __init__(self, workload: Workload, client: RecordClient) -> None:
        self._workload = workload
        self._client = client
        self._keys = [client.key(topic_name(workload.prefix, topic)) for topic in range(workload.topics)]
        self._versions: list[Any] = [None] * workload.topics
        topic_of = workload.topic_chooser()
        self._order = [topic_of(number) for number in range(workload.topics)]
        self._waiting: deque[tuple[int, Operation]] = deque()
        self._workers: list[asyncio.Task[None]] = []
        self._idle: list[asyncio.Future[None]] = []
        self._carry_out: dict[Operation, Callable[[int, int], Awaitable[None]]] = {
            Operation.READ: self._read,
            Operation.CREATE: self._create,
            Operation.UPDATE: lambda number, topic: self._update(number, topic, self._versions[topic], part=False),
            Operation.PARTIAL_UPDATE: lambda number, topic: self._update(
                number, topic, self._versions[topic], part=True
            ),
            Operation.CONTENDED_UPDATE: self._contend,
        }

    async def open(self, observer: Observer) -> None:
        """Make the records that the workload needs. Raises BenchmarkError - some could not be made."""
        self._observer = observer
        if set(self._workload.mix) == {Operation.CREATE.value}:
            return
        await asyncio.gather(*(self._fill(first) for first in range(_FILL_IN_FLIGHT)))

    def begin(self, number: int, operation: Operation, topic: int) -> None:  # noqa: ARG002 (each task has its own)
        self._waiting.append((number, operation))
        if self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
        elif len(self._workers) < self._workload.in_flight:
            self._workers.append(asyncio.create_task(self._work(len(self._workers))))

    async def close(self) -> None:
        """Give up what is still under way; the client stays open."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _fill(self, first: int) -> None:
        for topic in range(first, self._workload.topics, _FILL_IN_FLIGHT):
            version = await self._client.create(self._keys[topic])
            if version is None:
                raise BenchmarkError(f"the record {self._keys[topic]!r} exists already")
            self._versions[topic] = version

    async def _work(self, place: int) -> None:
        own = self._order[place :: self._workload.in_flight] or [self._order[place % len(self._order)]]
        topics = itertools.cycle(own)
        while True:
            while self._waiting:
                number, operation = self._waiting.popleft()
                error: str | None = None
                try:
                    await self._carry_out[operation](number, next(topics))
                except Exception as exc:
                    # Whatever a library raises is the outcome of this operation.
                    error = str(exc) if isinstance(exc, BenchmarkError) else type(exc).__name__
                self._observer.answered(number, error)
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter

    async def _read(self, _: int, topic: int) -> None:
        _check(await self._client.read(self._keys[topic]))

    async def _create(self, number: int, _: int) -> None:
        key = self._client.key(topic_name(f"{self._workload.prefix}-new", number))
        if await self._client.create(key) is None:
            raise BenchmarkError("a new record exists already")

    async def _contend(self, number: int, topic: int) -> None:
        await self._update(number, topic, await self._client.read(self._keys[topic]), part=False)

    async def _update(self, number: int, topic: int, version: Any, *, part: bool) -> None:
        key = self._keys[topic]
        while True:
            _check(version)
            done, version = await self._client.update(key, version, part=part)
            if done:
                self._versions[topic] = version
                return
            self._observer.refused(number)


def _check(version: Any) -> None:
    if version is None:
        raise BenchmarkError("a record is missing")
