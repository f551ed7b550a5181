"""Gathering: single operations of many callers that travel to the store together.

A store takes many operations in one `apply` for much less than one by one, but the callers of a hub each have one. What
begins in the same turn of the event loop, and what comes while the store is busy with as much as it may have at once,
goes into the next `apply`. An operation waits for the slowest of its company, and for nothing else.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from hedwig.errors import HedwigError
from hedwig.versions import Version, Versioned
from metadata.kinds import RecordKind
from metadata.operations import Delete, Operation, Outcome, Read, RecordKey, Write
from metadata.table import TableOver, VersionedTable

__all__ = ["GatheringTable"]

R = TypeVar("R")

_COMPANY_MAX: Final = 256
_AT_ONCE_MAX: Final = 8


class GatheringTable(TableOver[R]):
    """A VersionedTable over another, whose single operations become few `apply`.

    How many wait is bounded by how many callers there are. A caller that is cancelled does not know the outcome, as
    with any table; its operation goes on.
    """

    def __init__(self, kind: RecordKind[R], table: VersionedTable[R]) -> None:
        self._kind = kind
        super().__init__(table)
        self._waiting: list[tuple[Operation[R], asyncio.Future[Outcome[R]]]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()  # Asked for once: Python 3.11 makes a system call of it.

    async def read(self, key: RecordKey) -> Versioned[R] | None:
        self._kind.check(key)
        outcome = await self._carry_out(Read(key))
        outcome.check()
        return outcome.record

    async def write(self, key: RecordKey, record: R, version: Version, *, merge: bool = False) -> Version:
        self._kind.check(key)
        return (await self._carry_out(Write(key, record, version, merge))).written()

    async def delete(self, key: RecordKey, version: Version) -> None:
        self._kind.check_delete(key, version)
        (await self._carry_out(Delete(key, version))).check()

    async def _carry_out(self, operation: Operation[R]) -> Outcome[R]:
        outcome: asyncio.Future[Outcome[R]] = self._loop.create_future()
        self._waiting.append((operation, outcome))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._depart)
        return await outcome

    def _depart(self) -> None:
        while self._waiting and len(self._running) < _AT_ONCE_MAX:
            company, self._waiting = self._waiting[:_COMPANY_MAX], self._waiting[_COMPANY_MAX:]
            task = self._loop.create_task(self._travel(company))
            self._running.add(task)
            task.add_done_callback(self._arrived)

    def _arrived(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._depart()

    async def _travel(self, company: Sequence[tuple[Operation[R], "asyncio.Future[Outcome[R]]"]]) -> None:
        # Should this task be cancelled, nobody is left who could say what became of the company.
        outcomes: Sequence[Outcome[R]] = ()
        try:
            outcomes = await self._table.apply([operation for operation, _ in company])
        except HedwigError as exc:
            outcomes = [Outcome(error=exc)] * len(company)
        finally:
            for index, (_, outcome) in enumerate(company):
                if outcome.done():
                    continue
                if outcomes:
                    outcome.set_result(outcomes[index])
                else:
                    outcome.cancel()
