"""What the logs of all topics share: where messages and ranges are kept, and the work that nobody awaits."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hub.ledgers import LedgerStore
from hub.options import HubOptions
from hub.tail import TailMemory
from hub.tasks import Tasks
from metadata import TopicPersistenceManager

__all__ = ["LogStore"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogStore:
    """Where logs keep their messages and their ranges. `tasks` are the changes of ranges under way.

    `ledger_turns` bounds the ledgers that are made at once: after a takeover of many topics they would keep the store
    of the ledgers' records busy for longer than other requests to it may wait.
    """

    ledgers: LedgerStore
    persistence: TopicPersistenceManager
    options: HubOptions
    tails: TailMemory
    region: bytes
    tasks: Tasks = field(default_factory=Tasks, init=False)
    ledger_turns: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ledger_turns", asyncio.Semaphore(self.options.ledger_changes_max))

    async def within(self, operation: Coroutine[Any, Any, T]) -> T:
        """Await `operation`, with the deadline of the hub's options. Raises: TimeoutError."""
        async with asyncio.timeout(self.options.operation_timeout_s):
            return await operation
