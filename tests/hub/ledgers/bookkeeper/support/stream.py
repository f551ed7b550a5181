"""A stream of appends to one ledger, and the outcome of each."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from hedwig.hub.ledgers import LedgerStore
from tests.hub.ledgers.support.contents import payload

__all__ = ["Stream"]

_DEADLINE_S = 60.0


class Stream:
    """Appends to a ledger with a fixed number in flight, until it is stopped or an append fails."""

    def __init__(self, store: LedgerStore, ledger_id: int, in_flight: int = 32) -> None:
        self.store = store
        self.ledger_id = ledger_id
        self.acknowledged: list[int] = []
        """The entries that were acknowledged, in that order."""
        self.errors: list[BaseException] = []
        self.longest_wait_s = 0.0
        """The longest time without an acknowledgement while appends were under way."""
        self._room = asyncio.Semaphore(in_flight)
        self._in_flight = in_flight
        self._heard_at = time.monotonic()
        self._news = asyncio.Event()
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    async def reach(self, count: int) -> None:
        """Wait until `count` more entries are acknowledged than now."""
        goal = len(self.acknowledged) + count
        await self._until(lambda: len(self.acknowledged) >= goal or bool(self.errors))
        assert not self.errors, self.errors[0]

    async def fail(self) -> BaseException:
        """Wait until an append fails, and return its error."""
        await self._until(lambda: bool(self.errors))
        await self._task
        return self.errors[0]

    async def stop(self) -> int:
        """Stop appending, wait for the appends under way, and return the number of acknowledged entries."""
        self._stopping = True
        async with asyncio.timeout(_DEADLINE_S):
            await self._task
        assert self.acknowledged == list(range(len(self.acknowledged))), "acknowledged out of order"
        return len(self.acknowledged)

    async def _run(self) -> None:
        entry = 0
        while not self._stopping and not self.errors:
            await self._room.acquire()
            data = payload(self.ledger_id, entry, 60 + entry % 90)
            self.store.start_append(self.ledger_id, entry, data).add_done_callback(partial(self._note, entry))
            entry += 1
        for _ in range(self._in_flight):
            await self._room.acquire()

    def _note(self, entry: int, done: "asyncio.Future[None]") -> None:
        self._room.release()
        now = time.monotonic()
        self.longest_wait_s, self._heard_at = max(self.longest_wait_s, now - self._heard_at), now
        error = done.exception()
        if error is None:
            self.acknowledged.append(entry)
        else:
            self.errors.append(error)
        self._news.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_DEADLINE_S):
            while not condition():
                self._news.clear()
                await self._news.wait()
