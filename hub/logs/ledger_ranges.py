"""The ranges of a durable topic: which messages each ledger holds, and what a record leaves to be found out.

The record of the last ledger has no end while its owner appends to it, and records of the original have no starts: both
are found in the ledgers themselves.
"""

import logging
from dataclasses import replace
from typing import Final

from hedwig.errors import CorruptEntryError, LedgerError
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.remote_positions import POSITIONS_BYTES_MAX, bounded
from hedwig.metadata.contract.kinds import RECORD_BYTES_MAX
from hedwig.metadata.records.range_sizes import stored_bytes
from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId, Topic
from hedwig.names import show_name
from hedwig.wire import Message

__all__ = [
    "dropped",
    "ended",
    "has_room",
    "holds_messages",
    "recover_ranges",
    "to_store",
    "without_consumed",
]

_NUMBER_MAX: Final = (1 << 64) - 1
_RANGE: Final = LedgerRange(ledger_id=_NUMBER_MAX, start=_NUMBER_MAX, end=MessageSeqId(_NUMBER_MAX))
_RESERVE_BYTES: Final = 2 * stored_bytes(LedgerRanges((_RANGE,))) + POSITIONS_BYTES_MAX + 256
"""What a record may grow by until the next range is begun: that range with its end, and one more.

The last are for the lengths of positions in other regions, and of all of them, where these take more than one byte.
"""

_log = logging.getLogger(__name__)

_DAMAGED_MAX: Final = 16
"""How many entries are read in search of a sound one."""


async def recover_ranges(store: LogContext, topic: Topic, found: LedgerRanges) -> LedgerRanges:
    """Return the ranges of `topic` with every start and end, for which an open last ledger is fenced.

    `found` itself if nothing was missing.

    Raises: LedgerError - a ledger cannot be read, or says something else than the record; TimeoutError.
    """
    ranges = list(found.ranges)
    previous_end = 0
    for index, each in enumerate(ranges):
        if each.start is None:
            ranges[index] = each = await _with_start(store, each, previous_end)
        if each.end is not None:
            previous_end = each.end.local
            continue
        if index != len(ranges) - 1:
            raise LedgerError(f"ledger {each.ledger_id} of topic '{show_name(topic)}' is open, but not the last one")
        last_entry = await store.within(store.ledgers.open_and_fence(each.ledger_id))
        assert each.start is not None
        end = MessageSeqId(each.start + last_entry)
        if last_entry >= 0:
            former = ranges[index - 1].end if index else None
            end = replace(end, remote=former.remote if former is not None else ())
            end = await _end_of(store, topic, each.ledger_id, last_entry, end)
        ranges[index:] = ended((), each, last_entry, end)
        if index and len(ranges) > index and last_entry < 0:
            del ranges[index:]  # An empty ledger says nothing that the range before it does not.
    if tuple(ranges) == found.ranges:
        return found
    return replace(found, ranges=tuple(ranges))


async def _with_start(store: LogContext, each: LedgerRange, previous_end: int) -> LedgerRange:
    """Give a range of an old record its start: behind the one before it, or so that its entries end at its end."""
    if previous_end or each.end is None:
        return replace(each, start=previous_end + 1)
    entries = await store.within(store.ledgers.last_entry_id(each.ledger_id)) + 1
    return replace(each, start=each.end.local - entries + 1)


async def _end_of(store: LogContext, topic: Topic, ledger_id: int, last_entry: int, end: MessageSeqId) -> MessageSeqId:
    """Return the position of the last message of a ledger, as the message itself has it.

    A message that is damaged keeps its position, as each entry has one. How far other regions had come is then what the
    last sound message says, or `end`.
    """
    for entry in range(last_entry, max(-1, last_entry - _DAMAGED_MAX), -1):
        local = end.local - (last_entry - entry)
        try:
            stored = await store.within(store.ledgers.read(ledger_id, entry, entries_max=1, bytes_max=1))
        except CorruptEntryError as exc:
            _log.error("message %d of topic '%s' is damaged: %s", local, show_name(topic), exc)
            continue
        seq_id = Message.decode(stored[0]).seq_id
        if seq_id is None or seq_id.local != local:
            raise LedgerError(f"entry {entry} of ledger {ledger_id} holds message {seq_id}, not {local}")
        return replace(end, remote=seq_id.remote)
    return end


def ended(
    before: tuple[LedgerRange, ...], last: LedgerRange, last_entry: int, end: MessageSeqId
) -> tuple[LedgerRange, ...]:
    """Return the ranges with the end of the last one; without it, if it is empty and says nothing."""
    if last_entry >= 0 or (not before and (last.start or 0) > 1):
        return (*before, replace(last, end=end))
    return before


def holds_messages(each: LedgerRange) -> bool:
    """Say whether there are, or may come, messages in a range; one whose ledger was emptied has them all behind it."""
    return each.end is None or each.start is None or each.start <= each.end.local


def dropped(before: LedgerRanges, after: LedgerRanges) -> tuple[LedgerRange, ...]:
    """Return the ranges of `before` whose ledgers hold nothing of the topic any more, as `after` says."""
    kept = {each.ledger_id for each in after.ranges if holds_messages(each)}
    return tuple(each for each in before.ranges if holds_messages(each) and each.ledger_id not in kept)


def without_consumed(ranges: LedgerRanges, consumed: int) -> LedgerRanges:
    """Return the ranges without those that hold only messages up to and with `consumed`."""
    done = 0
    while done < len(ranges.ranges) and (end := ranges.ranges[done].end) is not None and end.local <= consumed:
        done += 1
    kept = ranges.ranges[done:]
    if done and not kept:
        # The last range stays on record, without messages: it is what remembers which position comes next.
        last = ranges.ranges[-1]
        assert last.end is not None
        kept = (replace(last, start=last.end.local + 1),)
    return replace(ranges, ranges=kept)


def has_room(record: LedgerRanges) -> bool:
    """Say whether one more range may be begun: its end, and one range more, have to fit whatever the ledger comes to.

    What was begun is ended in any case: the managers take so much more than this.
    """
    return stored_bytes(record) + _RESERVE_BYTES <= RECORD_BYTES_MAX


def to_store(record: LedgerRanges) -> LedgerRanges:
    """Return a record as it is to be written: positions in other regions are kept where they are newest.

    Those of the last end go on; they are bounded, though hubs of the original write any number of them.
    """
    newer: dict[bytes, int] = {}
    ranges = list(record.ranges)
    for index in range(len(ranges) - 1, -1, -1):
        each = ranges[index]
        if each.end is None or not each.end.remote:
            continue
        remote = each.end.remote
        news = tuple(item for item in remote if item.seq_id > newer.get(item.region, -1))
        news = news if newer else bounded(news)
        newer.update((item.region, max(item.seq_id, newer.get(item.region, 0))) for item in remote)
        if news != remote:
            ranges[index] = replace(each, end=replace(each.end, remote=news))
    return record if tuple(ranges) == record.ranges else replace(record, ranges=tuple(ranges))
