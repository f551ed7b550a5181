"""The sealing of a segment: its footer goes behind its batches, or into a ledger of its own."""

import asyncio
import logging

from hedwig.errors import LedgerError
from hedwig.hub.ledgers.shared.footers import encode_footer
from hedwig.hub.ledgers.shared.log_record import Segment
from hedwig.hub.ledgers.shared.runs import GrowingRuns
from hedwig.hub.ledgers.store import LedgerStore

__all__ = ["seal_behind_batches", "seal_in_own_ledger"]

_log = logging.getLogger(__name__)


async def seal_behind_batches(ledgers: LedgerStore, ledger: int, runs: GrowingRuns, last_data_entry: int) -> Segment:
    """Append the footer to the ledger of the segment, which is open for append here, and close that ledger.

    Raises: LedgerError - the ledger holds a part of the footer at most; fence it, and use another for the footer.
    """
    await _write(ledgers, ledger, runs, last_data_entry, last_data_entry + 1)
    return _segment(ledger, ledger, runs)


async def seal_in_own_ledger(
    ledgers: LedgerStore, number: int, ledger: int, runs: GrowingRuns, last_data_entry: int
) -> Segment:
    """Write the footer of a fenced segment of log `number` into a new ledger. If this fails, nothing stays of it.

    Raises: LedgerError.
    """
    footer = await ledgers.create({"log": b"%d" % number, "footer-of": b"%d" % ledger})
    try:
        await _write(ledgers, footer, runs, last_data_entry, 0)
    except BaseException:
        await asyncio.shield(discard(ledgers, footer))
        raise
    return _segment(ledger, footer, runs)


async def discard(ledgers: LedgerStore, ledger: int) -> None:
    """Delete a ledger that no record names. If that fails, the sweep finds it."""
    try:
        await ledgers.delete(ledger)
    except LedgerError as exc:
        _log.warning("ledger %d is of no use, and cannot be deleted now: %s", ledger, exc)


async def _write(ledgers: LedgerStore, ledger: int, runs: GrowingRuns, last_data_entry: int, entry: int) -> None:
    appends = []
    for part in encode_footer(runs.in_order(), last_data_entry):
        append = ledgers.start_append(ledger, entry, part)
        append.add_done_callback(_look_at)  # If this call is cancelled, nobody else does.
        appends.append(append)
        entry += 1
        # A block takes milliseconds to make. The hub goes on in between.
        await asyncio.sleep(0)
    await asyncio.gather(*appends)
    await ledgers.close(ledger)


def _look_at(append: "asyncio.Future[None]") -> None:
    if not append.cancelled():
        append.exception()


def _segment(ledger: int, footer: int, runs: GrowingRuns) -> Segment:
    return Segment(
        ledger=ledger,
        footer=footer,
        lowest_slot=runs.lowest_slot,
        highest_slot=runs.highest_slot,
        records=runs.records,
        size=runs.size,
    )
