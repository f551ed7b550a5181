"""Gathering: single operations of many callers that travel to the store together.

A store runs many operations in one `apply` for much less than one by one, but each caller of a hub has one. Operations
that begin in the same turn of the event loop go into one `apply`. So do those that arrive while the most `apply` calls
allowed are under way. An operation waits for the slowest of its company, and for nothing else.

The deadline of an operation begins when it arrives. A company has the earliest deadline of its members. So it takes
only operations that arrived within a tenth of the operation timeout. If the store is silent, each operation ends by its
own deadline, and at most that tenth before it.
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
    """An operation that waits: its deadline by the monotonic clock, and the future of its outcome."""

    operation: Operation[R]
    until: float
    outcome: asyncio.Future[Outcome[R]]


class GatheringTable(TableOver[R]):
    """A VersionedTable over another. It turns many single operations into few calls of `apply`.

    The number of callers bounds how many operations wait. A cancelled caller does not learn the outcome, as with any
    table. Its operation goes on.
    """

    def __init__(self, kind: RecordKind[R], table: VersionedTable[R], options: StoreOptions) -> None:
        self._kind = kind
        super().__init__(table)
        self._options = options
        self._waiting: list[_Traveller[R]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()  # Kept, since each call is a system call in Python 3.11.

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
        # If this task is cancelled, the outcomes of the company stay unknown.
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
