"""What topics refer to in shared logs.

A range that was emptied tells which message comes next, and nobody reads its ledger again. So it refers to nothing.
"""

from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE
from hedwig.metadata.logs.slot_set import SlotSet
from hedwig.metadata.logs.virtual_ids import is_virtual, log_of, slot_of
from hedwig.metadata.records.ranges import held_ledgers
from hedwig.metadata.store import MetadataStore
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData

__all__ = ["References", "logs_named_by", "read_references"]


@dataclass(slots=True)
class References:
    """The logs that owners and ranges refer to, and of each log the slots that ranges refer to."""

    logs: set[int] = field(default_factory=set)
    slots: dict[int, SlotSet] = field(default_factory=dict)

    def has(self, log: int, slot: int) -> bool:
        """Say whether a range names the slot."""
        return log in self.slots and slot in self.slots[log]


def logs_named_by(record: HubInfo | LedgerRanges | SubscriptionData) -> Iterator[int]:
    """Yield the logs that a record names, some perhaps several times."""
    if isinstance(record, HubInfo):
        if record.log is not None:
            yield record.log
    elif isinstance(record, LedgerRanges):
        for each in held_ledgers(record):
            if is_virtual(each.ledger_id):
                yield log_of(each.ledger_id)


async def read_references(metadata: MetadataStore) -> References:
    """Read all owners and ranges of topics. Raises: MetadataError - also if one of them cannot be read."""
    references = References()
    async with aclosing(metadata.scan(kinds=(OWNERSHIP, PERSISTENCE))) as pages:
        async for page in pages:
            for each in page:
                record = each.read().value
                references.logs.update(logs_named_by(record))
                if isinstance(record, LedgerRanges):
                    for ledger_id in [ledger.ledger_id for ledger in held_ledgers(record)]:
                        if is_virtual(ledger_id):
                            references.slots.setdefault(log_of(ledger_id), SlotSet()).add(slot_of(ledger_id))
    return references
