"""Reading entries: from the first bookie of the write set that has a sound copy."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Generic, TypeVar

from hedwig.errors import CorruptEntryError, LedgerStoreUnavailableError
from hub.ledgers.bookkeeper.bookies import ask
from hub.ledgers.bookkeeper.cluster import Cluster
from hub.ledgers.bookkeeper.digests import Digest
from hub.ledgers.bookkeeper.entries import Entry, UnverifiedError, decode_entry
from hub.ledgers.bookkeeper.ledger_metadata import LedgerMetadata
from hub.ledgers.bookkeeper.outcomes import Outcome
from hub.ledgers.bookkeeper.requests import Answer, ReadEntry

__all__ = ["ReadAhead", "ask_for_entry", "read_entry"]

T = TypeVar("T")


async def ask_for_entry(
    cluster: Cluster, bookie: str, ledger_id: int, entry_id: int, digest: Digest, fence_key: bytes | None = None
) -> tuple[Answer, Entry | None]:
    """Ask one bookie for an entry; the entry is there if the outcome is DONE."""
    request = ReadEntry(ledger_id=ledger_id, entry_id=entry_id, fence_key=fence_key)
    answer = await ask(cluster.bookies, bookie, request, cluster.options.read_timeout_s)
    if answer.outcome is not Outcome.DONE:
        return answer, None
    try:
        return answer, decode_entry(digest, ledger_id, entry_id, answer.body)
    except UnverifiedError as exc:
        return replace(answer, outcome=Outcome.UNVERIFIED, why=str(exc)), None


async def read_entry(
    cluster: Cluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, entry_id: int
) -> Entry:
    """Return an acknowledged entry. The next bookie is asked when one fails, or is slow.

    Raises: CorruptEntryError - every bookie answered, and none has a sound copy; LedgerStoreUnavailableError - some did
        not answer.
    """
    bookies = metadata.ensemble_of(entry_id).bookies
    suspects = cluster.suspects.current()
    order = [bookies[position] for position in metadata.quorums.write_set(entry_id)]
    order.sort(key=lambda bookie: bookie in suspects)
    waiting = iter(order)
    asked: dict[asyncio.Task[tuple[Answer, Entry | None]], str] = {}
    failures: dict[str, Answer] = {}
    try:
        while len(failures) < len(order):
            bookie = next(waiting, None)
            if bookie is not None:
                task = asyncio.create_task(ask_for_entry(cluster, bookie, ledger_id, entry_id, digest))
                asked[task] = bookie
            timeout_s = cluster.options.speculative_read_s if len(asked) + len(failures) < len(order) else None
            done, _ = await asyncio.wait(asked, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not done and bookie is not None:
                # Without this every entry of a ledger would wait for the same bookie.
                cluster.suspects.add(bookie)
            for task in done:
                answer, entry = task.result()
                if entry is not None:
                    return entry
                failed = asked.pop(task)
                failures[failed] = answer
                if answer.outcome in (Outcome.NOT_SENT, Outcome.UNANSWERED):
                    cluster.suspects.add(failed)
    finally:
        for task in asked:
            task.cancel()
    what = f"entry {entry_id} of ledger {ledger_id}"
    text = "; ".join(f"{bookie}: {answer}" for bookie, answer in failures.items())
    if all(answer.outcome.is_absence or answer.outcome is Outcome.UNVERIFIED for answer in failures.values()):
        raise CorruptEntryError(f"{what} is lost: {text}", f"ledger {ledger_id}", entry_id)
    raise LedgerStoreUnavailableError(f"{what} cannot be read now: {text}")


class ReadAhead(Generic[T]):
    """Results of `read(entry_id)` for consecutive entries, in order, several of them under way. Close it at the end.

    Where the last entry is not known, it begins with one at a time and doubles that: most ends are near.
    """

    def __init__(self, read: Callable[[int], Coroutine[Any, Any, T]], first: int, last: int | None, depth: int) -> None:
        self._read = read
        self._next = first
        self._last = last
        self._depth_max = depth
        self._depth = depth if last is not None else 1
        self._tasks: deque[asyncio.Task[T]] = deque()

    async def next(self) -> T:
        """Return the next result, of which there is one. Raises: what `read` raises."""
        while len(self._tasks) < self._depth and (self._last is None or self._next <= self._last):
            self._tasks.append(asyncio.create_task(self._read(self._next)))
            self._next += 1
        self._depth = min(2 * self._depth, self._depth_max)
        task = self._tasks.popleft()
        try:
            return await task
        finally:
            task.cancel()

    async def aclose(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.exception()  # Nobody wants to know.
        self._tasks.clear()
