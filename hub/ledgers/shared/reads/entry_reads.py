"""The reads of entries of segments, for all who wait for them, in passes over each segment.

Thousands of subscribers may be behind at once, and each needs few records of many batches. Each waits here for the next
batch that it needs. A pass over a segment reads that batch once for all who wait for it then. Whoever got it waits for
a later batch next, which is still ahead in the same pass.

Each pass ends at the end of its segment, and segments take turns. So nobody waits for ever.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

from hedwig.concurrency.tasks import Tasks
from hedwig.errors import CorruptEntryError, LedgerError, LedgerStoreClosedError
from hedwig.hub.ledgers.shared.entries.batches import BATCH_BYTES_MAX
from hedwig.hub.ledgers.shared.entries.columns import DamagedEntryError
from hedwig.hub.ledgers.shared.reads.entry_cache import EntryCache

__all__ = ["EntryReads", "SegmentLedgers"]

T = TypeVar("T")

_SEGMENTS_MAX: Final = 16
"""So many segments are read at once."""
_CROWD: Final = 64
"""If more readers wait, one segment is read at a time. Else the first who are through would go ahead of the others, and
these would need another pass over the next segment."""
_TURN_STEPS: Final = 32
_STEP_ENTRIES_MAX: Final = 64
_STEP_BYTES: Final = 32 * BATCH_BYTES_MAX
"""A step reads about so much at once, and serves it before the next step."""
_SERVED_AT_ONCE: Final = 64
"""So many readers go on in one turn of the event loop. Each takes some 0.1 ms, in which the hub does nothing else."""
_TURNS_TO_ASK: Final = 2
"""After so many turns of the event loop, those who were served wait for the next entry that they need."""


class SegmentLedgers(Protocol):
    """The ledgers of segments, to be read: a LedgerStore, or what looks at the ledgers of one from outside."""

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        """Return payloads; see LedgerStore."""
        ...

    async def last_entry_id(self, ledger_id: int) -> int:
        """Return the last entry that can be read, -1 for none; see LedgerStore."""
        ...


class EntryReads(Generic[T]):
    """Reads entries of the store below through a cache. All who wait for an entry share it.

    `decode` raises DamagedEntryError for bytes that are damaged.
    """

    def __init__(self, ledgers: SegmentLedgers, cache: EntryCache[T], decode: Callable[[bytes], T]) -> None:
        self._ledgers = ledgers
        self._cache = cache
        self._decode = decode
        self._passes: dict[int, _Pass[T]] = {}
        """By ledger. It is there while somebody waits for an entry of the ledger."""
        self._queue: deque[int] = deque()
        """The ledgers whose passes wait for their turn."""
        self._turns = Tasks()
        self._is_closed = False
        self._readers = 0
        """How many wait, those included that were cancelled meanwhile."""
        self.entries = 0
        """How many entries were read."""
        self.size = 0
        """How many bytes they had."""

    def get(self, ledger: int, entry: int) -> "asyncio.Future[T]":
        """Return the future of an entry. A caller that does not need it any more cancels the future.

        The future raises: CorruptEntryError - the entry is damaged; LedgerError - it cannot be read now, or ever.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        known = self._cache.get(ledger, entry)
        if known is not None:
            future.set_result(known)
        elif self._is_closed:
            future.set_exception(LedgerStoreClosedError())
        else:
            following = self._passes.get(ledger)
            if following is None:
                following = self._passes[ledger] = _Pass()
                self._queue.append(ledger)
            following.add(entry, future)
            self._readers += 1
            self._pump()
        return future

    def in_memory(self, ledger: int, entry: int) -> T | None:
        """Return an entry if it is in memory."""
        return self._cache.get(ledger, entry)

    async def aclose(self) -> None:
        """Read nothing any more, and refuse those who wait."""
        self._is_closed = True
        await self._turns.cancel()
        for following in self._passes.values():
            for entry in list(following.waiting):
                self._fail(following, entry, LedgerStoreClosedError())
        self._passes.clear()
        self._queue.clear()

    def _pump(self) -> None:
        while self._queue and len(self._turns) < (1 if self._readers > _CROWD else _SEGMENTS_MAX):
            ledger = self._queue.popleft()
            self._turns.start(self._turn(ledger, self._passes[ledger])).add_done_callback(self._on_turn_over)

    def _on_turn_over(self, _: "asyncio.Task[None]") -> None:
        if not self._is_closed:
            self._pump()

    async def _turn(self, ledger: int, following: "_Pass[T]") -> None:
        """Go on with the pass over a segment, until nobody waits for an entry of it, or others have their turn."""
        try:
            for _ in range(_TURN_STEPS):
                entries, given_up = following.take()
                self._readers -= given_up
                if not entries:
                    del self._passes[ledger]
                    return
                await self._step(ledger, following, entries)
            self._queue.append(ledger)
        except Exception as exc:
            for entry in list(following.waiting):
                self._fail(following, entry, exc)
            del self._passes[ledger]
            raise

    async def _step(self, ledger: int, following: "_Pass[T]", entries: Sequence[int]) -> None:
        """Read some entries at once, and serve them one by one."""
        parts = list(_contiguous(entries))
        reads = await asyncio.gather(*(self._read(ledger, part) for part in parts), return_exceptions=True)
        decoded: dict[int, T] = {}
        for part, read in zip(parts, reads, strict=True):
            unread = iter(part)
            if isinstance(read, CorruptEntryError):
                self._fail(following, next(unread), read)
            elif isinstance(read, BaseException):
                for entry in unread:
                    self._fail(following, entry, read)
            else:
                for data, entry in zip(read, unread, strict=False):
                    following.note(len(data))
                    self._decode_one(ledger, following, entry, data, decoded)
            following.put_back(unread)
        for entry, each in decoded.items():
            await self._serve(following, entry, each)
        for _ in range(_TURNS_TO_ASK):
            await asyncio.sleep(0)

    async def _read(self, ledger: int, entries: range) -> list[bytes]:
        # No batch is larger, unless it has only one record.
        bytes_max = len(entries) * BATCH_BYTES_MAX
        read = await self._ledgers.read(ledger, entries.start, entries_max=len(entries), bytes_max=bytes_max)
        if not read:
            raise LedgerError(f"ledger {ledger} ends before entry {entries.start}")
        self.entries += len(read)
        self.size += sum(map(len, read))
        return read

    def _decode_one(self, ledger: int, following: "_Pass[T]", entry: int, data: bytes, decoded: dict[int, T]) -> None:
        try:
            decoded[entry] = self._decode(data)
        except DamagedEntryError as exc:
            self._fail(following, entry, CorruptEntryError(str(exc), f"ledger {ledger}", entry))
        else:
            # Before any reader goes on, so that it finds what it needs next.
            self._cache.put(ledger, entry, decoded[entry])

    async def _serve(self, following: "_Pass[T]", entry: int, decoded: T) -> None:
        readers = following.waiting.pop(entry)
        self._readers -= len(readers)
        for number, future in enumerate(readers, start=1):
            if not future.done():
                future.set_result(decoded)
            if number % _SERVED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _fail(self, following: "_Pass[T]", entry: int, error: BaseException) -> None:
        """Refuse all who wait for an entry."""
        readers = following.waiting.pop(entry)
        self._readers -= len(readers)
        for future in readers:
            if not future.done():
                future.set_exception(error)


