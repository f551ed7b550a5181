"""Runs: where the entries of virtual ledgers are in a segment.

A run is what one batch has of one slot: entries with ids that follow each other. Runs are sorted by slot and by entry
id, so they are found by bisection. A segment that is not sealed yet has its runs in chunks, each sorted for itself.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from typing import Final, NamedTuple

from hedwig.hub.ledgers.shared.entries.columns import Column, column
from hedwig.metadata.logs.virtual_ids import SLOT_MAX

__all__ = ["GrowingRuns", "Run", "Runs"]

_CHUNK_RUNS: Final = 8192
"""Sorting as many takes some 5 ms, for which the event loop of a hub stands still."""


class Run(NamedTuple):
    """Entries of one slot in one batch: `batch` is the BookKeeper entry, `size` the bytes of the payloads."""

    slot: int
    first: int
    entries: int
    batch: int
    size: int

    @property
    def last(self) -> int:
        """Return the id of the last entry."""
        return self.first + self.entries - 1


class Runs:
    """Sorted runs, in columns."""

    __slots__ = ("batches", "counts", "firsts", "sizes", "slots")

    def __init__(self, slots: Column, firsts: Column, counts: Column, batches: Column, sizes: Column) -> None:
        """Take over columns of the same length, sorted by slot and first entry id."""
        self.slots = slots
        self.firsts = firsts
        self.counts = counts
        self.batches = batches
        self.sizes = sizes

    @classmethod
    def of(cls, runs: Iterable[Iterable[int]]) -> "Runs":
        """Return sorted runs, one at least, as columns."""
        return cls(*map(column, zip(*runs, strict=True)))

    def __len__(self) -> int:
        return len(self.slots)

    def fields(self) -> Iterator[tuple[int, ...]]:
        """Yield the fields of each run: a fifth of the time that Run takes."""
        return zip(self.slots, self.firsts, self.counts, self.batches, self.sizes, strict=True)

    def run(self, number: int) -> Run:
        """Return a run by its number."""
        return Run(
            self.slots[number], self.firsts[number], self.counts[number], self.batches[number], self.sizes[number]
        )

    def last_of(self, slot: int) -> Run | None:
        """Return the last run of a slot, None if there is none."""
        end = bisect_right(self.slots, slot)
        return self.run(end - 1) if end and self.slots[end - 1] == slot else None

    def following(self, slot: int, entry_id: int) -> Iterator[Run]:
        """Yield the runs of a slot from the one on that has `entry_id`, or that is next behind it."""
        start, end = bisect_left(self.slots, slot), bisect_right(self.slots, slot)
        number = bisect_right(self.firsts, entry_id, start, end)
        if number > start and self.run(number - 1).last >= entry_id:
            number -= 1
        return map(self.run, range(number, end))


class GrowingRuns:
    """The runs of a segment that is still written."""

    def __init__(self) -> None:
        self._chunks: list[Runs] = []
        self._open: tuple[list[int], ...] = _columns()
        """The newest runs, in the order in which they were written: the same columns as those of `Runs`."""
        self._numbers_of: dict[int, list[int]] = {}
        """Where in the columns a slot has runs, for the first `_indexed` of them. Only readers pay for this index."""
        self._indexed = 0
        self.records = 0
        self.size = 0
        """How many bytes the payloads have."""
        self.lowest_slot = SLOT_MAX
        self.highest_slot = 0

    def add(self, batch: int, records: Iterable[tuple[int, int, int]]) -> None:
        """Note the records of a batch, one at least: slots, entry ids and sizes of payloads, in their order."""
        if len(self._open[0]) >= _CHUNK_RUNS:
            self._sort()
        columns: Iterable[Sequence[int]] = zip(*records, strict=True)
        slots, firsts, sizes = columns
        self.records += len(slots)
        self.size += sum(sizes)
        counts: Sequence[int] = (1,) * len(slots)
        if len(set(slots)) < len(slots):
            slots, firsts, counts, sizes = _gathered(slots, firsts, sizes)
        self.lowest_slot = min(self.lowest_slot, *slots)
        self.highest_slot = max(self.highest_slot, *slots)
        # Whole columns at once: with 100,000 topics, nearly each record is a run of its own.
        for present, new in zip(self._open, (slots, firsts, counts, (batch,) * len(slots), sizes), strict=True):
            present += new

    def last_of(self, slot: int) -> Run | None:
        """Return the last run of a slot, None if there is none."""
        numbers = self._open_numbers_of(slot)
        if numbers:
            return _run(self._open, numbers[-1])
        return next((run for chunk in reversed(self._chunks) if (run := chunk.last_of(slot)) is not None), None)

    def following(self, slot: int, entry_id: int) -> Iterator[Run]:
        """Yield the runs of a slot from the one on that has `entry_id`, or that is next behind it."""
        for chunk in self._chunks:
            yield from chunk.following(slot, entry_id)
        for run in self._open_runs_of(slot):
            if run.last >= entry_id:
                yield run

    def in_order(self) -> Iterator[tuple[int, ...]]:
        """Yield the fields of all runs, sorted. Nothing may be added meanwhile."""
        self._sort()
        return merge(*(chunk.fields() for chunk in self._chunks))

    def _open_runs_of(self, slot: int) -> Iterator[Run]:
        # If the caller pauses meanwhile, these may become a chunk.
        return map(partial(_run, self._open), self._open_numbers_of(slot))

    def _open_numbers_of(self, slot: int) -> Sequence[int]:
        slots = self._open[0]
        for number in range(self._indexed, len(slots)):
            self._numbers_of.setdefault(slots[number], []).append(number)
        self._indexed = len(slots)
        return self._numbers_of.get(slot, ())

    def _sort(self) -> None:
        slots = self._open[0]
        if slots:
            # Runs of one slot stay in the order in which they were written, which is that of their entries.
            order = sorted(range(len(slots)), key=slots.__getitem__)
            self._chunks.append(Runs(*(column(map(each.__getitem__, order)) for each in self._open)))
            self._open, self._numbers_of, self._indexed = _columns(), {}, 0


def _columns() -> tuple[list[int], ...]:
    return [], [], [], [], []


def _run(columns: tuple[list[int], ...], number: int) -> Run:
    return Run(*(each[number] for each in columns))


def _gathered(slots: Sequence[int], entry_ids: Sequence[int], sizes: Sequence[int]) -> Iterable[Sequence[int]]:
    """Return the runs of a batch in which a slot has several records: slots, first entry ids, counts and sizes."""
    runs: dict[int, list[int]] = {}
    for slot, entry_id, size in zip(slots, entry_ids, sizes, strict=True):
        run = runs.get(slot)
        if run is None:
            runs[slot] = [slot, entry_id, 1, size]
        else:
            run[2] += 1
            run[3] += size
    return zip(*runs.values(), strict=True)
