"""Merging small ranges: their messages are copied into one ledger, which takes their place on record.

The copy is written and closed before one compare-and-set puts it in the place of the ranges, and only then their
ledgers are deleted. An owner that was deposed meanwhile is refused, and deletes nothing but its copy.
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
"""What a merged ledger takes at most, like one of the default options; smaller ones of the options count as well."""
_SMALL_BYTES_MIN: Final = 64 << 10
_READ_MESSAGES: Final = 1000
_READ_BYTES: Final = 1 << 20
_TRIES: Final = 4
"""How often ranges may turn out to be no small ones until they are left for the next time."""
_COPY_S: Final = 300.0
"""How long a copy may take. `metadata repair` takes a ledger that is on no record for an orphan after an hour."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A closed ledger with the messages of neighbouring ranges."""

    ledger_id: int
    ranges: tuple[LedgerRange, ...]


def with_copy(record: LedgerRanges, copy: Copy) -> LedgerRanges:
    """Return the ranges with a copy in the place of what was copied; as they are, if some of that is gone meanwhile."""
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
    """Copy small ranges into one ledger, if there are enough of them; None if there are none.

    What is in memory at a time is one small range, of a few mebibytes. Raises: LedgerError, TimeoutError - nothing is
    left of it.
    """
    messages_max, bytes_max = _small(store.options)
    for _ in range(_TRIES):
        found = find_mergeable(messages_of(record.ranges, messages_max, store.large))
        if found is None:
            return None
        async with store.copy_turn(), asyncio.timeout(_COPY_S):
            copy = await _copy(store, topic, record.ranges[slice(*found)], bytes_max)
        if copy is not None:
            return copy
        # One of their ledgers is not small, and is left as it is from now on.
    return None


def _small(options: HubOptions) -> tuple[int, int]:
    """Return how many messages and bytes a small range has at most: a sixteenth of a ledger."""
    messages = min(options.ledger_messages_max or _MESSAGES_MAX, _MESSAGES_MAX)
    size = min(options.ledger_bytes_max or _BYTES_MAX, _BYTES_MAX)
    return max(messages // FAN, 1), max(size // FAN, _SMALL_BYTES_MIN)


async def _copy(store: LogContext, topic: Topic, ranges: Sequence[LedgerRange], bytes_max: int) -> Copy | None:
    """Copy as many ranges, from the first on, as one ledger is to hold; None if one of the first is not small."""
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
    """Return the messages of a range; None, and leave its ledger alone from now on, if these are more than few."""
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
                # A former owner may not have come to close it.
                is_fenced = True
                await store.within(store.ledgers.open_and_fence(each.ledger_id))
                continue
        except LedgerStoreUnavailableError:
            raise
        except LedgerError:
            store.large.add(each.ledger_id)  # Damaged or gone: whoever reads these messages is to be told.
            raise
        size += sum(map(len, more))
        if not more or size > bytes_max:
            store.large.add(each.ledger_id)
            return None
        entries += more
    return entries


async def _done(appends: "Sequence[asyncio.Future[None]]") -> None:
    await asyncio.gather(*appends)
