"""Read entries, from the first bookie of the write set that has a sound copy."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

from hedwig.errors import CorruptEntryError, LedgerStoreUnavailableError
from hedwig.hub.ledgers.bookkeeper.bookies.bookies import ask
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata
from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest
from hedwig.hub.ledgers.bookkeeper.wire.entries import Entry, UnverifiedError, decode_entry
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import BookieAnswer, ReadEntry

__all__ = ["ReadAhead", "ask_for_entry", "read_entry", "read_length", "read_payloads"]

T = TypeVar("T")

_LOST_MAX: Final = 16
"""How many lost entries `read_length` passes over."""


async def ask_for_entry(
    cluster: BookieCluster, bookie: str, ledger_id: int, entry_id: int, digest: Digest, fence_key: bytes | None = None
) -> tuple[BookieAnswer, Entry | None]:
    """Ask one bookie for an entry; the entry is there if the outcome is DONE."""
    request = ReadEntry(ledger_id=ledger_id, entry_id=entry_id, fence_key=fence_key)
    answer = await ask(cluster.bookies, bookie, request, cluster.options.read_timeout_s)
    return _verified(answer, ledger_id, entry_id, digest)


def _verified(answer: BookieAnswer, ledger_id: int, entry_id: int, digest: Digest) -> tuple[BookieAnswer, Entry | None]:
    if answer.outcome is not BookieOutcome.DONE:
        return answer, None
    try:
        return answer, decode_entry(digest, ledger_id, entry_id, answer.body)
    except UnverifiedError as exc:
        return replace(answer, outcome=BookieOutcome.UNVERIFIED, why=str(exc)), None


async def read_entry(
    cluster: BookieCluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, entry_id: int
) -> Entry:
    """Return an acknowledged entry. It asks the next bookie when one fails or is slow.

    Raises: CorruptEntryError - every bookie answered, and none has a sound copy; LedgerStoreUnavailableError - some did
        not answer.
    """
    bookies = metadata.ensemble_of(entry_id).bookies
    suspects = cluster.suspects.current()
    order = [bookies[position] for position in metadata.quorums.write_set(entry_id)]
    if suspects:
        order.sort(key=lambda bookie: bookie in suspects)
    request = ReadEntry(ledger_id=ledger_id, entry_id=entry_id)
    answers = _Answers()
    failures: dict[str, BookieAnswer] = {}
    asked = 0
    while len(failures) < len(order):
        if asked < len(order):
            done = partial(answers.take, order[asked])
            cluster.bookies.send(order[asked], request, cluster.options.read_timeout_s, done)
            asked += 1
        reply = await answers.next(cluster.options.speculative_read_s if asked < len(order) else None)
        if reply is None:
            # Without this, every entry of a ledger would wait for the same bookie.
            cluster.suspects.add(order[asked - 1])
            continue
        bookie, answer = reply
        answer, entry = _verified(answer, ledger_id, entry_id, digest)
        if entry is not None:
            return entry
        failures[bookie] = answer
        if answer.outcome in (BookieOutcome.NOT_SENT, BookieOutcome.UNANSWERED):
            cluster.suspects.add(bookie)
    what = f"entry {entry_id} of ledger {ledger_id}"
    text = "; ".join(f"{bookie}: {answer}" for bookie, answer in failures.items())
    if all(answer.outcome.is_absence or answer.outcome is BookieOutcome.UNVERIFIED for answer in failures.values()):
        raise CorruptEntryError(f"{what} is lost: {text}", f"ledger {ledger_id}", entry_id)
    raise LedgerStoreUnavailableError(f"{what} cannot be read now: {text}")


async def read_length(
    cluster: BookieCluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, entry_id: int
) -> int:
    """Return how many bytes the payloads up to an acknowledged entry have, as its writer has counted them.

    In place of a lost entry, it looks at one before. Raises: as `read_entry`, if too many are lost.
    """
    for before in range(entry_id, -1, -1):
        try:
            return (await read_entry(cluster, ledger_id, metadata, digest, before)).length
        except CorruptEntryError:
            if entry_id - before >= _LOST_MAX:
                raise
    return 0


class _Answers:
    """The answers of several bookies to one reader. A task for each would take longer than all else here."""

    __slots__ = ("_came", "_waiter")

    def __init__(self) -> None:
        self._came: list[tuple[str, BookieAnswer]] = []
        self._waiter: asyncio.Future[None] | None = None

    def take(self, bookie: str, answer: BookieAnswer) -> None:
        self._came.append((bookie, answer))
        self._wake()

    async def next(self, timeout_s: float | None) -> tuple[str, BookieAnswer] | None:
        """Return an answer, None if there is none in time. Without a limit one comes: each request is answered."""
        if not self._came:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout_s, self._wake) if timeout_s is not None else None
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        return self._came.pop(0) if self._came else None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ReadAhead(Generic[T]):
    """Reads consecutive entries by `read(entry_id)`, at most `depth` at once, and returns the results in order.

    If the last entry is unknown, it begins with one read at a time and doubles that, since most ends are near. The
    caller closes it at the end.
    """

    def __init__(self, read: Callable[[int], Coroutine[Any, Any, T]], first: int, last: int | None, depth: int) -> None:
        self._read = read
        self._next = first
        self._last = last
        self._depth_max = depth
        self._depth = depth if last is not None else 1
        self._tasks: deque[asyncio.Task[T]] = deque()

    async def next(self) -> T:
        """Return the next result; the caller knows that there is one. Raises: what `read` raises."""
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
        """Cancel the reads in progress."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.exception()  # No caller needs the error.
        self._tasks.clear()


async def read_payloads(
    cluster: BookieCluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, entries: range, bytes_max: int
) -> list[bytes]:
    """Return the payloads of consecutive entries, at most `bytes_max` bytes unless the first payload is larger.

    The list ends before an entry that cannot be read.

    Raises: CorruptEntryError - the first entry is lost; LedgerStoreUnavailableError - it cannot be read now.
    """

    async def read(entry_id: int) -> Entry:
        return await read_entry(cluster, ledger_id, metadata, digest, entry_id)

    payloads: list[bytes] = []
    size = 0
    coming = ReadAhead(read, entries.start, entries.stop - 1, cluster.options.read_ahead)
    try:
        for _ in entries:
            try:
                entry = await coming.next()
            except (CorruptEntryError, LedgerStoreUnavailableError):
                if not payloads:
                    raise
                break
            size += len(entry.payload)
            if payloads and size > bytes_max:
                break
            payloads.append(entry.payload)
    finally:
        await coming.aclose()
    return payloads