class _Pass(Generic[T]):
    """The entries of one segment that are wanted, and how far the present pass over it is."""

    __slots__ = ("_ahead", "_behind", "_position", "_typical_size", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, list[asyncio.Future[T]]] = {}
        """Those who wait, by entry; also for entries that are being read."""
        self._position = 0
        self._ahead: list[int] = []
        """A heap of the entries that this pass has not read yet."""
        self._behind: list[int] = []
        """The entries that wait for the next pass, since this one is past them."""
        self._typical_size = BATCH_BYTES_MAX
        """About how many bytes the entries have."""

    def add(self, entry: int, future: "asyncio.Future[T]") -> None:
        """Let somebody wait for an entry."""
        futures = self.waiting.get(entry)
        if futures is not None:
            futures.append(future)
            return
        self.waiting[entry] = [future]
        if entry < self._position:
            self._behind.append(entry)
        else:
            heappush(self._ahead, entry)

    def take(self) -> tuple[list[int], int]:
        """Return the next entries to read, none if nobody waits; and how many have waited for others and gave up."""
        entries: list[int] = []
        given_up = 0
        most = max(1, min(_STEP_ENTRIES_MAX, _STEP_BYTES // self._typical_size))
        while len(entries) < most and (self._ahead or (self._behind and not entries)):
            if not self._ahead:
                self._position = 0
                self._ahead, self._behind = self._behind, []
                heapify(self._ahead)
            entry = heappop(self._ahead)
            if all(future.done() for future in self.waiting[entry]):
                given_up += len(self.waiting.pop(entry))
            else:
                entries.append(entry)
                self._position = entry + 1
        return entries, given_up

    def put_back(self, entries: Iterator[int]) -> None:
        """Read entries after all that were taken and not read."""
        for entry in entries:
            heappush(self._ahead, entry)

    def note(self, size: int) -> None:
        """Note the size of an entry."""
        self._typical_size += (size - self._typical_size) // 8


def _contiguous(entries: Sequence[int]) -> Iterator[range]:
    """Yield the ranges of entries that follow each other. They are sorted."""
    start = 0
    for number in range(1, len(entries) + 1):
        if number == len(entries) or entries[number] != entries[number - 1] + 1:
            yield range(entries[start], entries[number - 1] + 1)
            start = number
