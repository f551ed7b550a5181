"""What the logs of all topics share: where messages and ranges are kept, and the work that nobody awaits."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hedwig.errors import LedgerStoreUnavailableError
from hub.ledger_deletions import LedgerDeletions
from hub.ledgers import LedgerStore
from hub.options import HubOptions
from hub.tail import TailMemory
from hub.tasks import Tasks
from hub.turns import Turns
from metadata import TopicPersistenceManager

__all__ = ["LogStore"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogStore:
    """Where logs keep their messages and their ranges.

    Ledgers are deleted through `deletions` only. `tasks` are the changes of ledgers under way. The range record of a
    topic is changed in its turn among `record_turns`.
    """

    ledgers: LedgerStore
    persistence: TopicPersistenceManager
    options: HubOptions
    tails: TailMemory
    region: bytes
    deletions: LedgerDeletions
    tasks: Tasks = field(default_factory=Tasks, init=False)
    record_turns: Turns = field(default_factory=Turns, init=False)
    _turns: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_turns", asyncio.Semaphore(self.options.ledger_changes_max))

    @asynccontextmanager
    async def ledger_turn(self) -> AsyncIterator[None]:
        """Wait for a turn to make a ledger.

        After a takeover of many topics all of them at once would keep the store of the ledgers' records busy for longer
        than other requests to it may wait. Raises: LedgerStoreUnavailableError - none came in time.
        """
        try:
            async with asyncio.timeout(self.options.operation_timeout_s):
                await self._turns.acquire()
        except TimeoutError as exc:
            raise LedgerStoreUnavailableError("too many ledgers are being made already") from exc
        try:
            yield
        finally:
            self._turns.release()

    async def within(self, operation: Coroutine[Any, Any, T]) -> T:
        """Await `operation`, with the deadline of the hub's options. Raises: TimeoutError."""
        async with asyncio.timeout(self.options.operation_timeout_s):
            return await operation
