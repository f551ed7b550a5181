"""A target of metadata records: a record client runs the operations of a workload."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from hedwig.benchmarks.drivers.records.record_clients import RecordClient
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.load import Observer
from hedwig.benchmarks.load.workers import Workers
from hedwig.benchmarks.load.workloads import Operation, Workload, topic_name

__all__ = ["RecordTarget"]

_FILL_IN_FLIGHT: Final = 64


class RecordTarget:
    """A Target over a client that stays open: one record for each topic of the workload, and new ones to create.

    Each caller takes records of its own in turn, so that no caller is refused by accident.
    With fewer records than callers, the callers share the records evenly.
    """

    def __init__(self, workload: Workload, client: RecordClient) -> None:
        self._workload = workload
        self._client = client
        self._keys = [client.key(topic_name(workload.prefix, topic)) for topic in range(workload.topics)]
        self._versions: list[Any] = [None] * workload.topics
        topic_of = workload.topic_chooser()
        self._order = [topic_of(number) for number in range(workload.topics)]
        self._callers = Workers(workload.in_flight, self._on_own_record)
        self._own: dict[int, Iterator[int]] = {}
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
        self._callers.open(observer)
        if set(self._workload.mix) == {Operation.CREATE.value}:
            return
        await asyncio.gather(*(self._fill(first) for first in range(_FILL_IN_FLIGHT)))

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        self._callers.begin(number, operation, topic)

    async def close(self) -> None:
        """Cancel the operations still in flight; the client stays open."""
        await self._callers.close()

    async def _fill(self, first: int) -> None:
        for topic in range(first, self._workload.topics, _FILL_IN_FLIGHT):
            version = await self._client.create(self._keys[topic])
            if version is None:
                raise BenchmarkError(f"the record {self._keys[topic]!r} exists already")
            self._versions[topic] = version

    async def _on_own_record(self, caller: int, number: int, operation: Operation, _: int) -> None:
        if caller not in self._own:
            own = self._order[caller :: self._workload.in_flight] or [self._order[caller % len(self._order)]]
            self._own[caller] = itertools.cycle(own)
        await self._carry_out[operation](number, next(self._own[caller]))

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
