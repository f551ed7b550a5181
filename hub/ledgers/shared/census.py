"""Count ledgers from outside where hubs have shared logs: the ledgers in these, and those of which logs consist.

A ledger in a log is there as long as its log is. What the log has of it is proved by the footers of all segments in
which it may be.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from hedwig.errors import CorruptRecordError, LedgerStoreUnavailableError, NoSuchLedgerError
from hedwig.hub.ledgers.census import LedgerCensus, LedgerEntry
from hedwig.hub.ledgers.shared.reads.entry_cache import batch_cache
from hedwig.hub.ledgers.shared.reads.entry_reads import SegmentLedgers
from hedwig.hub.ledgers.shared.reads.log_contents import LogContents
from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader
from hedwig.metadata.logs.record import LogRecord, LogState, Segment
from hedwig.metadata.logs.records import LogRecords
from hedwig.metadata.logs.virtual_ids import LOG_MAX, is_virtual, log_of, slot_of, virtual_id

__all__ = ["SharedLedgerCensus"]

_LOG: Final = "log"
"""Under this name, what is recorded about a ledger has the number of the log for which it was made."""
_LOOKS_MAX: Final = 50
_PAUSE_S: Final = 0.1
"""A server of ZooKeeper that is behind may show a ledger that is gone."""


class SharedLedgerCensus:
    """A LedgerCensus that knows the ledgers in shared logs, over one of the ledgers of which logs consist.

    `find` also finds virtual ledgers. `last_entry_id` of one in a closed log is the last entry up to which the log has
    all. A log that was removed had no ledger with entries that a range names. `pages` leaves out virtual ledgers, and
    those that the record of a log names; without `records`, all that were made for logs.

    Where the record of a log is damaged, its virtual ledgers have an `error`, and `pages` leaves out all that were made
    for it. These calls also raise MetadataError if the store does not answer.
    """

    def __init__(self, below: LedgerCensus, records: LogRecords | None, ledgers: SegmentLedgers) -> None:
        """`ledgers`: the ledgers that `below` counts."""
        self._below = below
        self._records = records
        self._contents = LogContents(SegmentReader(ledgers, batch_cache(0)))
        self._there: set[int] = set()
        """Ledgers of segments that were found to exist."""

    async def find(self, ledger_ids: Sequence[int]) -> list[LedgerEntry | None]:
        own = [each for each in ledger_ids if not is_virtual(each)]
        entries = dict(zip(own, await self._below.find(own), strict=True))
        virtual = sorted({each for each in ledger_ids if is_virtual(each)})
        for number, group in groupby(virtual, log_of):
            for slot, entry in (await self._find_in(number, [slot_of(each) for each in group])).items():
                entries[virtual_id(number, slot)] = entry
        return [entries.get(each) for each in ledger_ids]

    async def pages(self) -> AsyncIterator[list[LedgerEntry]]:
        named: set[int] | None = None
        async for page in self._below.pages():
            kept: list[LedgerEntry] = []
            for entry in page:
                if _LOG not in entry.about:
                    kept.append(entry)
                elif self._records is not None:
                    if named is None:
                        named = await _all_named(self._records)
                    if entry.ledger_id not in named and not await _is_named(self._records, entry):
                        kept.append(entry)
            yield kept

    async def now_ms(self) -> int | None:
        return await self._below.now_ms()

    async def delete(self, entry: LedgerEntry) -> bool:
        return await self._below.delete(entry)

    async def _find_in(self, number: int, slots: Sequence[int]) -> Mapping[int, LedgerEntry]:
        """Return the ledgers of a log that are in `slots`, which ascend."""
        for _ in range(_LOOKS_MAX):
            try:
                record, lost = await self._look(number)
            except CorruptRecordError as exc:
                return {slot: LedgerEntry(ledger_id=virtual_id(number, slot), error=str(exc)) for slot in slots}
            try:
                return await self._entries(number, record, lost, slots)
            except NoSuchLedgerError:
                # A segment has gone since the look. The record tells whether it had to.
                self._there.clear()
                await asyncio.sleep(_PAUSE_S)
        raise LedgerStoreUnavailableError(f"segments of log {number} are there at one look, and not at the next")

    async def _look(self, number: int) -> tuple[LogRecord | None, Sequence[tuple[Segment, str]]]:
        """Return the record of a log, and its segments that are lost, each with the reason."""
        assert self._records is not None, "else no ledger is looked for"
        record = await self._records.read(number)
        while record is not None:
            gone = await self._gone(record.segments)
            if not gone:
                break
            again = await self._records.read(number)
            if again == record:
                return record, gone
            record = again
        return record, ()

    async def _gone(self, segments: Iterable[Segment]) -> list[tuple[Segment, str]]:
        # The batches of a segment say what its footer says.
        wanted = sorted({each.ledger for each in segments} - self._there)
        found = await self._below.find(wanted)
        self._there.update(ledger for ledger, entry in zip(wanted, found, strict=True) if entry is not None)
        return [
            (each, f"ledger {each.ledger} of a segment does not exist")
            for each in segments
            if each.ledger not in self._there
        ]

    async def _entries(
        self, number: int, record: LogRecord | None, lost: Sequence[tuple[Segment, str]], slots: Sequence[int]
    ) -> Mapping[int, LedgerEntry]:
        if record is None:
            assert self._records is not None, "else no ledger is looked for"
            were = slots if number < await self._records.count() else ()
            return {slot: LedgerEntry(ledger_id=virtual_id(number, slot), last_entry_id=-1) for slot in were}
        whys = {slot: why for each, why in lost for slot in slots if each.lowest_slot <= slot <= each.highest_slot}
        lasts: Mapping[int, int] = {}
        if record.state is LogState.CLOSED:
            lasts = await self._contents.last_entries(record.segments, [slot for slot in slots if slot not in whys])
            for each in record.segments:
                if (damage := self._contents.damaged.get(each.footer)) is not None:
                    inside = [slot for slot in slots if each.lowest_slot <= slot <= each.highest_slot]
                    whys = dict.fromkeys(inside, damage) | whys
        return {
            slot: LedgerEntry(ledger_id=virtual_id(number, slot), last_entry_id=lasts.get(slot), lost=whys.get(slot))
            for slot in slots
        }


async def _all_named(records: LogRecords) -> set[int]:
    """Return the ledgers that the records of all logs name, as far as these can be read."""
    named: set[int] = set()
    async for number in records.numbers():
        with suppress(CorruptRecordError):
            record = await records.read(number)
            if record is not None:
                named |= record.ledgers
    return named


async def _is_named(records: LogRecords, entry: LedgerEntry) -> bool:
    """Say whether the log for which a ledger was made names it now, or may do so."""
    number = entry.about[_LOG]
    try:
        record = await records.read(int(number)) if number.isdigit() and int(number) <= LOG_MAX else None
    except CorruptRecordError:
        return True
    return record is not None and entry.ledger_id in record.ledgers
