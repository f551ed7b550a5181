"""How a hub shuts the writer of a shared log out, and seals what it has left.

All hubs that take topics over from the same dead hub may do this at once. Whoever is first wins; the others delete what
they have made, and read what the record says then.
"""

import asyncio
import logging

from hedwig.errors import CorruptEntryError, NoSuchLedgerError
from hedwig.hub.ledgers.shared.entries.footers import DamagedFooterError, Root, is_footer
from hedwig.hub.ledgers.shared.reads.segment_reader import runs_of_ledger
from hedwig.hub.ledgers.shared.sealing import discard, seal_in_own_ledger
from hedwig.hub.ledgers.store import LedgerStore
from hedwig.metadata.logs.record import LogRecord, LogState, Segment
from hedwig.metadata.logs.records import LogRecords

__all__ = ["shut_out"]

_log = logging.getLogger(__name__)


async def shut_out(ledgers: LedgerStore, records: LogRecords, number: int) -> LogRecord | None:
    """Close a log, whoever writes it, and return its record; None if there is none.

    From then on nothing that its writer does takes effect: no append, and no ledger that the record does not list.
    Every record that it acknowledged is in a segment of the record. May be repeated.

    Raises: MetadataError; LedgerError - the writer may be shut out, so repeat it.
    """
    while True:
        record = await records.read(number)
        if record is None or record.state is LogState.CLOSED:
            return record
        if record.state is LogState.OPEN:
            fenced = record.changed(state=LogState.FENCED)
            if not await records.replace(record, fenced):
                continue
            record = fenced
        # All before any is read: what the writer puts into the second after a look at the first must not be missed.
        last_entries = [await _fence(ledgers, ledger) for ledger in record.listed]
        sealed: list[Segment] = []
        unused: list[int] = []
        try:
            for ledger, last_entry in zip(record.listed, last_entries, strict=True):
                segment = await _sealed(ledgers, number, ledger, last_entry)
                if segment is None:
                    unused.append(ledger)
                else:
                    sealed.append(segment)
            closed = record.changed(state=LogState.CLOSED, listed=(), segments=(*record.segments, *sealed))
            is_done = await records.replace(record, closed)
        except BaseException:
            await asyncio.shield(_discard_footers(ledgers, records, number, sealed))
            raise
        if is_done:
            for ledger in unused:
                await discard(ledgers, ledger)
            return closed
        await _discard_footers(ledgers, records, number, sealed)


async def _fence(ledgers: LedgerStore, ledger: int) -> int:
    try:
        return await ledgers.open_and_fence(ledger)
    except NoSuchLedgerError:
        # Listed by a hub that failed to begin, or found empty and deleted by a hub that was faster.
        return -1


async def _sealed(ledgers: LedgerStore, number: int, ledger: int, last_entry: int) -> Segment | None:
    """Return the segment in a fenced ledger; None if it has no batch."""
    if last_entry < 0:
        return None
    try:
        (last,) = await ledgers.read(ledger, last_entry, entries_max=1, bytes_max=0)
    except CorruptEntryError:
        last = b""
    if is_footer(last):
        try:
            root = Root.decode(last)
        except DamagedFooterError:
            pass  # The writer ended amid the footer.
        else:
            return Segment(
                ledger=ledger,
                footer=ledger,
                lowest_slot=root.lowest_slot,
                highest_slot=root.highest_slot,
                records=root.records,
                size=root.size,
            )
    runs, last_data_entry = await runs_of_ledger(ledgers, ledger, last_entry, on_damaged=_say_lost)
    if not runs.records:
        return None
    return await seal_in_own_ledger(ledgers, number, ledger, runs, last_data_entry)


def _say_lost(damage: CorruptEntryError) -> None:
    _log.error("a batch of messages is lost: %s (%s, entry %d)", damage, damage.path, damage.offset)


async def _discard_footers(ledgers: LedgerStore, records: LogRecords, number: int, sealed: list[Segment]) -> None:
    """Delete the ledgers of footers that were made here, unless the record names them after all."""
    own = {each.footer for each in sealed if each.footer != each.ledger}
    if not own:
        return
    try:
        record = await records.read(number)
    except Exception as exc:
        _log.warning("ledgers %s of footers may be of no use: %s", sorted(own), exc)
        return
    kept = set() if record is None else {each.footer for each in record.segments}
    for footer in sorted(own - kept):
        await discard(ledgers, footer)
