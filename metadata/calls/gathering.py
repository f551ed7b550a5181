"""Gathering: single operations of many callers that travel to the store together.

A store takes many operations in one `apply` for much less than one by one, but the callers of a hub each have one. What
begins in the same turn of the event loop, and what comes while the store is busy with as much as it may have at once,
goes into the next `apply`. An operation waits for the slowest of its company, and for nothing else.

Its deadline begins when it comes. A company has that of its first, so it is made of operations that came within a tenth
of the operation timeout: behind a store that is silent each has its time, less that tenth at most, and no more.
"""

import asyncio
from collections.abc import Sequence
from itertools import takewhile
from typing import Final, Generic, NamedTuple, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import HedwigError, MetadataUnavailableError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import Delete, Operation, Outcome, Read, RecordKey, Write
from hedwig.metadata.contract.table import TableOver, VersionedTable
from hedwig.versions import Version, Versioned

__all__ = ["GatheringTable"]

R = TypeVar("R")

_COMPANY_MAX: Final = 256
_AT_ONCE_MAX: Final = 8
_APART: Final = 0.1


class _Traveller(NamedTuple, Generic[R]):
    """An operation that waits: until when, by the monotonic clock, and what becomes of it."""

    operation: Operation[R]
    until: float
    outcome: asyncio.Future[Outcome[R]]


class GatheringTable(TableOver[R]):
    """A VersionedTable over another, whose single operations become few `apply`.

    How many wait is bounded by how many callers there are. A caller that is cancelled does not know the outcome, as
    with any table; its operation goes on.
    """

    def __init__(self, kind: RecordKind[R], table: VersionedTable[R], options: StoreOptions) -> None:
        self._kind = kind
        super().__init__(table)
        self._options = options
        self._waiting: list[_Traveller[R]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()  # Asked for once: Python 3.11 makes a system call of it.

    async def read(self, key: RecordKey, deadline: Deadline | None = None) -> Versioned[R] | None:
        self._kind.check(key)
        outcome = await self._carry_out(Read(key), deadline)
        outcome.check()
        return outcome.record

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        self._kind.check(key)
        return (await self._carry_out(Write(key, record, version, merge), deadline)).written()

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        self._kind.check_delete(key, version)
        (await self._carry_out(Delete(key, version), deadline)).check()

    async def _carry_out(self, operation: Operation[R], deadline: Deadline | None) -> Outcome[R]:
        outcome: asyncio.Future[Outcome[R]] = self._loop.create_future()
        left_s = self._options.operation_timeout_s if deadline is None else deadline.remaining_s()
        self._waiting.append(_Traveller(operation, self._options.clock.monotonic() + left_s, outcome))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._depart)
        return await outcome

    def _depart(self) -> None:
        while self._waiting and len(self._running) < _AT_ONCE_MAX:
            task = self._loop.create_task(self._travel(self._next_company()))
            self._running.add(task)
            task.add_done_callback(self._arrived)

    def _next_company(self) -> "Sequence[_Traveller[R]]":
        latest = self._waiting[0].until + _APART * self._options.operation_timeout_s
        company = list(takewhile(lambda each: each.until <= latest, self._waiting[:_COMPANY_MAX]))
        del self._waiting[: len(company)]
        return company

    def _arrived(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._depart()

    async def _travel(self, company: "Sequence[_Traveller[R]]") -> None:
        deadline = Deadline(self._options.clock, min(each.until for each in company))
        # Should this task be cancelled, nobody is left who could say what became of the company.
        outcomes: Sequence[Outcome[R]] = ()
        try:
            if deadline.expired:
                raise MetadataUnavailableError("it waited for its turn until the deadline, and was not begun")
            outcomes = await self._table.apply([each.operation for each in company], deadline)
        except HedwigError as exc:
            outcomes = [Outcome(error=exc)] * len(company)
        finally:
            for index, each in enumerate(company):
                if each.outcome.done():
                    continue
                if outcomes:
                    each.outcome.set_result(outcomes[index])
                else:
                    each.outcome.cancel()
