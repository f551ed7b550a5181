"""The upkeep of a log: segments go once nobody needs a record in them, and half-dead or small ones are merged.

One hub at a time keeps a log up: its own hub while it is open, and afterwards the one that sweeps. Should two do so,
the compare-and-set of the log's record decides, and the other deletes what it has made.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from heapq import nlargest
from itertools import chain, islice
from operator import itemgetter
from typing import Final

from hedwig.clock import Clock
from hedwig.errors import CorruptEntryError, HedwigError, NoSuchLedgerError
from hedwig.hub.ledgers.shared.compaction import merge_segments
from hedwig.hub.ledgers.shared.held_record import HeldRecord, LogTakenOverError
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader
from hedwig.hub.ledgers.shared.sealing import Noting, discard, new_ledger
from hedwig.hub.ledgers.shared.segment_use import SegmentUse
from hedwig.hub.ledgers.store import LedgerStore, LogCounters
from hedwig.metadata.logs.record import DroppedLedger, LogRecord, Segment

__all__ = ["LogUpkeep"]

_log = logging.getLogger(__name__)

_FREED_SHARE: Final = 4
"""Merging half-dead segments frees this share of a whole segment at least."""
_SMALL_SHARE: Final = 4
"""A segment is small if its live records take at most this share of a whole one."""
_SMALL_MIN: Final = 8
"""So many small segments are merged at once at least."""
_LOOK_SLOTS: Final = 5000
"""How many slots a look visits before other tasks run."""
_PACE_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 60.0


class LogUpkeep:
    """Keeps one log up. `is_live` says whether the records of a slot are needed; a slot that is not never is again."""

    def __init__(
        self,
        ledgers: LedgerStore,
        reader: SegmentReader,
        held: HeldRecord,
        clock: Clock,
        options: SharedLogOptions,
        counters: LogCounters,
        is_live: Callable[[int], bool],
    ) -> None:
        self._ledgers = ledgers
        self._reader = reader
        self._held = held
        self._clock = clock
        self._options = options
        self._counters = counters
        self._is_live = is_live
        self._uses: dict[int, SegmentUse] = {}
        """By the ledger of the segment. Of a segment that is not sealed yet, it grows."""
        self._damaged: set[int] = set()
        """The ledgers of segments that cannot be merged."""
        self._merged: tuple[Sequence[Segment], Segment] | None = None
        """A new segment that the record does not name yet, as far as is known, and those that it has merged."""
        self._owed_s = 0.0
        """How long merging has to pause for what it has read."""

    @property
    def live_bytes(self) -> int:
        """How many bytes of messages in sealed segments are needed."""
        return sum(use.live_bytes for use in self._sealed_uses())

    async def largest(self, count: int) -> dict[int, int]:
        """Return the slots that are live with most bytes in sealed segments, and these bytes; about `count`.

        It looks for those that are large in a segment. One that is small in each could be missed.
        """
        found: set[int] = set()
        for use in self._sealed_uses():
            remaining, best = use.sizes(), list[tuple[int, int]]()
            while chunk := list(islice(remaining, _LOOK_SLOTS)):
                best = nlargest(count, chain(best, (each for each in chunk if self._is_live(each[1]))))
                await asyncio.sleep(0)
            found.update(slot for _, slot in best)
        totals = {}
        for slot in found:
            totals[slot] = sum(use.size_of(slot) for use in self._sealed_uses())
            await asyncio.sleep(0)
        return dict(nlargest(count, totals.items(), key=itemgetter(1)))

    def _sealed_uses(self) -> list[SegmentUse]:
        uses = (self._uses.get(each.ledger) for each in self._held.present.segments)
        return [each for each in uses if each is not None]

    def noting(self, ledger: int) -> Noting:
        """Return what notes the runs of a segment as its footer is written."""
        use = self._uses[ledger] = SegmentUse()
        return partial(use.noting, is_live=self._is_live)

    def drop(self, slot: int) -> None:
        """Note that a slot which was live is not needed any more."""
        for use in self._uses.values():
            use.drop(slot)

    async def read_uses(self) -> None:
        """Read from the footers what the segments hold, for a log that another hub has written.

        A segment whose ledgers are gone stays on record until the log goes. Raises: LedgerError.
        """
        for segment in self._held.present.segments:
            noting = self.noting(segment.ledger)
            try:
                async for block in self._reader.blocks(segment):
                    for _ in noting(block.fields()):
                        pass
            except NoSuchLedgerError as exc:
                del self._uses[segment.ledger]
                _log.warning("a segment of log %d is gone: %s", self._held.present.number, exc)

    async def drop_all(self) -> None:
        """Drop all segments of a log that nobody needs. Raises: as `step`."""
        if self._held.present.segments:
            await self._replace(self._held.present.segments, None, due=0)

    async def run(self) -> None:
        """Keep the log up until this is cancelled. Raises: LogTakenOverError - another hub has taken the log over."""
        pause_s = self._options.upkeep_interval_s
        while True:
            await self._clock.sleep(pause_s)
            try:
                while await self.step():
                    pass
                pause_s = self._options.upkeep_interval_s
            except LogTakenOverError:
                raise
            except (HedwigError, TimeoutError) as exc:
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
                _log.warning("upkeep of log %d goes on in %g s: %s", self._held.present.number, pause_s, exc)

    async def step(self) -> bool:
        """Do what is due first; return whether anything was.

        Raises: LogTakenOverError - another hub has taken the log over; HedwigError, TimeoutError - repeat it.
        """
        return (
            await self._record_merged()
            or await self._delete_dropped()
            or await self._drop_dead()
            or await self._merge()
        )

    # -------------------------------------------------------------------------------------------------- going

    async def _delete_dropped(self) -> bool:
        now = self._clock.wall()
        due = [each for each in self._held.present.dropped if each.due <= now]
        gone = frozenset([each for each in due if await discard(self._ledgers, each.ledger)])
        if gone:
            await self._held.change(partial(_without_dropped, gone=gone))
        return bool(gone)

    async def _drop_dead(self) -> bool:
        dead = [each for each in self._held.present.segments if self._is_dead(each)]
        if not dead:
            return False
        # Nobody reads them any more, so they may be deleted at once.
        await self._replace(dead, None, due=0)
        return True

    def _is_dead(self, segment: Segment) -> bool:
        use = self._uses.get(segment.ledger)
        return use is not None and not use.live_slots

    async def _replace(self, old: Sequence[Segment], new: Segment | None, due: int) -> None:
        """Name `new` instead of `old` in the record, unless that has changed in these."""
        await self._held.change(partial(_with_replaced, old=old, new=new, due=due))
        kept = {each.ledger for each in self._held.present.segments}
        gone = [each.ledger for each in old if each.ledger not in kept]
        for ledger in gone:
            self._uses.pop(ledger, None)
            self._damaged.discard(ledger)
        if new is None:
            self._counters.dead_segments += len(gone)
        elif new.ledger in kept:
            self._counters.merged_segments += len(gone)
            self._counters.merged_bytes += new.size

    # ------------------------------------------------------------------------------------------------- merging

    async def _merge(self) -> bool:
        segments = self._mergeable()
        if not segments:
            return False
        ledgers, number = self._ledgers, self._held.present.number
        ledger = await new_ledger(ledgers, number)
        try:
            merged = await merge_segments(
                ledgers, self._reader, ledger, segments, self._is_live, self.noting(ledger), self._pace
            )
        except BaseException as exc:
            if isinstance(exc, CorruptEntryError):
                _log.error("segments of log %d cannot be merged: %s", number, exc)
                self._damaged.update(each.ledger for each in segments)
            await asyncio.shield(self._discard(ledger))
            raise
        if merged is None:
            await self._discard(ledger)
        else:
            self._merged = segments, merged
        return True

    async def _record_merged(self) -> bool:
        """Name the segment that merging has made, instead of the former ones."""
        if self._merged is None:
            return False
        segments, merged = self._merged
        # Until this returns, the record may name the new segment or not.
        try:
            await self._replace(segments, merged, int(self._clock.wall() + self._options.grace_s))
        except LogTakenOverError as exc:
            if exc.present is None or merged not in exc.present.segments:
                await self._discard(merged.ledger)
            raise
        self._merged = None
        if merged not in self._held.present.segments:
            await self._discard(merged.ledger)
        return True

    async def _discard(self, ledger: int) -> None:
        self._uses.pop(ledger, None)
        await discard(self._ledgers, ledger)

    async def _pace(self, read_bytes: int) -> None:
        self._owed_s += read_bytes / self._options.merge_bytes_per_s
        if self._owed_s > _PACE_PAUSE_S:
            owed_s, self._owed_s = self._owed_s, 0.0
            await self._clock.sleep(owed_s)

    def _mergeable(self) -> list[Segment]:
        """Return segments that follow each other and are worth merging, none if there are none.

        Merging half-dead ones frees space. Merging small ones makes them few; each byte is merged again only once
        several times as much has come.
        """
        segments = self._held.present.segments
        for start in range(len(segments)):
            window = self._window(segments, start)
            lives = [self._uses[each.ledger].live_bytes for each in window]
            live, size = sum(lives), sum(each.size for each in window)
            frees = 2 * live <= size and size - live >= self._options.segment_bytes // _FREED_SHARE
            if window and (frees or (len(window) >= _SMALL_MIN and 2 * max(lives) <= live)):
                return window
        return []

    def _window(self, segments: Sequence[Segment], start: int) -> list[Segment]:
        """Return the half-dead or small segments from one on whose live records fit into one."""
        window: list[Segment] = []
        live = 0
        for segment in islice(segments, start, None):
            use = self._uses.get(segment.ledger)
            if use is None or segment.ledger in self._damaged:
                break
            is_small = use.live_bytes * _SMALL_SHARE <= self._options.segment_bytes
            live += use.live_bytes
            if not (is_small or 2 * use.live_bytes <= segment.size) or live > self._options.segment_bytes:
                break
            window.append(segment)
        return window


def _without_dropped(record: LogRecord, gone: Collection[DroppedLedger]) -> LogRecord | None:
    kept = tuple(each for each in record.dropped if each not in gone)
    return None if len(kept) == len(record.dropped) else record.changed(dropped=kept)


def _with_replaced(record: LogRecord, old: Sequence[Segment], new: Segment | None, due: int) -> LogRecord | None:
    """Return the record with `new` instead of `old`, which follow each other in it if there is a new one."""
    if new is None:
        gone = [each for each in record.segments if each in old]
        kept = tuple(each for each in record.segments if each not in old)
    else:
        gone = list(old)
        start = record.segments.index(old[0]) if old[0] in record.segments else len(record.segments)
        end = start + len(old)
        if record.segments[start:end] != tuple(old):
            return None
        kept = (*record.segments[:start], new, *record.segments[end:])
    if not gone:
        return None
    dropped = (*record.dropped, *(DroppedLedger(ledger, due) for each in gone for ledger in each.ledgers))
    return record.changed(segments=kept, dropped=dropped)
