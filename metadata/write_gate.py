"""The gate through which all writes of a process go to its store, so that they can be held back, every one of them.

A gate that is closed lets no write begin, and whoever closes it waits until none is under way. A write whose outcome is
not known may still come into effect for a while: until that has passed, nobody may take the gate for closed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Generic, TypeVar

from hedwig.clock import Clock
from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.model import SubscriberId, Topic
from hedwig.versions import Version, Versioned
from metadata.operations import Operation, Outcome, Read, RecordKey
from metadata.table import VersionedTable

__all__ = ["GatedTable", "WriteGate"]

R = TypeVar("R")

_DOUBT: Final = 2
"""For how many operation timeouts a write of unknown outcome may come into effect yet.

One is what the store has for it; the other is for what a store that was slow, or a network, did not forget in time.
"""


class WriteGate:
    """Open, held (writes wait for a decision, no longer than an operation may) or closed (writes are refused)."""

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
        """Return why writes are refused; None if they are not."""
        return self._why

    @property
    def running(self) -> int:
        """How many writes are under way."""
        return self._running

    def hold(self) -> None:
        """Have writes wait until `open` or `close` is called."""
        self._decided.clear()

    def open(self) -> None:
        """Let writes through."""
        self._why = None
        self._open.set()
        self._decided.set()

    def close(self, why: str) -> None:
        """Refuse writes that have not begun; `why` is for whoever is refused."""
        self._why = why
        self._open.clear()
        self._decided.set()

    async def wait_open(self) -> None:
        """Wait until the gate is not closed."""
        await self._open.wait()

    async def settle(self) -> None:
        """Wait until no write is under way; may be cancelled.

        Raises: UncertainStateError - what became of one that ended a while ago is not known, and may change yet.
        """
        await self._idle.wait()
        doubt_s = self._doubt_until - self._clock.monotonic()
        if doubt_s > 0:
            raise UncertainStateError(
                "the outcome of a write of this hub is not known, and it may come into effect yet; try again in "
                f"{doubt_s:.0f} s"
            )

    async def enter(self) -> None:
        """Begin a write. Raises MetadataUnavailableError: it is refused, and surely not done."""
        if not self._decided.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await self._decided.wait()
        if not self._decided.is_set():
            raise MetadataUnavailableError("whether the metadata are frozen could not be learned in time; try again")
        if self._why is not None:
            raise MetadataUnavailableError(self._why)
        self._running += 1
        self._idle.clear()

    def leave(self, *, in_doubt: bool) -> None:
        """End a write, whose outcome is not known if it is `in_doubt`."""
        self._running -= 1
        if in_doubt:
            self._doubt_until = self._clock.monotonic() + _DOUBT * self._timeout_s
        if not self._running:
            self._idle.set()


class GatedTable(Generic[R]):
    """A VersionedTable over another, whose writes go through a gate; reads do not."""

    def __init__(self, table: VersionedTable[R], gate: WriteGate) -> None:
        self._table = table
        self._gate = gate

    async def read(self, key: RecordKey) -> Versioned[R] | None:
        return await self._table.read(key)

    async def write(self, key: RecordKey, record: R, version: Version, *, merge: bool = False) -> Version:
        await self._gate.enter()
        in_doubt = True
        try:
            version = await self._table.write(key, record, version, merge=merge)
            in_doubt = False
        except Exception as exc:
            in_doubt = not _is_definite(exc)
            raise
        finally:
            self._gate.leave(in_doubt=in_doubt)
        return version

    async def delete(self, key: RecordKey, version: Version) -> None:
        await self._gate.enter()
        in_doubt = True
        try:
            await self._table.delete(key, version)
            in_doubt = False
        except Exception as exc:
            in_doubt = not _is_definite(exc)
            raise
        finally:
            self._gate.leave(in_doubt=in_doubt)

    async def apply(self, operations: Sequence[Operation[R]]) -> list[Outcome[R]]:
        if all(isinstance(operation, Read) for operation in operations):
            return await self._table.apply(operations)
        try:
            await self._gate.enter()
        except MetadataUnavailableError as exc:
            return await self._reads_only(operations, exc)
        in_doubt = True
        try:
            outcomes = await self._table.apply(operations)
            in_doubt = any(isinstance(outcome.error, UncertainStateError) for outcome in outcomes)
        except Exception as exc:
            in_doubt = not _is_definite(exc)
            raise
        finally:
            self._gate.leave(in_doubt=in_doubt)
        return outcomes

    async def _reads_only(
        self, operations: Sequence[Operation[R]], error: MetadataUnavailableError
    ) -> list[Outcome[R]]:
        """Carry out the reads among `operations`; the writes came to `error`."""
        reads = [operation for operation in operations if isinstance(operation, Read)]
        read: list[Outcome[R]] = await self._table.apply(reads) if reads else []
        found = iter(read)
        return [next(found) if isinstance(operation, Read) else Outcome(error=error) for operation in operations]

    def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        return self._table.scan(topic)

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        return self._table.topics(prefix, start_after)

    def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]]:
        return self._table.records(prefix, start_after)

    async def count(self) -> int:
        return await self._table.count()


def _is_definite(exc: Exception) -> bool:
    """Say whether a write that ended so has its outcome; a defect of ours says nothing of it."""
    definite: Any = getattr(exc, "definite", False)
    return bool(definite)
