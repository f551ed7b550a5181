"""What the logs of all topics share: the stores of messages and ranges, and the background tasks."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from hedwig.clock import Clock, SystemClock
from hedwig.concurrency.keyed_lock import KeyedLock
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import LedgerStoreUnavailableError
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.logs.repeats import Repeats
from hedwig.hub.logs.small_ranges import LargeLedgers
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import TopicPersistenceManager
from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.model import Topic

__all__ = ["LogContext"]

T = TypeVar("T")

_COPIES_MAX: Final = 4
"""How many topics copy messages at once; each holds a few mebibytes of them in memory."""


@dataclass(frozen=True, slots=True)
class LogContext:
    """The stores in which logs keep their messages and their ranges.

    Logs delete ledgers through `deletions` only. `tasks` are the changes of ledgers under way. To change the range
    record of a topic, a log holds the topic's lock in `record_turns`.
    """

    ledgers: LedgerStore
    persistence: TopicPersistenceManager
    options: HubOptions
    tails: RecentMessages
    region: bytes
    deletions: LedgerDeletions
    clock: Clock = field(default_factory=SystemClock)
    stores_once: bool = True
    """Whether this hub stores a message once that is published again."""
    repeats: Repeats = field(init=False)
    tasks: Tasks = field(default_factory=Tasks, init=False)
    record_turns: KeyedLock = field(default_factory=KeyedLock, init=False)
    large: LargeLedgers = field(default_factory=LargeLedgers, init=False)
    """The ledgers that are too large to be worth merging."""
    _creating: set[asyncio.Future[None]] = field(default_factory=set, init=False)
    _making: set[int] = field(default_factory=set, init=False)
    """The ledgers that are made and not on record yet."""
    _turns: asyncio.Semaphore = field(init=False)
    _copies: asyncio.Semaphore = field(init=False)
    _reads: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "repeats", Repeats(self.options, self.clock, is_on=self.stores_once))
        object.__setattr__(self, "_turns", asyncio.Semaphore(self.options.ledger_changes_max))
        object.__setattr__(self, "_copies", asyncio.Semaphore(_COPIES_MAX))
        object.__setattr__(self, "_reads", asyncio.Semaphore(self.options.reads_max))

    def ledger_turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context that waits for a turn to make a ledger.

        After a takeover of many topics, all would make ledgers at once. That would keep the store of the ledgers'
        metadata busy for longer than other requests to it may wait.

        Raises: LedgerStoreUnavailableError - no turn came in time.
        """
        return self._turn(self._turns, "too many ledgers are being made already")

    def copy_turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context that waits for a turn to copy messages.

        Raises: LedgerStoreUnavailableError - no turn came in time.
        """
        return self._turn(self._copies, "too many ledgers are being copied already")

    @asynccontextmanager
    async def _turn(self, turns: asyncio.Semaphore, refusal: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.options.operation_timeout_s):
                await turns.acquire()
        except TimeoutError as exc:
            raise LedgerStoreUnavailableError(refusal) from exc
        try:
            yield
        finally:
            turns.release()

    async def new_ledger(self, topic: Topic) -> int:
        """Make a ledger, and return its id; delete what a failure may leave. Raises: LedgerError, TimeoutError."""
        creating: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._creating.add(creating)
        try:
            ledger_id = await self.within(self.ledgers.create({"topic": topic}, self.deletions.undo))
            self._making.add(ledger_id)
            return ledger_id
        finally:
            self._creating.discard(creating)
            creating.set_result(None)

    async def drop(self, ledger_id: int) -> None:
        """Delete a new ledger that no record names. If the call is cancelled, the deletion goes on."""
        self._making.discard(ledger_id)
        await self.deletions.delete((ledger_id,))

    def recorded(self, ledger_ids: Iterable[int]) -> None:
        """Record that a range record names these ledgers."""
        self._making.difference_update(ledger_ids)

    async def in_the_making(self) -> frozenset[int]:
        """Return the ledgers that exist now, and that a record may name later."""
        if self._creating:
            await asyncio.wait(list(self._creating))
        return frozenset(self._making)

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> Sequence[bytes]:
        """Read as LedgerStore.read does, once fewer than `reads_max` reads are running, and with the deadline.

        Reads of a shared log wait together, however many there are, because they share the batches that they wait for.
        They need no deadline: a pass over a segment ends, and each of its steps ends by a deadline of the bookies.

        Raises: LedgerError; TimeoutError.
        """
        reading = partial(self.ledgers.read, ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)
        if is_virtual(ledger_id):
            return await reading()
        async with self._reads:
            return await self.within(reading())

    async def bytes_from(self, ledger_id: int, first_entry_id: int, *, enough: int) -> int:
        """Count as LedgerStore.bytes_from does, in turn with the reads. Raises: LedgerError; TimeoutError."""
        async with self._reads:
            return await self.within(self.ledgers.bytes_from(ledger_id, first_entry_id, enough=enough))

    async def within(self, operation: Coroutine[Any, Any, T]) -> T:
        """Await `operation`, with the deadline of the hub's options. Raises: TimeoutError."""
        async with asyncio.timeout(self.options.operation_timeout_s):
            return await operation
