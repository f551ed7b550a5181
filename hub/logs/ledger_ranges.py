"""The ranges of a durable topic: which messages each ledger holds, and how the hub finds what a record lacks.

The record of the last ledger has no end while its owner appends to it. Records of the original have no starts. The hub
finds both in the ledgers themselves.
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
"""How much a record may grow until the next range begins: that range with its end, and one more.

The last bytes are for the length fields of positions in other regions, which may take more than one byte.
"""

_log = logging.getLogger(__name__)

_DAMAGED_MAX: Final = 16
"""How many entries the hub reads in search of a sound one."""


async def recover_ranges(store: LogContext, topic: Topic, recorded: LedgerRanges) -> LedgerRanges:
    """Return the ranges of `topic` with every start and end; fence an open last ledger to find its end.

    It returns `recorded` itself if nothing was missing.

    Raises: LedgerError - a ledger cannot be read, or contradicts the record; TimeoutError.
    """
    ranges = list(recorded.ranges)
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
            del ranges[index:]  # An empty ledger adds nothing to the range before it.
    if tuple(ranges) == recorded.ranges:
        return recorded
    return replace(recorded, ranges=tuple(ranges))


async def _with_start(store: LogContext, each: LedgerRange, previous_end: int) -> LedgerRange:
    """Return a range of an old record with its start: after the range before, or from its end and number of entries."""
    if previous_end or each.end is None:
        return replace(each, start=previous_end + 1)
    entries = await store.within(store.ledgers.last_entry_id(each.ledger_id)) + 1
    return replace(each, start=each.end.local - entries + 1)


async def _end_of(store: LogContext, topic: Topic, ledger_id: int, last_entry: int, end: MessageSeqId) -> MessageSeqId:
    """Return the position of the last message of a ledger, as stored in the message.

    A damaged message keeps its position, because each entry has one. The positions of other regions then come from the
    last sound message, or from `end`.
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
    """Return the ranges with the end of the last one; without it, if it is empty and adds nothing."""
    if last_entry >= 0 or (not before and (last.start or 0) > 1):
        return (*before, replace(last, end=end))
    return before


def holds_messages(each: LedgerRange) -> bool:
    """Say whether a range has messages, or may get some. A range whose messages were all consumed has none."""
    return each.end is None or each.start is None or each.start <= each.end.local


def dropped(before: LedgerRanges, after: LedgerRanges) -> tuple[LedgerRange, ...]:
    """Return the ranges of `before` whose ledgers hold no messages of the topic any more, according to `after`."""
    kept = {each.ledger_id for each in after.ranges if holds_messages(each)}
    return tuple(each for each in before.ranges if holds_messages(each) and each.ledger_id not in kept)


def without_consumed(ranges: LedgerRanges, consumed: int) -> LedgerRanges:
    """Return the ranges without those that hold only messages up to and including `consumed`."""
    done = 0
    while done < len(ranges.ranges) and (end := ranges.ranges[done].end) is not None and end.local <= consumed:
        done += 1
    kept = ranges.ranges[done:]
    if done and not kept:
        # The last range stays on record, without messages, because it keeps the next position.
        last = ranges.ranges[-1]
        assert last.end is not None
        kept = (replace(last, start=last.end.local + 1),)
    return replace(ranges, ranges=kept)


def has_room(record: LedgerRanges) -> bool:
    """Say whether one more range may begin: its end and one further range must fit, whatever the ledger will hold.

    A range that has begun is ended in any case, because the metadata managers accept that much more than this limit.
    """
    return stored_bytes(record) + _RESERVE_BYTES <= RECORD_BYTES_MAX


def to_store(record: LedgerRanges) -> LedgerRanges:
    """Return a record as the hub writes it: each position in another region only where it is newest.

    The positions of the last end are those that go on. They are bounded, although hubs of the original write any number
    of them.
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
