"""The gate through which all writes of a process go to its store, so that all of them can be held back.

A closed gate lets no write begin, and its holder waits until no write is under way. A write of unknown outcome may
still take effect for a while. Until that time has passed, the holder must not count the gate as closed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

from hedwig.clock import Clock, Deadline
from hedwig.errors import HedwigError, MetadataUnavailableError, UncertainStateError
from hedwig.metadata.contract.operations import Operation, Outcome, Read, RecordKey
from hedwig.metadata.contract.table import TableOver, VersionedTable
from hedwig.versions import Version

__all__ = ["GatedTable", "WriteGate", "passing", "reads_only"]

R = TypeVar("R")

_DOUBT: Final = 2
"""For how many operation timeouts a write of unknown outcome may still take effect.

One is the time that the store has for the write. The other is a margin for a slow store or network.
"""


class WriteGate:
    """Open, held (writes wait for a decision, at most for their deadline) or closed (writes are refused)."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._open = asyncio.Event()
        self._open.set()
        self._why: str | None = None
        self._decided = asyncio.Event()
        self._decided.set()
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._doubt_until = clock.monotonic()

    @property
    def why_closed(self) -> str | None:
        """Return why writes are refused, or None if they are not."""
        return self._why

    @property
    def running(self) -> int:
        """Return the number of writes under way."""
        return self._running

    def hold(self) -> None:
        """Let writes wait until `open` or `close` is called."""
        self._decided.clear()

    def open(self) -> None:
        """Let writes through."""
        self._why = None
        self._open.set()
        self._decided.set()

    def close(self, why: str) -> None:
        """Refuse writes that have not begun. `why` is the error text for their callers."""
        self._why = why
        self._open.clear()
        self._decided.set()

    async def wait_open(self) -> None:
        """Wait until the gate is not closed."""
        await self._open.wait()

    async def settle(self) -> None:
        """Wait until no write is under way. May be cancelled.

        Raises: UncertainStateError - a write has not ended, or one that ended with unknown outcome may still take
            effect.
        """
        try:
            async with asyncio.timeout(_DOUBT * self._timeout_s):
                await self._idle.wait()
        except TimeoutError:
            raise UncertainStateError("a write of this hub is taking longer than it may; try again") from None
        doubt_s = self._doubt_until - self._clock.monotonic()
        if doubt_s > 0:
            raise UncertainStateError(
                "the outcome of a write of this hub is unknown, and the store may still apply it; try again in "
                f"{doubt_s:.0f} s"
            )

    def doubt(self) -> None:
        """Record that the outcome of a write is unknown."""
        self._doubt_until = self._clock.monotonic() + _DOUBT * self._timeout_s

    async def enter(self, deadline: Deadline | None = None) -> Deadline | None:
        """Wait until a write may begin. The caller must enter `under_way` before it awaits anything else.

        Returns: the write's deadline, which has begun if the write had to wait.
        Raises: MetadataUnavailableError - it is refused, and surely not done.
        """
        if not self._decided.is_set():
            deadline = deadline or Deadline.after(self._clock, self._timeout_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(deadline.remaining_s()):
                    await self._decided.wait()
        if not self._decided.is_set():
            raise MetadataUnavailableError("the store did not report in time whether it is frozen; try again")
        if self._why is not None:
            raise MetadataUnavailableError(self._why)
        return deadline

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Count the body as a write. It is in doubt if it ends with an error that leaves the outcome open."""
        self._running += 1
        self._idle.clear()
        try:
            yield
        except BaseException as exc:
            # A cancellation or a defect of ours says nothing about the outcome.
            if not (isinstance(exc, HedwigError) and exc.happened == "no"):
                self.doubt()
            raise
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()


@asynccontextmanager
async def passing(gate: WriteGate | None) -> AsyncIterator[None]:
    """Let the body, which is a write, through `gate` if there is one. Raises: as `WriteGate.enter`."""
    if gate is None:
        yield
        return
    await gate.enter()
    with gate.under_way():
        yield


class GatedTable(TableOver[R]):
    """A VersionedTable over another. Its writes go through a gate, its reads do not."""

    def __init__(self, table: VersionedTable[R], gate: WriteGate) -> None:
        super().__init__(table)
        self._gate = gate

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        deadline = await self._gate.enter(deadline)
        with self._gate.under_way():
            return await self._table.write(key, record, version, merge=merge, deadline=deadline)

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        deadline = await self._gate.enter(deadline)
        with self._gate.under_way():
            await self._table.delete(key, version, deadline)

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        if all(isinstance(operation, Read) for operation in operations):
            return await self._table.apply(operations, deadline)
        try:
            deadline = await self._gate.enter(deadline)
        except MetadataUnavailableError as exc:
            return await reads_only(self._table, operations, exc, deadline)
        with self._gate.under_way():
            outcomes = await self._table.apply(operations, deadline)
            if any(isinstance(outcome.error, UncertainStateError) for outcome in outcomes):
                self._gate.doubt()
        return outcomes


async def reads_only(
    table: VersionedTable[R],
    operations: Sequence[Operation[R]],
    error: MetadataUnavailableError,
    deadline: Deadline | None,
) -> list[Outcome[R]]:
    """Run the reads among `operations`; return `error` as the outcome of each write."""
    reads = [operation for operation in operations if isinstance(operation, Read)]
    read: list[Outcome[R]] = await table.apply(reads, deadline) if reads else []
    outcomes = iter(read)
    return [next(outcomes) if isinstance(operation, Read) else Outcome(error=error) for operation in operations]
