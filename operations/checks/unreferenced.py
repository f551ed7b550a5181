"""What no topic refers to in the segments of shared logs: what the hubs' next sweeps free. Nothing is changed."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from hedwig.errors import CorruptEntryError, CorruptRecordError, NoSuchLedgerError
from hedwig.metadata import MetadataStore
from hedwig.metadata.logs.record import LogRecord, LogState, Segment
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.references import References, read_references

if TYPE_CHECKING:
    from hedwig.hub.ledgers.inspection import LedgerInspector
    from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader

__all__ = ["SegmentUse", "UnreferencedSlots", "look_at_logs", "read_logs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentUse:
    """How many slots and bytes of messages a segment has, and how many of them no topic refers to.

    `lost` says why that cannot be read; then the numbers of slots are None.
    """

    log: int
    segment: Segment
    slots: int | None = None
    unreferenced_slots: int | None = None
    unreferenced_bytes: int | None = None
    lost: str | None = None


class UnreferencedSlots:
    """The logs of one store, and what topics referred to in them afterwards. Use `read` to make one.

    A segment that was sealed after the references were read is not among them. So what they do not name is needed by
    nobody, now or later. A sweep frees it once a second reading, an hour apart, does not name it either.
    """

    def __init__(self, logs: Sequence[LogRecord], references: References) -> None:
        self.logs = logs
        self._references = references

    @classmethod
    async def read(cls, store: MetadataStore) -> Self:
        """Read the records of all logs, then all owners and ranges. Raises: MetadataError."""
        logs = [record async for record in read_logs(store)]
        return cls(logs, await read_references(store) if logs else References())

    @property
    def removable(self) -> list[int]:
        """Return the numbers of the closed logs that no owner and no range refers to. They go as a whole."""
        return [
            log.number for log in self.logs if log.state is LogState.CLOSED and log.number not in self._references.logs
        ]

    async def segments(self, inspector: "LedgerInspector") -> AsyncIterator[SegmentUse]:
        """Yield what is used of each segment, log by log. Raises: LedgerStoreUnavailableError."""
        from hedwig.hub.ledgers.shared.inspector import InspectedLedgers
        from hedwig.hub.ledgers.shared.reads.entry_cache import batch_cache
        from hedwig.hub.ledgers.shared.reads.segment_reader import SegmentReader

        reader = SegmentReader(InspectedLedgers(inspector), batch_cache(0))
        for log in self.logs:
            for segment in log.segments:
                yield await self._use(reader, log.number, segment)

    async def _use(self, reader: "SegmentReader", log: int, segment: Segment) -> SegmentUse:
        slots = unreferenced = free = last = 0
        is_free = False
        try:
            async for block in reader.blocks(segment):
                for slot, size in zip(block.slots, block.sizes, strict=True):
                    if slot != last:
                        last, is_free = slot, not self._references.has(log, slot)
                        slots += 1
                        unreferenced += is_free
                    free += size if is_free else 0
        except (NoSuchLedgerError, CorruptEntryError) as exc:
            return SegmentUse(log=log, segment=segment, lost=str(exc))
        return SegmentUse(
            log=log, segment=segment, slots=slots, unreferenced_slots=unreferenced, unreferenced_bytes=free
        )


async def read_logs(store: MetadataStore) -> AsyncIterator[LogRecord]:
    """Yield the records of all shared logs, by number. Raises: MetadataError."""
    async for _, found in look_at_logs(store):
        if isinstance(found, CorruptRecordError):
            raise found
        yield found


async def look_at_logs(store: MetadataStore) -> AsyncIterator[tuple[int, LogRecord | CorruptRecordError]]:
    """Yield the number of each shared log with its record, or with the reason why that cannot be read.

    Raises: MetadataUnavailableError.
    """
    logs = KeptLogRecords(store.named_records)
    for number in [each async for each in logs.numbers()]:
        try:
            record = await logs.read(number)
        except CorruptRecordError as exc:
            yield number, exc
        else:
            if record is not None:
                yield number, record
