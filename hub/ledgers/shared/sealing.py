"""The ledgers of segments: their making, their sealing with a footer, and their end.

A footer goes behind the batches, or into a ledger of its own.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TypeAlias

from hedwig.errors import LedgerError
from hedwig.hub.ledgers.shared.entries.footers import encode_footer
from hedwig.hub.ledgers.shared.entries.runs import GrowingRuns
from hedwig.hub.ledgers.store import LedgerStore
from hedwig.metadata.logs.record import Segment

__all__ = ["Noting", "discard", "look_at", "new_ledger", "seal_behind_batches", "seal_in_own_ledger"]

_log = logging.getLogger(__name__)

Noting: TypeAlias = Callable[[Iterator[tuple[int, ...]]], Iterator[tuple[int, ...]]]
"""Passes on the fields of all runs of a segment, sorted, as they go into the footer."""


async def new_ledger(ledgers: LedgerStore, number: int) -> int:
    """Make a ledger for a segment of log `number`. Raises: LedgerError."""
    return await ledgers.create({"log": b"%d" % number})


async def seal_behind_batches(
    ledgers: LedgerStore, ledger: int, runs: GrowingRuns, last_data_entry: int, noting: Noting = iter
) -> Segment:
    """Append the footer to the ledger of the segment, which is open for append here, and close that ledger.

    Raises: LedgerError - the ledger holds a part of the footer at most; fence it, and use another for the footer.
    """
    await _write(ledgers, ledger, runs, last_data_entry, last_data_entry + 1, noting)
    return _segment(ledger, ledger, runs)


async def seal_in_own_ledger(
    ledgers: LedgerStore,
    number: int,
    ledger: int,
    runs: GrowingRuns,
    last_data_entry: int,
    noting: Noting = iter,
) -> Segment:
    """Write the footer of a fenced segment of log `number` into a new ledger. If this fails, nothing stays of it.

    Raises: LedgerError.
    """
    footer = await ledgers.create({"log": b"%d" % number, "footer-of": b"%d" % ledger})
    try:
        await _write(ledgers, footer, runs, last_data_entry, 0, noting)
    except BaseException:
        await asyncio.shield(discard(ledgers, footer))
        raise
    return _segment(ledger, footer, runs)


async def discard(ledgers: LedgerStore, ledger: int) -> bool:
    """Delete a ledger that nobody needs; return whether it is gone. If no record names it, the sweep finds it then."""
    try:
        await ledgers.delete(ledger)
    except LedgerError as exc:
        _log.warning("ledger %d is of no use, and cannot be deleted now: %s", ledger, exc)
        return False
    return True


async def _write(
    ledgers: LedgerStore, ledger: int, runs: GrowingRuns, last_data_entry: int, entry: int, noting: Noting
) -> None:
    appends = []
    for part in encode_footer(noting(runs.in_order()), last_data_entry):
        append = ledgers.start_append(ledger, entry, part)
        append.add_done_callback(look_at)  # If this call is cancelled, nobody else does.
        appends.append(append)
        entry += 1
        # A block takes milliseconds to make. The hub goes on in between.
        await asyncio.sleep(0)
    await asyncio.gather(*appends)
    await ledgers.close(ledger)


def look_at(append: "asyncio.Future[None]") -> None:
    """Take note of the outcome of an append, for the case that nobody waits for it any more."""
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
