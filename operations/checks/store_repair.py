"""Carrying out what a check has found to be repairable, one finding after the other, each by compare-and-set.

docs/reference/admin.md says of each repair why it harms no hub that is running, and what is left if it ends half way.
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
from hedwig.model import LedgerRanges, Topic
from hedwig.operations.checks.ledger_census import KnownLedgers
from hedwig.operations.checks.local_orphans import LocalOrphans
from hedwig.operations.checks.reported import Reported
from hedwig.operations.deployment.hub_verdicts import HubState, HubVerdicts
from hedwig.versions import Version, Versioned

__all__ = ["StoreRepair"]


class StoreRepair:
    """Repairs of one store. Findings come in the order of a check; `end` comes after the last."""

    def __init__(
        self,
        store: MetadataStore,
        verdicts: HubVerdicts,
        known: KnownLedgers | str,
        orphans: LocalOrphans | None = None,
    ) -> None:
        """`orphans` deletes ledgers that are in the data directory of a standalone hub."""
        self._store = store
        self._verdicts = verdicts
        self._known = known if isinstance(known, KnownLedgers) else None
        self._topic: Topic | None = None
        """A topic that is to be made when its last lone subscription has been seen to: from then on none is lone."""
        self._written: tuple[RecordKey, Version, LedgerRanges] | None = None
        self._renewals = Renewals()
        self._orphans = orphans
        self._deleted: Collection[int] = ()
        """Which local ledgers of the page at hand went."""

    async def begin(self, page: Iterable[Reported]) -> None:
        """Do what is done for a page of findings at once. Raises as `carry_out`; OperationError - it cannot be done."""
        local = [
            found.finding.ledger_ids[0]
            for found in page
            if found.finding.kind is FindingKind.ORPHAN_LEDGER and found.is_repairable and found.entry is None
        ]
        if local:
            assert self._orphans is not None, "they are in a directory"
            self._deleted = await self._orphans.delete(local)

    async def carry_out(self, found: Reported) -> RepairResult:
        """Repair one thing that is repairable.

        Raises: MetadataUnavailableError, UncertainStateError, LedgerStoreUnavailableError - a store does not answer;
            what came before is done, and the command may be given again.
        """
        try:
            return await self._carry_out(found)
        except CorruptRecordError:
            return RepairResult.LEFT  # A record beside it cannot be read: that is found, too.

    async def end(self) -> None:
        """Finish what waited for the next finding."""
        topic, self._topic = self._topic, None
        if topic is not None:
            await make_topic(self._store, topic)

    async def _carry_out(self, found: Reported) -> RepairResult:
        finding = found.finding
        match finding.kind:
            case FindingKind.DEAD_OWNER:
                key, record = _seen(finding)
                return await release_dead_owner(self._store, key.topic, record, self._renewals)
            case FindingKind.LONE_SUBSCRIPTION:
                key, record = _seen(finding)
                return await self._keep_subscription(key, record)
            case FindingKind.RANGE_OVERLAP | FindingKind.RANGE_GAP | FindingKind.MISSING_LEDGER:
                return await self._write_ranges(found)
            case FindingKind.UNREADABLE_RECORD:
                assert finding.key is not None, "it is a record's"
                assert finding.of is not None, "it is a record's"
                return await delete_unreadable(self._store, finding.of, finding.key, finding.version, self._renewals)
            case FindingKind.ORPHAN_LEDGER:
                return await self._delete_ledger(found)
            case _:
                assert_never(finding.kind)

    async def _keep_subscription(self, key: RecordKey, record: Versioned[Any]) -> RepairResult:
        if self._topic != key.topic:
            await self.end()
        if await self._store.persistence.read(key.topic) is not None:
            return RepairResult.CHANGED  # Somebody has made it, and may have the subscription open.
        result = await reset_pointer(self._store, key, record)
        if result is RepairResult.REPAIRED:
            self._topic = key.topic
        return result

    async def _write_ranges(self, found: Reported) -> RepairResult:
        key, record = _seen(found.finding)
        assert found.ranges is not None, "it is repairable"
        written = key, record.version, found.ranges
        if self._written == written:
            return RepairResult.REPAIRED  # The same write mended it beside another finding of this record.
        version = self._renewals.of(key.topic, record.version)
        try:
            await self._store.persistence.write(key.topic, found.ranges, version)
        except (BadVersionError, NoRecordError):
            return RepairResult.CHANGED
        self._written = written
        return RepairResult.REPAIRED

    async def _delete_ledger(self, found: Reported) -> RepairResult:
        """Delete a ledger that nobody refers to, after nobody can come to refer to it any more.

        Its maker may be a hub that has slept since it made it, with a write that would put it on record. Whoever took
        the topic over has shut that out; where nobody has, that is done here.
        """
        assert self._known is not None, "it was found there"
        if found.entry is None:
            return RepairResult.REPAIRED if found.finding.ledger_ids[0] in self._deleted else RepairResult.CHANGED
        assert found.topic is not None, "it is repairable"
        owner = await self._store.ownership.read(found.topic)
        state = HubState.DEAD if owner is None else await self._verdicts.of(owner.value)
        if state is HubState.UNKNOWN:
            return RepairResult.LEFT
        if state is HubState.DEAD:
            await self._renewals.renew(self._store, found.topic)
        current = await self._store.persistence.read(found.topic)
        ranges = LedgerRanges() if current is None else current.value
        if any(each.ledger_id == found.entry.ledger_id for each in ranges.ranges):
            return RepairResult.CHANGED
        return RepairResult.REPAIRED if await self._known.census.delete(found.entry) else RepairResult.CHANGED


def _seen(finding: Finding) -> tuple[RecordKey, Versioned[Any]]:
    assert finding.key is not None, "it is a record's"
    assert finding.record is not None, "it was read"
    return finding.key, finding.record
