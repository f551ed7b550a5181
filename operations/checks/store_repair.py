"""Repair of findings of a check, one after the other, each by compare-and-set.

docs/reference/admin.md says for each repair why it harms no running hub, and what remains if it stops half way.
"""

from collections.abc import Collection, Iterable
from typing import Any, assert_never

from hedwig.errors import BadVersionError, CorruptRecordError, NoRecordError
from hedwig.metadata import MetadataStore, RecordKey
from hedwig.metadata.bulk.findings import Finding, FindingKind
from hedwig.metadata.bulk.repairs import (
    Renewals,
    RepairResult,
    delete_unreadable,
    make_topic,
    release_dead_owner,
    reset_pointer,
)
from hedwig.metadata.bulk.subscriber_index import enter, remove_entry
from hedwig.model import LedgerRanges, Topic
from hedwig.operations.checks.ledger_census import KnownLedgers
from hedwig.operations.checks.local_orphans import LocalOrphans
from hedwig.operations.checks.log_orphans import LogOrphans
from hedwig.operations.checks.reported import Reported
from hedwig.operations.deployment.hub_verdicts import HubState, HubVerdicts
from hedwig.versions import Version, Versioned

__all__ = ["StoreRepair"]


class StoreRepair:
    """Repairs of one store. Pass the findings in the order of a check, and call `end` after the last."""

    def __init__(
        self,
        store: MetadataStore,
        verdicts: HubVerdicts,
        known: KnownLedgers | str,
        orphans: LocalOrphans | None = None,
    ) -> None:
        """`orphans` deletes ledgers in the data directory of a standalone hub."""
        self._store = store
        self._verdicts = verdicts
        self._known = known if isinstance(known, KnownLedgers) else None
        self._topic: Topic | None = None
        """A topic to make after the repair of its last lone subscription. Once it exists, none of them is lone."""
        self._written: tuple[RecordKey, Version, LedgerRanges] | None = None
        self._renewals = Renewals()
        self._orphans = orphans
        self._log_orphans = LogOrphans(store)
        self._deleted: Collection[int] = ()
        """Which local ledgers of the current page were deleted."""

    async def begin(self, page: Iterable[Reported]) -> None:
        """Do what can be done for a whole page at once. Raises as `carry_out`; OperationError - it cannot be done."""
        local = [
            reported.finding.ledger_ids[0]
            for reported in page
            if reported.finding.kind is FindingKind.ORPHAN_LEDGER and reported.is_repairable and reported.entry is None
        ]
        if local:
            assert self._orphans is not None, "they are in a directory"
            self._deleted = await self._orphans.delete(local)

    async def carry_out(self, reported: Reported) -> RepairResult:
        """Repair one repairable finding.

        Raises: MetadataUnavailableError, UncertainStateError, LedgerStoreUnavailableError - a store does not answer;
            earlier repairs are done, and the command may be given again.
        """
        try:
            return await self._carry_out(reported)
        except CorruptRecordError:
            return RepairResult.LEFT  # Another record of the topic cannot be read. The check reports that one, too.

    async def end(self) -> None:
        """Finish the work that waited for the next finding."""
        topic, self._topic = self._topic, None
        if topic is not None:
            await make_topic(self._store, topic)

    async def _carry_out(self, reported: Reported) -> RepairResult:
        finding = reported.finding
        match finding.kind:
            case FindingKind.DEAD_OWNER:
                key, record = _seen(finding)
                return await release_dead_owner(self._store, key.topic, record, self._renewals)
            case FindingKind.LONE_SUBSCRIPTION:
                key, record = _seen(finding)
                return await self._keep_subscription(key, record)
            case FindingKind.RANGE_OVERLAP | FindingKind.RANGE_GAP | FindingKind.MISSING_LEDGER:
                return await self._write_ranges(reported)
            case FindingKind.UNREADABLE_RECORD:
                assert finding.key is not None, "it is a record's"
                assert finding.of is not None, "it is a record's"
                return await delete_unreadable(self._store, finding.of, finding.key, finding.version, self._renewals)
            case FindingKind.ORPHAN_LEDGER:
                return await self._delete_ledger(reported)
            case FindingKind.UNINDEXED_SUBSCRIPTION:
                assert finding.key is not None, "it is a subscription's"
                return await enter(self._store, finding.key)
            case FindingKind.STRAY_INDEX_ENTRY:
                assert finding.key is not None, "it is a subscription's"
                assert finding.version is not None, "it was read"
                return await remove_entry(self._store, finding.key, finding.version)
            case _:
                assert_never(finding.kind)

    async def _keep_subscription(self, key: RecordKey, record: Versioned[Any]) -> RepairResult:
        if self._topic != key.topic:
            await self.end()
        if await self._store.persistence.read(key.topic) is not None:
            return RepairResult.CHANGED  # The topic has been made since, and a hub may have the subscription open.
        result = await reset_pointer(self._store, key, record)
        if result is RepairResult.REPAIRED:
            self._topic = key.topic
        return result

    async def _write_ranges(self, reported: Reported) -> RepairResult:
        key, record = _seen(reported.finding)
        assert reported.ranges is not None, "it is repairable"
        written = key, record.version, reported.ranges
        if self._written == written:
            return RepairResult.REPAIRED  # The write for another finding of this record has repaired this one, too.
        version = self._renewals.of(key.topic, record.version)
        try:
            await self._store.persistence.write(key.topic, reported.ranges, version)
        except (BadVersionError, NoRecordError):
            return RepairResult.CHANGED
        self._written = written
        return RepairResult.REPAIRED

    async def _delete_ledger(self, reported: Reported) -> RepairResult:
        """Delete an orphan ledger, after making sure that no hub can still write it into the record.

        The hub that made the ledger may have slept since, with a write to the record still to come. A takeover of the
        topic makes that write fail. If no hub took the topic over, this method makes it fail.
        """
        assert self._known is not None, "the ledger comes from there"
        if reported.entry is None:
            return RepairResult.REPAIRED if reported.finding.ledger_ids[0] in self._deleted else RepairResult.CHANGED
        if (log := self._known.owner.log_of(reported.entry)) is not None:
            result = await self._log_orphans.shut_out(log, reported.entry.ledger_id)
            if result is not RepairResult.REPAIRED:
                return result
            return RepairResult.REPAIRED if await self._known.census.delete(reported.entry) else RepairResult.CHANGED
        assert reported.topic is not None, "it is repairable"
        owner = await self._store.ownership.read(reported.topic)
        state = HubState.DEAD if owner is None else await self._verdicts.of(owner.value)
        if state is HubState.UNKNOWN:
            return RepairResult.LEFT
        if state is HubState.DEAD:
            await self._renewals.renew(self._store, reported.topic)
        current = await self._store.persistence.read(reported.topic)
        ranges = LedgerRanges() if current is None else current.value
        if any(each.ledger_id == reported.entry.ledger_id for each in ranges.ranges):
            return RepairResult.CHANGED
        return RepairResult.REPAIRED if await self._known.census.delete(reported.entry) else RepairResult.CHANGED


def _seen(finding: Finding) -> tuple[RecordKey, Versioned[Any]]:
    assert finding.key is not None, "it is a record's"
    assert finding.record is not None, "it was read"
    return finding.key, finding.record
