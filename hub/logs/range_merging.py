"""Merging small ranges: the hub copies their messages into one ledger, which replaces them on record.

It writes and closes the copy before one compare-and-set replaces the ranges. Only then it deletes their ledgers. The
store refuses the write of an owner that was deposed meanwhile, which then deletes only its copy.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hedwig.errors import LedgerError, LedgerStoreUnavailableError
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.small_ranges import FAN, find_mergeable, messages_of
from hedwig.hub.options.options import HubOptions
from hedwig.model import LedgerRange, LedgerRanges, Topic

__all__ = ["Copy", "copy_small", "with_copy"]

_MESSAGES_MAX: Final = 100_000
_BYTES_MAX: Final = 64 << 20
"""The limits of a merged ledger, as in the default options. Smaller limits in the options apply too."""
_SMALL_BYTES_MIN: Final = 64 << 10
_READ_MESSAGES: Final = 1000
_READ_BYTES: Final = 1 << 20
_TRIES: Final = 4
"""How many times ranges may turn out not to be small before the hub leaves them for the next time."""
_COPY_S: Final = 300.0
"""How long a copy may take. After an hour, `metadata repair` takes a ledger that is on no record for an orphan."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A closed ledger with the messages of neighbouring ranges."""

    ledger_id: int
    ranges: tuple[LedgerRange, ...]


def with_copy(record: LedgerRanges, copy: Copy) -> LedgerRanges:
    """Return the ranges with the copy instead of the copied ones; unchanged, if some of those are gone meanwhile."""
    wanted = [each.ledger_id for each in copy.ranges]
    ids = [each.ledger_id for each in record.ranges]
    if wanted[0] not in ids:
        return record
    first = ids.index(wanted[0])
    end = first + len(wanted)
    if ids[first:end] != wanted or record.ranges[first].start != copy.ranges[0].start:
        return record
    merged = LedgerRange(ledger_id=copy.ledger_id, start=copy.ranges[0].start, end=record.ranges[end - 1].end)
    return replace(record, ranges=(*record.ranges[:first], merged, *record.ranges[end:]))


async def copy_small(store: LogContext, topic: Topic, record: LedgerRanges) -> Copy | None:
    """Copy small ranges into one ledger, if there are enough of them; return None if there are not.

    It holds one small range of a few mebibytes in memory at a time. If it raises, it leaves no ledger behind.

    Raises: LedgerError, TimeoutError.
    """
    messages_max, bytes_max = _small(store.options)
    for _ in range(_TRIES):
        mergeable = find_mergeable(messages_of(record.ranges, messages_max, store.large))
        if mergeable is None:
            return None
        async with store.copy_turn(), asyncio.timeout(_COPY_S):
            copy = await _copy(store, topic, record.ranges[slice(*mergeable)], bytes_max)
        if copy is not None:
            return copy
        # One of their ledgers is not small, and stays as it is from now on.
    return None


def _small(options: HubOptions) -> tuple[int, int]:
    """Return the maximum messages and bytes of a small range: a sixteenth of a ledger."""
    messages = min(options.ledger_messages_max or _MESSAGES_MAX, _MESSAGES_MAX)
    size = min(options.ledger_bytes_max or _BYTES_MAX, _BYTES_MAX)
    return max(messages // FAN, 1), max(size // FAN, _SMALL_BYTES_MIN)


async def _copy(store: LogContext, topic: Topic, ranges: Sequence[LedgerRange], bytes_max: int) -> Copy | None:
    """Copy as many ranges, from the first on, as one ledger may hold; return None if one of the first is not small."""
    ledger_id: int | None = None
    taken: list[LedgerRange] = []
    size = next_entry = 0
    try:
        for each in ranges:
            entries = await _read_small(store, each, bytes_max)
            if entries is None:
                break
            size += sum(map(len, entries))
            if size > FAN * bytes_max:
                break
            if ledger_id is None:
                async with store.ledger_turn():
                    ledger_id = await store.new_ledger(topic)
            appends = [
                store.ledgers.start_append(ledger_id, entry_id, entry)
                for entry_id, entry in enumerate(entries, next_entry)
            ]
            await store.within(_done(appends))
            next_entry += len(entries)
            taken.append(each)
        if ledger_id is not None and len(taken) >= FAN:
            last_entry = await store.within(store.ledgers.close(ledger_id))
            if last_entry != next_entry - 1:
                raise LedgerError(f"ledger {ledger_id} ends at entry {last_entry}, not at {next_entry - 1}")
            copy, ledger_id = Copy(ledger_id, tuple(taken)), None
            if size > bytes_max:
                store.large.add(copy.ledger_id)
            return copy
        return None
    finally:
        if ledger_id is not None:
            await store.drop(ledger_id)


async def _read_small(store: LogContext, each: LedgerRange, bytes_max: int) -> list[bytes] | None:
    """Return the messages of a range. If it is not small, return None, and exclude its ledger from now on."""
    assert each.start is not None
    assert each.end is not None
    messages = each.end.local - each.start + 1
    entries: list[bytes] = []
    size = 0
    is_fenced = False
    while len(entries) < messages:
        most = min(messages - len(entries), _READ_MESSAGES)
        try:
            more = await store.within(
                store.ledgers.read(each.ledger_id, len(entries), entries_max=most, bytes_max=_READ_BYTES)
            )
            if not more and not is_fenced:
                # A former owner may not have closed it.
                is_fenced = True
                await store.within(store.ledgers.open_and_fence(each.ledger_id))
                continue
        except LedgerStoreUnavailableError:
            raise
        except LedgerError:
            store.large.add(each.ledger_id)  # Damaged or gone: leave it, so that readers of its messages get the error.
            raise
        size += sum(map(len, more))
        if not more or size > bytes_max:
            store.large.add(each.ledger_id)
            return None
        entries += more
    return entries


async def _done(appends: "Sequence[asyncio.Future[None]]") -> None:
    await asyncio.gather(*appends)
