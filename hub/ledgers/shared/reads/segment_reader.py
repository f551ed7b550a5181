"""Reading from sealed segments: which batches have the records of a slot, and these records.

A footer that is damaged or gone costs no messages: the batches say the same, once all of them are read.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import dropwhile, islice
from typing import Final

from hedwig.concurrency.keyed_work import KeyedWork
from hedwig.errors import CorruptEntryError, LedgerError, LedgerStoreClosedError, NoSuchLedgerError
from hedwig.hub.ledgers.shared.entries.batches import Batch, DamagedBatchError
from hedwig.hub.ledgers.shared.entries.columns import NUMBER_BYTES
from hedwig.hub.ledgers.shared.entries.footers import BLOCK_RUNS_MAX, DamagedFooterError, Root, decode_block, is_footer
from hedwig.hub.ledgers.shared.entries.runs import GrowingRuns, Run, Runs
from hedwig.hub.ledgers.shared.reads.entry_cache import BatchCache, EntryCache
from hedwig.hub.ledgers.shared.reads.entry_reads import EntryReads, SegmentLedgers
from hedwig.metadata.logs.record import Segment

__all__ = ["SegmentReader", "batches_of", "runs_of_ledger"]

_log = logging.getLogger(__name__)

_ROOTS_MAX: Final = 4096
"""A root has 2 KB for a segment of 64 MiB of small messages."""
_BLOCK_BYTES_MAX: Final = 16 << 20
_REBUILT_MAX: Final = 4
"""The runs of a segment of small messages take some 12 MB."""
_SCAN_BYTES_MAX: Final = 4 << 20
_SCAN_ENTRIES_MAX: Final = 1024


class SegmentReader:
    """Reads sealed segments, and batches of any."""

    def __init__(self, ledgers: SegmentLedgers, cache: BatchCache) -> None:
        self._ledgers = ledgers
        self._roots: OrderedDict[int, tuple[int, Root]] = OrderedDict()
        """By the ledger of the footer: the entry of the root, and the root."""
        self._root_reads: KeyedWork[int, tuple[int, Root]] = KeyedWork(LedgerStoreClosedError)
        self._rebuilt: OrderedDict[int, GrowingRuns] = OrderedDict()
        """By the ledger of the segment: the runs of those whose footers are damaged or gone."""
        self._rebuilding: KeyedWork[int, GrowingRuns] = KeyedWork(LedgerStoreClosedError)
        self._rebuilds = asyncio.Semaphore()
        self._blocks: EntryReads[Runs] = EntryReads(ledgers, EntryCache(_BLOCK_BYTES_MAX, _size_of_block), decode_block)
        self.batches: EntryReads[Batch] = EntryReads(ledgers, cache, Batch.decode)

    async def runs(self, segment: Segment, slot: int, entry_id: int) -> Sequence[Run]:
        """Return some runs of a slot in a segment, from the one on that has `entry_id` or is next behind it.

        It returns none only if there are none. Raises: LedgerError.
        """
        rebuilt = self._rebuilt.get(segment.ledger)
        if rebuilt is None:
            try:
                root_entry, root = await self._root(segment)
                for number in root.blocks_of(slot, entry_id):
                    block = await self._blocks.get(segment.footer, root_entry - root.blocks + number)
                    if found := list(block.following(slot, entry_id)):
                        return found
                return ()
            except (CorruptEntryError, NoSuchLedgerError) as exc:
                rebuilt = await self._rebuild(segment, exc)
        return list(islice(rebuilt.following(slot, entry_id), BLOCK_RUNS_MAX))

    async def last_run(self, segment: Segment, slot: int) -> Run | None:
        """Return the last run of a slot in a segment, None if there is none.

        Raises: LedgerError; CorruptEntryError - the footer is damaged, and a batch too.
        """
        rebuilt = self._rebuilt.get(segment.ledger)
        if rebuilt is None:
            try:
                root_entry, root = await self._root(segment)
                for number in reversed(root.blocks_of(slot)):
                    block = await self._blocks.get(segment.footer, root_entry - root.blocks + number)
                    if (run := block.last_of(slot)) is not None:
                        return run
                return None
            except (CorruptEntryError, NoSuchLedgerError) as exc:
                rebuilt = await self._rebuild(segment, exc)
        # If its last messages were lost, others would get their ids, and subscribers skip those.
        _check_whole(segment, rebuilt)
        return rebuilt.last_of(slot)

    async def blocks(self, segment: Segment) -> AsyncIterator[Runs]:
        """Yield all runs of a segment, in their order.

        Raises: LedgerError; CorruptEntryError - the footer is damaged, and a batch too.
        """
        rebuilt = self._rebuilt.get(segment.ledger)
        last = (0, 0)
        if rebuilt is None:
            try:
                root_entry, root = await self._root(segment)
                for entry in range(root_entry - root.blocks, root_entry):
                    # Whoever wants all blocks wants each once, so they are not kept.
                    block = self._blocks.in_memory(segment.footer, entry) or await self._read_block(
                        segment.footer, entry
                    )
                    yield block
                    last = block.slots[-1], block.firsts[-1]
                    await asyncio.sleep(0)
                return
            except (CorruptEntryError, NoSuchLedgerError) as exc:
                rebuilt = await self._rebuild(segment, exc)
        _check_whole(segment, rebuilt)
        fields = dropwhile(lambda run: run[:2] <= last, rebuilt.in_order())
        while part := list(islice(fields, BLOCK_RUNS_MAX)):
            yield Runs.of(part)
            await asyncio.sleep(0)

    async def payloads(
        self, slot: int, first: int, runs: Sequence[tuple[int, Run]], entries_max: int, bytes_max: int
    ) -> list[bytes]:
        """Return the payloads from entry `first` on, without gap; at least one if there are runs.

        `runs` are ledgers and runs, in order.

        It waits for the first batch, and for those right behind that. It uses later ones as far as they are in memory.
        So a reader takes what a pass over the segment has at hand, and each batch that it waited for gives it records.

        Raises: LedgerError - the first batch cannot be read; CorruptEntryError - the first entry is in a damaged one.
        """
        if not runs:
            return []
        lost = CorruptEntryError(f"entry {first} of slot {slot} is lost", f"ledger {runs[0][0]}", runs[0][1].batch)
        if runs[0][1].first > first:
            raise lost  # Its batch was left out when the segment was sealed, since it was damaged.
        payloads: list[bytes] = []
        size = 0
        coming = deque(
            self.batches.get(ledger, run.batch) for ledger, run in _adjacent(runs, first, entries_max, bytes_max)
        )
        try:
            for ledger, run in runs:
                following = first + len(payloads)
                if payloads and (len(payloads) >= entries_max or size + run.size > bytes_max or run.first != following):
                    break
                try:
                    batch = await coming[0] if coming else self.batches.in_memory(ledger, run.batch)
                except LedgerError:
                    if payloads:
                        break
                    raise
                if batch is None:
                    break
                if coming:
                    coming.popleft()
                for entry_id, payload in batch.of(slot):
                    if entry_id < following:
                        continue
                    size += len(payload)
                    if payloads and (size > bytes_max or len(payloads) == entries_max):
                        return payloads
                    payloads.append(payload)
        finally:
            for each in coming:
                if not each.cancel() and not each.cancelled():
                    each.exception()  # Nobody else looks at it.
        if not payloads:
            raise lost
        return payloads

    async def aclose(self) -> None:
        """Read nothing any more."""
        await self._root_reads.aclose()
        await self._rebuilding.aclose()
        await self._blocks.aclose()
        await self.batches.aclose()

    async def _root(self, segment: Segment) -> tuple[int, Root]:
        known = self._roots.get(segment.footer)
        if known is not None:
            self._roots.move_to_end(segment.footer)
            return known
        return await self._root_reads.join(segment.footer, partial(self._read_root, segment.footer))

    async def _read_root(self, footer: int) -> tuple[int, Root]:
        entry = await self._ledgers.last_entry_id(footer)
        (data,) = await self._ledgers.read(footer, entry, entries_max=1, bytes_max=0)
        try:
            known = entry, Root.decode(data)
        except DamagedFooterError as exc:
            raise CorruptEntryError(str(exc), f"ledger {footer}", entry) from exc
        self._roots[footer] = known
        if len(self._roots) > _ROOTS_MAX:
            self._roots.popitem(last=False)
        return known

    async def _rebuild(self, segment: Segment, damage: LedgerError) -> GrowingRuns:
        """Return the runs of a segment from a look at all its batches. Raises: LedgerError."""
        if isinstance(damage, NoSuchLedgerError) and segment.footer == segment.ledger:
            raise damage
        return await self._rebuilding.join(segment.ledger, partial(self._read_batches, segment, damage))

    async def _read_batches(self, segment: Segment, damage: LedgerError) -> GrowingRuns:
        # Not several at once, since each takes time and memory.
        async with self._rebuilds:
            last = await self._ledgers.last_entry_id(segment.ledger)
            runs, _ = await runs_of_ledger(self._ledgers, segment.ledger, last, on_damaged=lambda _: None)
        found = f"{runs.records} of its {segment.records} messages are found without it"
        _log.error("the footer of a segment cannot be read, and %s: %s", found, damage)
        self._rebuilt[segment.ledger] = runs
        if len(self._rebuilt) > _REBUILT_MAX:
            self._rebuilt.popitem(last=False)
        return runs

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


async def runs_of_ledger(
    ledgers: SegmentLedgers, ledger: int, last_entry: int, *, on_damaged: Callable[[CorruptEntryError], object]
) -> tuple[GrowingRuns, int]:
    """Read all batches up to `last_entry`; return where their records are, and the last entry that is a batch.

    It goes on past a damaged batch: else one would keep all topics of the log from being served.

    Raises: LedgerError.
    """
    runs = GrowingRuns()
    last_data_entry = -1
    async for entry, batch in batches_of(ledgers, ledger, last_entry, on_damaged=on_damaged):
        runs.add(entry, batch.records())
        last_data_entry = entry
    return runs, last_data_entry


def _check_whole(segment: Segment, rebuilt: GrowingRuns) -> None:
    """Raise CorruptEntryError if batches of a segment without footer are damaged too."""
    lost = segment.records - rebuilt.records
    if lost > 0:
        raise CorruptEntryError(
            f"a segment's footer is damaged, and so are batches with {lost} of its messages",
            f"ledger {segment.footer}",
            0,
        )


def _adjacent(
    runs: Sequence[tuple[int, Run]], first: int, entries_max: int, bytes_max: int
) -> Iterator[tuple[int, Run]]:
    """Yield the first run, and those of the batches right behind it that are needed for so many entries and bytes."""
    following = first
    size = 0
    for number, (ledger, run) in enumerate(runs):
        if number:
            before, last = runs[number - 1]
            is_next = (ledger, run.batch, run.first) == (before, last.batch + 1, following)
            if not is_next or following - first >= entries_max or size + run.size > bytes_max:
                return
        following = run.last + 1
        size += run.size
        yield ledger, run


def _size_of_block(block: Runs) -> int:
    return NUMBER_BYTES * len(Run._fields) * len(block)
