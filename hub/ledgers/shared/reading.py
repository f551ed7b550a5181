"""Reading from sealed segments: which batches have the records of a slot, and these records."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

from hedwig.errors import CorruptEntryError, LedgerError
from hedwig.hub.ledgers.shared.batch_cache import BatchCache
from hedwig.hub.ledgers.shared.batches import Batch, DamagedBatchError
from hedwig.hub.ledgers.shared.footers import DamagedFooterError, Root, decode_block, is_footer
from hedwig.hub.ledgers.shared.runs import Run, Runs
from hedwig.metadata.logs.record import Segment

__all__ = ["SegmentLedgers", "SegmentReader", "batches_of"]

K = TypeVar("K")
V = TypeVar("V")

_ROOTS_MAX: Final = 4096
"""A root has 2 KB for a segment of 64 MiB of small messages."""
_READ_BYTES_MAX: Final = 1 << 20
_BLOCKS_MAX: Final = 512
"""A block has up to 20 KB."""
_SCAN_BYTES_MAX: Final = 4 << 20
_SCAN_ENTRIES_MAX: Final = 1024


class SegmentLedgers(Protocol):
    """The ledgers of segments, to be read: a LedgerStore, or what looks at the ledgers of one from outside."""

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        """Return payloads; see LedgerStore."""
        ...

    async def last_entry_id(self, ledger_id: int) -> int:
        """Return the last entry that can be read, -1 for none; see LedgerStore."""
        ...


class SegmentReader:
    """Reads sealed segments, and batches of any."""

    def __init__(self, ledgers: SegmentLedgers, cache: BatchCache) -> None:
        self._ledgers = ledgers
        self._cache = cache
        self._roots: OrderedDict[int, tuple[int, Root]] = OrderedDict()
        """By the ledger of the footer: the entry of the root, and the root."""
        self._blocks: OrderedDict[tuple[int, int], Runs] = OrderedDict()

    async def runs(self, segment: Segment, slot: int, entry_id: int) -> list[Run]:
        """Return the runs of a slot in a segment, from the one on that has `entry_id` or is next behind it.

        It reads at most one block ahead of those that it needs. Raises: LedgerError.
        """
        if not segment.lowest_slot <= slot <= segment.highest_slot:
            return []
        root_entry, root = await self._root(segment)
        found: list[Run] = []
        for number in root.blocks_of(slot, entry_id):
            block = await self._block(segment.footer, root_entry - root.blocks + number)
            found += block.following(slot, entry_id)
        return found

    async def last_run(self, segment: Segment, slot: int) -> Run | None:
        """Return the last run of a slot in a segment, None if there is none. Raises: LedgerError."""
        if not segment.lowest_slot <= slot <= segment.highest_slot:
            return None
        root_entry, root = await self._root(segment)
        for number in reversed(root.blocks_of(slot)):
            block = await self._block(segment.footer, root_entry - root.blocks + number)
            if (run := block.last_of(slot)) is not None:
                return run
        return None

    async def blocks(self, segment: Segment) -> AsyncIterator[Runs]:
        """Yield all runs of a segment, in their order. Raises: LedgerError."""
        root_entry, root = await self._root(segment)
        for entry in range(root_entry - root.blocks, root_entry):
            # Whoever wants all blocks wants each once, so they are not kept.
            known = self._blocks.get((segment.footer, entry))
            yield known or await self._read_block(segment.footer, entry)
            await asyncio.sleep(0)

    async def payloads(
        self, slot: int, first: int, runs: Sequence[tuple[int, Run]], entries_max: int, bytes_max: int
    ) -> list[bytes]:
        """Return the payloads from entry `first` on, without gap; at least one if there are runs.

        `runs` are ledgers and runs, in order.

        Raises: LedgerError; CorruptEntryError - the first entry is in a damaged batch.
        """
        payloads: list[bytes] = []
        size = 0
        ahead: dict[tuple[int, int], Batch] = {}
        wanted = list(_needed(runs, first, entries_max, bytes_max))
        for number, (ledger, run) in enumerate(wanted):
            try:
                batch = await self._batch(ledger, run.batch, wanted[number:], ahead)
            except CorruptEntryError:
                if payloads:
                    return payloads
                raise
            for entry_id, payload in batch.of(slot):
                if entry_id != first + len(payloads):
                    continue
                size += len(payload)
                if payloads and (size > bytes_max or len(payloads) == entries_max):
                    return payloads
                payloads.append(payload)
        if runs and not payloads:
            # The batch was left out when the segment was sealed, since it was damaged.
            ledger = runs[0][0]
            raise CorruptEntryError(f"entry {first} of slot {slot} is lost", f"ledger {ledger}", runs[0][1].batch)
        return payloads

    async def _batch(
        self, ledger: int, entry: int, following: Sequence[tuple[int, Run]], ahead: dict[tuple[int, int], Batch]
    ) -> Batch:
        """Return a batch. What is read with it are batches of the same ledger that are needed next.

        They wait in `ahead`, however little the cache holds. So each is read once.
        """
        batch = ahead.pop((ledger, entry), None) or self._cache.get(ledger, entry)
        if batch is not None:
            return batch
        count = 0
        for each, run in following:
            if each != ledger or run.batch != entry + count or self._cache.get(each, run.batch) is not None:
                break
            count += 1
        read = await self._ledgers.read(ledger, entry, entries_max=max(count, 1), bytes_max=_READ_BYTES_MAX)
        if not read:
            raise LedgerError(f"ledger {ledger} ends before batch {entry}")
        for number, data in enumerate(read):
            try:
                batch = Batch.decode(data)
            except DamagedBatchError as exc:
                if number:
                    break
                raise CorruptEntryError(str(exc), f"ledger {ledger}", entry) from exc
            self._cache.put(ledger, entry + number, batch)
            ahead[ledger, entry + number] = batch
        return ahead.pop((ledger, entry))

    async def _root(self, segment: Segment) -> tuple[int, Root]:
        known = self._roots.get(segment.footer)
        if known is None:
            entry = await self._ledgers.last_entry_id(segment.footer)
            (data,) = await self._ledgers.read(segment.footer, entry, entries_max=1, bytes_max=0)
            try:
                known = entry, Root.decode(data)
            except DamagedFooterError as exc:
                raise CorruptEntryError(str(exc), f"ledger {segment.footer}", entry) from exc
            _keep(self._roots, segment.footer, known, _ROOTS_MAX)
        else:
            self._roots.move_to_end(segment.footer)
        return known

    async def _block(self, footer: int, entry: int) -> Runs:
        known = self._blocks.get((footer, entry))
        if known is None:
            known = await self._read_block(footer, entry)
            _keep(self._blocks, (footer, entry), known, _BLOCKS_MAX)
        else:
            self._blocks.move_to_end((footer, entry))
        return known

    async def _read_block(self, footer: int, entry: int) -> Runs:
        (data,) = await self._ledgers.read(footer, entry, entries_max=1, bytes_max=0)
        try:
            return decode_block(data)
        except DamagedFooterError as exc:
            raise CorruptEntryError(str(exc), f"ledger {footer}", entry) from exc


async def batches_of(
    ledgers: SegmentLedgers,
    ledger: int,
    last_entry: int,
    first_entry: int = 0,
    *,
    on_damaged: Callable[[CorruptEntryError], object] | None = None,
) -> AsyncIterator[tuple[int, Batch]]:
    """Yield the batches of a segment from `first_entry` up to `last_entry`, or to its footer, with their entries.

    Args: on_damaged - called for each damaged batch, which is left out; None: the first one is raised.
    Raises: LedgerError; CorruptEntryError - one is damaged.
    """
    entry = first_entry
    while entry <= last_entry:
        try:
            read = await ledgers.read(
                ledger, entry, entries_max=min(_SCAN_ENTRIES_MAX, last_entry - entry + 1), bytes_max=_SCAN_BYTES_MAX
            )
        except CorruptEntryError as exc:
            if on_damaged is None:
                raise
            on_damaged(exc)
            entry += 1
            continue
        if not read:
            raise LedgerError(f"ledger {ledger} ends before entry {entry}, though its last is {last_entry}")
        for data in read:
            if is_footer(data):
                return
            try:
                yield entry, Batch.decode(data)
            except DamagedBatchError as exc:
                damage = CorruptEntryError(str(exc), f"ledger {ledger}", entry)
                if on_damaged is None:
                    raise damage from exc
                on_damaged(damage)
            entry += 1
        await asyncio.sleep(0)


def _needed(runs: Iterable[tuple[int, Run]], first: int, entries_max: int, bytes_max: int) -> Iterator[tuple[int, Run]]:
    """Yield the runs that may be needed for so many entries and bytes."""
    entries = size = 0
    for ledger, run in runs:
        yield ledger, run
        entries += run.last - max(run.first, first) + 1
        # Of the first run some entries may be before those that are asked for.
        size += run.size if run.first >= first else 0
        if entries >= entries_max or size > bytes_max:
            return


def _keep(held: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    held[key] = value
    if len(held) > most:
        held.popitem(last=False)
